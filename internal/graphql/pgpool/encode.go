package pgpool

import "encoding/binary"

// The messages that are sent, appended to a buffer. They are written here because pgproto3 takes parameters as byte slices: most
// of ours are strings, and each would be copied.

const (
	textFormat   = 0
	binaryFormat = 1
)

// begin appends a message's type and room for its length, which end fills in.
func begin(b []byte, kind byte) (out []byte, at int) {
	return append(b, kind, 0, 0, 0, 0), len(b) + 1
}

func end(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at))
	return b
}

func appendText(b []byte, s string) []byte { return append(append(b, s...), 0) }

func appendParse(b []byte, name, sql string) []byte {
	b, at := begin(b, 'P')
	b = appendText(b, name)
	b = appendText(b, sql)
	b = append(b, 0, 0) // PostgreSQL infers the types of parameters
	return end(b, at)
}

// appendBind appends the message up to its parameters, of which n values must follow, each by appendValue, then endBind.
func appendBind(b []byte, name string, n int) (out []byte, at int) {
	b, at = begin(b, 'B')
	b = append(b, 0) // the portal without a name
	b = appendText(b, name)
	b = append(b, 0, 0) // all parameters are text
	return binary.BigEndian.AppendUint16(b, uint16(n)), at
}

func appendValue[T string | []byte](b []byte, v T) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
	return append(b, v...)
}

func appendNull(b []byte) []byte { return append(b, 0xff, 0xff, 0xff, 0xff) }

func endBind(b []byte, at int, format byte) []byte {
	return end(append(b, 0, 1, 0, format), at) // one format for all columns
}

var (
	messageExecute = []byte{'E', 0, 0, 0, 9, 0, 0, 0, 0, 0} // the portal without a name, all rows
	messageSync    = []byte{'S', 0, 0, 0, 4}
	messageEnd     = []byte{'X', 0, 0, 0, 4}
)

func appendClose(b []byte, name string) []byte { return appendNamed(b, 'C', name) }

func appendDescribe(b []byte, name string) []byte { return appendNamed(b, 'D', name) }

func appendNamed(b []byte, kind byte, name string) []byte {
	b, at := begin(b, kind)
	b = append(b, 'S') // a statement, not a portal
	return end(appendText(b, name), at)
}

func appendQuery(b []byte, sql string) []byte {
	b, at := begin(b, 'Q')
	return end(appendText(b, sql), at)
}
