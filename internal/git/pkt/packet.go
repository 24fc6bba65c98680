package pkt

import (
	"errors"
	"fmt"
)

// Kind of a packet. All but Data have no payload.
type Kind uint8

const (
	Data        Kind = iota
	Flush            // 0000: the end of a message
	Delim            // 0001: the end of a section of a message (v2)
	ResponseEnd      // 0002: the end of a response over a stateless connection (v2)
)

func (k Kind) String() string {
	return [...]string{"a line", "a flush packet", "a delimiter packet", "a response-end packet"}[k]
}

const (
	headerLen = 4
	// MaxPayload of one packet; its length in front makes it 65520 bytes.
	MaxPayload = 65516
)

// ErrMalformed is wrapped by errors of what is no pkt-line, no side-band, or a packet that may not stand where it does.
// That the bytes end too early is io.ErrUnexpectedEOF instead.
var ErrMalformed = errors.New("malformed")

// parseHeader takes the four bytes before a packet apart. h must be that long.
func parseHeader[T []byte | string](h T) (kind Kind, payload int, err error) {
	n := 0
	for i := range headerLen {
		digit, ok := hexDigit(h[i])
		if !ok {
			return 0, 0, fmt.Errorf("%w: a packet's length is %q, not four hexadecimal digits", ErrMalformed, h[:headerLen])
		}
		n = n<<4 | digit
	}
	switch {
	case n >= headerLen && n <= headerLen+MaxPayload:
		return Data, n - headerLen, nil
	case n < int(ResponseEnd):
		return Kind(n + 1), 0, nil
	}
	return 0, 0, fmt.Errorf("%w: no packet has the length %q", ErrMalformed, h[:headerLen])
}

func hexDigit(c byte) (value int, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0'), true
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10, true
	}
	return 0, false
}

// putHeader writes the header of a packet with so much payload to the first four bytes of b.
func putHeader(b []byte, payload int) {
	const digits = "0123456789abcdef"
	n := payload + headerLen
	b[0], b[1], b[2], b[3] = digits[n>>12&15], digits[n>>8&15], digits[n>>4&15], digits[n&15]
}

// RemoteError is what the other side said when it gave up: on band 3, or in a line that begins with ERR. Its text has no
// control characters, and is cut to what fits a log line.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return "the other side says: " + e.Text }

// ErrorLine returns a *RemoteError if payload is a line that ends the conversation (gitprotocol-pack(5), "error-line"), and
// nil if it is any other.
func ErrorLine(payload []byte) error {
	if len(payload) >= 4 && string(payload[:4]) == "ERR " {
		return &RemoteError{Text: printable(payload[4:])}
	}
	return nil
}
