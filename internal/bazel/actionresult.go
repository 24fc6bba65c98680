package bazel

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of REAPI's ActionResult that matter here.
const (
	arFiles     = 2
	arDirs      = 3
	arStdoutRaw = 5
	arStdout    = 6
	arStderrRaw = 7
	arStderr    = 8
)

// actionResult is what an encoded ActionResult refers to. The bytes stay as the client sent them: they are stored, and
// sent again, without being decoded and encoded, so no field that this server does not know is ever lost.
type actionResult struct {
	body     []byte
	blobs    []digest // files and streams
	trees    []digest
	dirs     []digest // roots stored as single directories
	out, err stream
}

// stream is stdout or stderr.
type stream struct {
	d     digest
	has   bool
	inRaw bool // the result holds its bytes already
}

// minOutput is the shortest field with the digest of a file. A slice that grew instead would be there twice for a moment.
const minOutput = 70

// arTypes are the wire types of the fields that REAPI defines. Bytes that are no ActionResult, such as another tool's
// cache entry, nearly always break one of them early.
var arTypes = map[protowire.Number]protowire.Type{
	arFiles: protowire.BytesType, arDirs: protowire.BytesType, 4: protowire.VarintType, arStdoutRaw: protowire.BytesType,
	arStdout: protowire.BytesType, arStderrRaw: protowire.BytesType, arStderr: protowire.BytesType, 9: protowire.BytesType,
	10: protowire.BytesType, 11: protowire.BytesType, 12: protowire.BytesType,
}

// parseActionResult walks body. Its error is errMalformed for bytes that are not an ActionResult.
func parseActionResult(body []byte) (*actionResult, error) {
	a := &actionResult{body: body, blobs: make([]digest, 0, len(body)/minOutput)}
	f := bytesFields(body)
	for f.more() {
		num, typ, err := f.tag()
		if err != nil {
			return nil, err
		}
		if known, ok := arTypes[num]; ok && known != typ {
			return nil, errMalformed
		}
		switch num {
		case arFiles:
			var file outputFile
			if file, err = f.outputFile(); err == nil && file.has {
				a.blobs = append(a.blobs, file.d)
			}
		case arDirs:
			err = a.directory(f)
		case arStdout:
			a.out.d, err = f.digestField()
			a.out.has = true
		case arStderr:
			a.err.d, err = f.digestField()
			a.err.has = true
		case arStdoutRaw, arStderrRaw:
			var n int64
			if n, err = f.length(); err == nil {
				err = f.discard(n)
			}
			if num == arStdoutRaw {
				a.out.inRaw = n > 0
			} else {
				a.err.inRaw = n > 0
			}
		default:
			err = f.skip(typ)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, s := range []stream{a.out, a.err} {
		if s.has {
			a.blobs = append(a.blobs, s.d)
		}
	}
	return a, nil
}

// directory reads OutputDirectory { string path = 1; Digest tree_digest = 3; Digest root_directory_digest = 5; … }.
func (a *actionResult) directory(f *fields) error {
	outer, err := f.enter()
	if err != nil {
		return err
	}
	for f.more() {
		num, typ, err := f.tag()
		var d digest
		switch {
		case err != nil:
		case (num == 3 || num == 5) && typ == protowire.BytesType:
			if d, err = f.digestField(); err == nil && num == 3 {
				a.trees = append(a.trees, d)
			} else if err == nil {
				a.dirs = append(a.dirs, d)
			}
		case num == 1 && typ != protowire.BytesType:
			err = errMalformed
		default:
			err = f.skip(typ)
		}
		if err != nil {
			return err
		}
	}
	f.leave(outer)
	return nil
}

// outputFile is OutputFile { string path = 1; Digest digest = 2; bytes contents = 5; … }.
type outputFile struct {
	path     []byte // in the body
	d        digest
	has      bool // a digest
	contents bool
	from, to int64 // its encoding within the body, without tag and length
}

func (f *fields) outputFile() (o outputFile, err error) {
	outer, err := f.enter()
	if err != nil {
		return o, err
	}
	o.from, o.to = f.pos, f.end
	for f.more() {
		num, typ, err := f.tag()
		switch {
		case err != nil:
		case num == 1 && typ == protowire.BytesType:
			var n int64
			if n, err = f.length(); err == nil {
				o.path, err = f.take(n)
			}
		case num == 2 && typ == protowire.BytesType:
			o.d, err = f.digestField()
			o.has = true
		case num == 5 && typ == protowire.BytesType:
			var n int64
			if n, err = f.length(); err == nil {
				o.contents = n > 0
				err = f.discard(n)
			}
		case num == 1 || num == 2 || num == 5:
			err = errMalformed
		default:
			err = f.skip(typ)
		}
		if err != nil {
			return o, err
		}
	}
	f.leave(outer)
	return o, nil
}

// bytesFields reads a message that is in memory; what take returns lies in it.
func bytesFields(b []byte) *fields {
	return &fields{buf: b, w: len(b), end: int64(len(b))}
}
