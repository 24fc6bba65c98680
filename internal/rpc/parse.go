package rpc

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/http2"
)

// connError ends a connection with GOAWAY.
type connError struct {
	code http2.ErrCode
	text string
}

func (e *connError) Error() string { return fmt.Sprintf("%v: %s", e.code, e.text) }

func protocolError(format string, args ...any) error {
	return &connError{http2.ErrCodeProtocol, fmt.Sprintf(format, args...)}
}

type parseState uint8

const (
	inPreface parseState = iota
	inHeader             // a frame's header
	inSmall              // a fixed part of a payload, collected in parser.small
	inData               // payload that goes to a stream, or nowhere
	inBlock              // a fragment of a header block
	inSkip               // padding, unknown frames
)

// parser is a push parser: it is fed what the socket had and keeps at most a few bytes of a frame, and the header block
// in flight. So a connection in the middle of a frame holds no buffer.
type parser struct {
	state parseState
	small [len(preface)]byte
	have  int
	want  int

	typ    http2.FrameType
	flags  http2.Flags
	id     uint32
	length int // bytes of the payload not yet consumed, padding included
	pad    int

	stream      *Stream // of the DATA frame being read; nil discards
	block       []byte  // header block in flight
	blockStream uint32  // its stream; 0 when none
	blockEnds   bool    // its HEADERS frame had END_STREAM
	blockFrames int

	settings   settings
	sawSetting bool
}

// settings collects a SETTINGS frame's entries until its end, so that a frame of thousands of INITIAL_WINDOW_SIZE
// entries costs one walk over the streams.
type settings struct {
	window, maxFrame, maxList int64 // -1: not in this frame
}

func (c *conn) feed(b []byte) error {
	p := &c.in
	for len(b) > 0 {
		switch p.state {
		case inPreface, inHeader, inSmall:
			n := copy(p.small[p.have:p.want], b)
			p.have += n
			b = b[n:]
			if p.state == inPreface && string(p.small[:p.have]) != preface[:p.have] {
				return errPreface
			}
			if p.have < p.want {
				return nil
			}
			p.have = 0
			if err := c.small(); err != nil {
				return err
			}
		case inData:
			n := min(len(b), p.length-p.pad)
			if p.stream != nil {
				c.deliver(p.stream, b[:n])
			}
			b = b[n:]
			p.length -= n
			if p.length == p.pad {
				c.dataEnd()
			}
		case inBlock:
			n := min(len(b), p.length-p.pad)
			if err := c.blockAppend(b[:n]); err != nil {
				return err
			}
			b = b[n:]
			p.length -= n
			if p.length == p.pad {
				if err := c.blockEnd(); err != nil {
					return err
				}
			}
		case inSkip:
			n := min(len(b), p.length)
			b = b[n:]
			p.length -= n
			if p.length == 0 {
				p.next()
			}
		}
		if c.ctrlSize.Load() > ctrlLimit {
			if err := c.flushBlocking(); err != nil {
				return err
			}
		}
	}
	return nil
}

// next waits for the next frame, after what is left of this one.
func (p *parser) next() {
	if p.length > 0 {
		p.state = inSkip
		return
	}
	p.state, p.want, p.stream = inHeader, frameHeaderLen, nil
}

func (p *parser) collect(n int) { p.state, p.want = inSmall, n }

// small handles what parser.small has collected.
func (c *conn) small() error {
	p := &c.in
	switch p.state {
	case inPreface:
		c.phase.Store(phaseSettings)
		c.greet()
		p.next()
		return nil
	case inHeader:
		h := p.small[:]
		p.length = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
		p.typ, p.flags = http2.FrameType(h[3]), http2.Flags(h[4])
		p.id = binary.BigEndian.Uint32(h[5:]) & maxWindow
		p.pad = 0
		return c.frameHeader()
	}
	p.length -= p.want
	return c.payload()
}

// frameHeader checks what can be told from the nine bytes of a frame's header and decides how its payload is read.
func (c *conn) frameHeader() error {
	p := &c.in
	if err := c.checkOrder(); err != nil {
		return err
	}
	switch p.typ {
	case http2.FrameData:
		return c.dataHeader()
	case http2.FrameHeaders:
		return c.headersHeader()
	case http2.FrameContinuation:
		return c.continuationHeader()
	case http2.FrameSettings:
		return c.settingsHeader()
	case http2.FramePushPromise:
		return protocolError("PUSH_PROMISE from a client")
	case http2.FramePriority:
		return c.fixedHeader(5)
	case http2.FrameRSTStream, http2.FrameWindowUpdate:
		return c.fixedHeader(4)
	case http2.FramePing:
		return c.fixedHeader(8)
	case http2.FrameGoAway:
		return c.goAwayHeader()
	}
	p.next() // RFC 9113 5.5: unknown frames are ignored
	return c.spend(1)
}

// checkOrder holds every frame to its length and to what may come before it.
func (c *conn) checkOrder() error {
	p := &c.in
	if p.length > maxFrameLen {
		return &connError{http2.ErrCodeFrameSize, fmt.Sprintf("frame of %d bytes", p.length)}
	}
	if p.blockStream != 0 && (p.typ != http2.FrameContinuation || p.id != p.blockStream) {
		return protocolError("%v frame inside a header block", p.typ)
	}
	if !p.sawSetting {
		if p.typ != http2.FrameSettings || p.flags.Has(http2.FlagSettingsAck) {
			return protocolError("the first frame is %v, not SETTINGS", p.typ)
		}
		p.sawSetting = true
		c.phase.Store(phaseOpen)
	}
	return nil
}

