package rpc

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// Frames are appended to byte slices and parsed in place: http2.Framer would keep a read buffer of up to a frame per
// connection and allocate a struct per frame. Only its vocabulary is used.

const (
	frameHeaderLen = 9
	maxFrameLen    = 16 << 10  // the smallest value of SETTINGS_MAX_FRAME_SIZE there is; we never offer more
	maxWindow      = 1<<31 - 1 // RFC 9113 6.9.1
	defaultWindow  = 65535     // RFC 9113 6.9.2
	preface        = http2.ClientPreface
)

func appendFrameHeader(b []byte, n int, t http2.FrameType, f http2.Flags, id uint32) []byte {
	return append(b, byte(n>>16), byte(n>>8), byte(n), byte(t), byte(f), byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

func appendSettings(b []byte, s ...http2.Setting) []byte {
	b = appendFrameHeader(b, 6*len(s), http2.FrameSettings, 0, 0)
	for _, v := range s {
		b = binary.BigEndian.AppendUint16(b, uint16(v.ID))
		b = binary.BigEndian.AppendUint32(b, v.Val)
	}
	return b
}

func appendSettingsAck(b []byte) []byte {
	return appendFrameHeader(b, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
}

func appendPing(b []byte, f http2.Flags, data []byte) []byte {
	return append(appendFrameHeader(b, 8, http2.FramePing, f, 0), data...)
}

func appendWindowUpdate(b []byte, id uint32, n int) []byte {
	return binary.BigEndian.AppendUint32(appendFrameHeader(b, 4, http2.FrameWindowUpdate, 0, id), uint32(n))
}

func appendReset(b []byte, id uint32, code http2.ErrCode) []byte {
	return binary.BigEndian.AppendUint32(appendFrameHeader(b, 4, http2.FrameRSTStream, 0, id), uint32(code))
}

func appendGoAway(b []byte, last uint32, code http2.ErrCode, text string) []byte {
	b = appendFrameHeader(b, 8+len(text), http2.FrameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	return append(b, text...)
}

// beginHeaders appends a HEADERS frame without a length; endHeaders fills it in, and splits off CONTINUATION frames if
// the block turned out longer than the peer's frames may be. at is what beginHeaders returned.
func beginHeaders(b []byte, id uint32, endStream bool) (_ []byte, at int) {
	f := http2.FlagHeadersEndHeaders
	if endStream {
		f |= http2.FlagHeadersEndStream
	}
	at = len(b)
	return append(appendFrameHeader(b, 0, http2.FrameHeaders, f, id), tableSizeZero), at
}

func endHeaders(b []byte, at, maxFrame int) []byte {
	n := len(b) - at - frameHeaderLen
	if n <= maxFrame {
		putLen(b[at:], n)
		return b
	}
	id := binary.BigEndian.Uint32(b[at+5:])
	rest := append([]byte(nil), b[at+frameHeaderLen+maxFrame:]...)
	b = b[:at+frameHeaderLen+maxFrame]
	putLen(b[at:], maxFrame)
	b[at+4] &^= byte(http2.FlagHeadersEndHeaders)
	for len(rest) > 0 {
		k := min(len(rest), maxFrame)
		var f http2.Flags
		if k == len(rest) {
			f = http2.FlagContinuationEndHeaders
		}
		b = append(appendFrameHeader(b, k, http2.FrameContinuation, f, id), rest[:k]...)
		rest = rest[k:]
	}
	return b
}

func putLen(b []byte, n int) { b[0], b[1], b[2] = byte(n>>16), byte(n>>8), byte(n) }

// Header blocks are written without a dynamic table: every field is a literal that is not indexed. That costs some 40
// bytes a call on the wire, keeps no encoder state per connection, and lets any goroutine encode at any time. Each
// block opens with "table size 0", because RFC 7541 4.2 wants an update when the peer lowers its table below ours.
const tableSizeZero = 0x20

// Indices of the static table, RFC 7541 appendix A.
const (
	hpackStatus      = 8
	hpackContentType = 31
)

func appendVarint(b []byte, first byte, bits uint, v int) []byte {
	k := 1<<bits - 1
	if v < k {
		return append(b, first|byte(v))
	}
	b = append(b, first|byte(k))
	for v -= k; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

func appendHpackString(b []byte, s string) []byte {
	return append(appendVarint(b, 0, 7, len(s)), s...)
}

func appendField(b []byte, name, value string) []byte {
	return appendHpackString(appendHpackString(append(b, 0), name), value)
}

func appendIndexedName(b []byte, index int, value string) []byte {
	return appendHpackString(appendVarint(b, 0, 4, index), value)
}
