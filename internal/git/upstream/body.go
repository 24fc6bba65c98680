package upstream

import (
	"bytes"
	"io"

	"github.com/leveehq/levee/internal/git/pkt"
)

// body is what a request of ours says. A mirror of many refs has as many haves, so that its lines are made while they are
// sent, and made again if they are sent again.
type body struct {
	parts  []func() io.Reader
	length int64
}

func newBody(b []byte) *body { return new(body).bytes(b) }

func (b *body) bytes(p []byte) *body {
	b.parts = append(b.parts, func() io.Reader { return bytes.NewReader(p) })
	b.length += int64(len(p))
	return b
}

// objects adds a line for each object, whose names must be equally long.
func (b *body) objects(word string, oids []string) *body {
	if len(oids) == 0 {
		return b
	}
	b.parts = append(b.parts, func() io.Reader { return newObjectLines(word, oids) })
	var one bytes.Buffer
	pkt.NewWriter(&one).Line(word, oids[0])
	b.length += int64(one.Len()) * int64(len(oids))
	return b
}

func (b *body) reader() io.Reader {
	all := make([]io.Reader, len(b.parts))
	for i, part := range b.parts {
		all[i] = part()
	}
	return io.MultiReader(all...)
}

// objectLines makes a few packets at a time.
type objectLines struct {
	word string
	oids []string
	made bytes.Buffer
	w    *pkt.Writer
}

func newObjectLines(word string, oids []string) *objectLines {
	o := &objectLines{word: word, oids: oids}
	o.w = pkt.NewWriter(&o.made)
	return o
}

func (o *objectLines) Read(p []byte) (int, error) {
	const few = 4 << 10
	for o.made.Len() < few && len(o.oids) > 0 {
		o.w.Line(o.word, o.oids[0])
		o.oids = o.oids[1:]
	}
	return o.made.Read(p) // io.EOF when there is nothing left
}
