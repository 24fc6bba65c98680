package bazel

import (
	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/encoding/protowire"
)

// inlineWant is what the client would like to have within the response. All of it is a hint (REAPI): what does not fit
// into a message is left out, and the client reads it like any other blob.
type inlineWant struct {
	out, err bool
	files    map[string]bool
}

func wantedInline(req *repb.GetActionResultRequest) inlineWant {
	w := inlineWant{out: req.InlineStdout, err: req.InlineStderr}
	if len(req.InlineOutputFiles) > 0 {
		w.files = make(map[string]bool, len(req.InlineOutputFiles))
		for _, p := range req.InlineOutputFiles {
			w.files[p] = true
		}
	}
	return w
}

// budget says, for one blob after the other, whether it still fits.
type budget struct{ left int64 }

func (b *budget) fits(n int64) bool {
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func newBudget(a *actionResult, most int64) *budget { return &budget{left: most - int64(len(a.body))} }

// size is how many bytes apply will add.
func (w inlineWant) size(a *actionResult, most int64) int64 {
	b := newBudget(a, most)
	start := b.left
	w.stream(w.out, a.out, b)
	w.stream(w.err, a.err, b)
	if len(w.files) > 0 {
		_ = a.eachFile(func(o outputFile, _, _ int64) error {
			w.file(o, b)
			return nil
		})
	}
	return start - b.left
}

func (w inlineWant) stream(wanted bool, s stream, b *budget) bool {
	return wanted && s.has && !s.inRaw && s.d.size > 0 && b.fits(s.d.size)
}

func (w inlineWant) file(o outputFile, b *budget) bool {
	return w.files[string(o.path)] && o.has && !o.contents && o.d.size > 0 && b.fits(o.d.size)
}

// apply returns the encoded result with what is wanted in it. Fields are added to the encoding at its end, where protobuf
// lets a field of a message come, rather than by decoding and encoding all of it.
func (w inlineWant) apply(c *call, a *actionResult, most int64) ([][]byte, error) {
	var p parts
	b := newBudget(a, most)
	add := func(num protowire.Number, d digest) error {
		data, _, err := c.s.fetchBlob(c, d, &blobRoom{left: d.size}, false)
		if err != nil {
			return err
		}
		head := p.room(16)
		*head = protowire.AppendTag(*head, num, protowire.BytesType)
		*head = protowire.AppendVarint(*head, uint64(len(data)))
		p.attach(data)
		c.bytes += int64(len(data))
		return nil
	}
	outFits, errFits := w.stream(w.out, a.out, b), w.stream(w.err, a.err, b)
	if err := w.applyFiles(a, b, &p, add); err != nil {
		return nil, err
	}
	if outFits {
		if err := add(arStdoutRaw, a.out.d); err != nil {
			return nil, err
		}
	}
	if errFits {
		if err := add(arStderrRaw, a.err.d); err != nil {
			return nil, err
		}
	}
	return p.list, nil
}

// applyFiles copies the result and gives each wanted file its contents (bytes contents = 5 of OutputFile).
func (w inlineWant) applyFiles(a *actionResult, b *budget, p *parts, add func(protowire.Number, digest) error) error {
	done := int64(0)
	if len(w.files) > 0 {
		err := a.eachFile(func(o outputFile, tagAt, end int64) error {
			if !w.file(o, b) {
				return nil
			}
			if done < tagAt {
				p.attach(a.body[done:tagAt])
			}
			contents := 1 + protowire.SizeVarint(uint64(o.d.size)) + int(o.d.size)
			head := p.room(16)
			*head = protowire.AppendTag(*head, arFiles, protowire.BytesType)
			*head = protowire.AppendVarint(*head, uint64(int(o.to-o.from)+contents))
			p.attach(a.body[o.from:o.to])
			done = end
			return add(5, o.d)
		})
		if err != nil {
			return err
		}
	}
	if done < int64(len(a.body)) {
		p.attach(a.body[done:])
	}
	return nil
}

// eachFile goes through the output files of a result that parsed. tagAt and end are where the field begins and ends.
func (a *actionResult) eachFile(fn func(o outputFile, tagAt, end int64) error) error {
	f := bytesFields(a.body)
	for f.more() {
		at := f.pos
		num, typ, err := f.tag()
		if err != nil {
			return err
		}
		if num != arFiles {
			if err := f.skip(typ); err != nil {
				return err
			}
			continue
		}
		o, err := f.outputFile()
		if err != nil {
			return err
		}
		if err := fn(o, at, f.pos); err != nil {
			return err
		}
	}
	return nil
}
