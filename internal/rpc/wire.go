package rpc

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// The gRPC side of headers: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md

// maxStatusMessage bounds grpc-message: clients have header limits of their own.
const maxStatusMessage = 1 << 10

func appendResponse(b []byte, httpStatus string) []byte {
	if httpStatus == "200" {
		b = append(b, 0x80|hpackStatus)
	} else {
		b = appendIndexedName(b, hpackStatus, httpStatus)
	}
	return appendIndexedName(b, hpackContentType, "application/grpc")
}

// appendStatus appends the status fields. Details that a client's header limit has no room for are left out: the code
// matters more.
func appendStatus(b []byte, st *status.Status, maxList int64) []byte {
	b = appendField(b, "grpc-status", strconv.Itoa(int(st.Code())))
	size := int64(200)
	if m := st.Message(); m != "" {
		m = percentEncode(shorten(m, maxStatusMessage))
		size += int64(len(m)) + 44
		if size > maxList {
			return b
		}
		b = appendField(b, "grpc-message", m)
	}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if raw, err := proto.Marshal(p); err == nil {
			v := base64.RawStdEncoding.EncodeToString(raw)
			if size+int64(len(v))+56 <= maxList {
				b = appendField(b, "grpc-status-details-bin", v)
			}
		}
	}
	return b
}

func appendMetadata(b []byte, md metadata.MD) []byte {
	for k, vs := range md {
		k = strings.ToLower(k)
		if !validName(k) || isReserved(k) {
			continue
		}
		for _, v := range vs {
			if strings.HasSuffix(k, "-bin") {
				v = base64.RawStdEncoding.EncodeToString([]byte(v))
			}
			b = appendField(b, k, strings.Map(printable, v))
		}
	}
	return b
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

func isReserved(k string) bool {
	switch k {
	case "te", "content-type", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return true
	}
	return strings.HasPrefix(k, "grpc-") && k != "grpc-previous-rpc-attempts" && k != "grpc-retry-pushback-ms"
}

func makeMetadata(fields []hpack.HeaderField) metadata.MD {
	md := make(metadata.MD, len(fields))
	for _, f := range fields {
		if !strings.HasSuffix(f.Name, "-bin") {
			md[f.Name] = append(md[f.Name], f.Value)
			continue
		}
		for v := range strings.SplitSeq(f.Value, ",") {
			raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
			if err == nil { // what is not base64 says nothing
				md[f.Name] = append(md[f.Name], string(raw))
			}
		}
	}
	return md
}

func percentEncode(s string) string {
	plain := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '%' {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// parseTimeout reads grpc-timeout: at most eight digits and a unit. An empty one is none.
func parseTimeout(s string) (time.Duration, bool) {
	if s == "" {
		return 0, true
	}
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 64)
	if err != nil {
		return 0, false
	}
	var unit time.Duration
	switch s[len(s)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, false
	}
	const longest = 1<<63 - 1
	if n > uint64(longest/unit) {
		return longest, true
	}
	return time.Duration(n) * unit, true
}

// toStatus is the one place where a handler's error becomes a status.
func toStatus(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	if st, ok := status.FromError(err); ok {
		return st
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, err.Error())
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, err.Error())
	case errors.Is(err, io.ErrUnexpectedEOF):
		// Not INTERNAL: the same bytes will be as short the next time, and INTERNAL is retried.
		return status.New(codes.InvalidArgument, "the client ended the stream inside a message")
	}
	return status.New(codes.Unknown, err.Error())
}

func contextStatus(err error) error { return status.FromContextError(err).Err() }