// fixedHeader is for frames of one length, which belong to a stream or to the connection.
func (c *conn) fixedHeader(n int) error {
	p := &c.in
	switch p.typ {
	case http2.FramePing:
		if p.id != 0 {
			return protocolError("PING on stream %d", p.id)
		}
	case http2.FramePriority, http2.FrameRSTStream:
		if p.id == 0 {
			return protocolError("%v on stream 0", p.typ)
		}
	}
	if p.length == n {
		p.collect(n)
		return nil
	}
	if p.typ == http2.FramePriority { // RFC 9113 6.3: an error of the stream alone
		c.resetStream(p.id, http2.ErrCodeFrameSize)
		p.next()
		return c.spend(1)
	}
	return &connError{http2.ErrCodeFrameSize, fmt.Sprintf("%v of %d bytes", p.typ, p.length)}
}

func (c *conn) goAwayHeader() error {
	p := &c.in
	if p.length < 8 {
		return &connError{http2.ErrCodeFrameSize, "short GOAWAY"}
	}
	if p.id != 0 {
		return protocolError("GOAWAY on stream %d", p.id)
	}
	p.collect(8)
	return nil
}

func (c *conn) continuationHeader() error {
	p := &c.in
	if p.blockStream == 0 {
		return protocolError("CONTINUATION without HEADERS")
	}
	p.state = inBlock
	if p.length == 0 {
		return c.blockEnd()
	}
	return nil
}

func (c *conn) dataHeader() error {
	p := &c.in
	if p.id == 0 {
		return protocolError("DATA on stream 0")
	}
	if err := c.dataBegin(); err != nil {
		return err
	}
	if p.flags.Has(http2.FlagDataPadded) {
		if p.length == 0 {
			return &connError{http2.ErrCodeFrameSize, "padded DATA without a pad length"}
		}
		p.collect(1)
		return nil
	}
	p.state = inData
	if p.length == 0 {
		c.dataEnd()
	}
	return nil
}

func (c *conn) headersHeader() error {
	p := &c.in
	if p.id == 0 {
		return protocolError("HEADERS on stream 0")
	}
	fixed := 0
	if p.flags.Has(http2.FlagHeadersPadded) {
		fixed++
	}
	if p.flags.Has(http2.FlagHeadersPriority) {
		fixed += 5
	}
	if p.length < fixed {
		return &connError{http2.ErrCodeFrameSize, "HEADERS shorter than its fields"}
	}
	p.blockStream, p.blockEnds, p.blockFrames = p.id, p.flags.Has(http2.FlagHeadersEndStream), 0
	c.blockSince.Store(c.s.clock.Load())
	if fixed > 0 {
		p.collect(fixed)
		return nil
	}
	p.state = inBlock
	if p.length == 0 {
		return c.blockEnd()
	}
	return nil
}

func (c *conn) settingsHeader() error {
	p := &c.in
	ack := p.flags.Has(http2.FlagSettingsAck)
	switch {
	case p.id != 0:
		return protocolError("SETTINGS on stream %d", p.id)
	case p.length%6 != 0 || ack && p.length != 0:
		return &connError{http2.ErrCodeFrameSize, fmt.Sprintf("SETTINGS of %d bytes", p.length)}
	case ack:
		c.acked.Store(true)
		p.next()
		return c.spend(1)
	}
	p.settings = settings{-1, -1, -1}
	if p.length == 0 {
		return c.applySettings()
	}
	p.collect(6)
	return nil
}

// payload handles the fixed part of a frame's payload.
func (c *conn) payload() error {
	p := &c.in
	b := p.small[:p.want]
	switch p.typ {
	case http2.FrameData:
		return c.padLength(int(b[0]), inData)
	case http2.FrameHeaders:
		pad := 0
		if p.flags.Has(http2.FlagHeadersPadded) {
			pad, b = int(b[0]), b[1:]
		}
		if len(b) > 0 && binary.BigEndian.Uint32(b)&maxWindow == p.id {
			return protocolError("stream %d depends on itself", p.id)
		}
		return c.padLength(pad, inBlock)
	case http2.FrameSettings:
		if err := c.setting(http2.SettingID(binary.BigEndian.Uint16(b)), binary.BigEndian.Uint32(b[2:])); err != nil {
			return err
		}
		if p.length > 0 {
			p.collect(6)
			return nil
		}
		return c.applySettings()
	case http2.FrameGoAway:
		p.next()
		c.clientGoesAway()
		return c.spend(1)
	case http2.FramePriority:
		p.next()
		if binary.BigEndian.Uint32(b)&maxWindow == p.id {
			c.resetStream(p.id, http2.ErrCodeProtocol)
		}
		return c.spend(1)
	case http2.FramePing:
		p.next()
		return c.ping(b)
	case http2.FrameRSTStream:
		p.next()
		return c.resetByPeer(p.id)
	default: // WINDOW_UPDATE
		p.next()
		return c.windowUpdate(p.id, int64(binary.BigEndian.Uint32(b)&maxWindow))
	}
}

// padLength applies a pad length and goes on to the payload proper.
func (c *conn) padLength(pad int, to parseState) error {
	p := &c.in
	if pad > p.length {
		return protocolError("padding of %d in %d bytes", pad, p.length)
	}
	p.pad, p.state = pad, to
	if to == inData {
		c.creditPadding(p.stream, pad+1)
	}
	if p.length > pad {
		return nil
	}
	if to == inData {
		c.dataEnd()
		return nil
	}
	return c.blockEnd()
}
