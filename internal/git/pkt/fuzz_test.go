package pkt

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func FuzzReader(f *testing.F) {
	for _, s := range []string{"", "0000", "0001", "0002", "0003", "0004", "fff0x", "fff1", "+001", packets("a\n", "", "ERR no") + "0000"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		got, err := readAll(NewReader(bytes.NewReader(stream)))
		again, errAgain := readAll(NewReader(iotest.OneByteReader(bytes.NewReader(stream))))
		if !slices.Equal(got, again) || err.Error() != errAgain.Error() {
			t.Fatalf("%q reads as %q, %v; by the byte as %q, %v", stream, got, err, again, errAgain)
		}
		if err != io.EOF && err != io.ErrUnexpectedEOF && !errors.Is(err, ErrMalformed) {
			t.Fatalf("%q: %v", stream, err)
		}
		if err == io.EOF && !strings.EqualFold(string(write(stream)), string(stream)) {
			t.Fatalf("%q is written as %q", stream, write(stream))
		}
	})
}

// write is what was read, written again.
func write(stream []byte) []byte {
	var b bytes.Buffer
	w := NewWriter(&b)
	r := NewReader(bytes.NewReader(stream))
	for kind, payload, err := r.Next(); err == nil; kind, payload, err = r.Next() {
		switch kind {
		case Data:
			w.Packet(payload)
		case Flush:
			w.Flush()
		case Delim:
			w.Delim()
		case ResponseEnd:
			b.WriteString("0002")
		}
	}
	return b.Bytes()
}

func FuzzDemuxer(f *testing.F) {
	for _, s := range []string{"", "0000", "0005\x01", "0005\x04", "0004", packets("\x01PACK", "\x02a\rb", "\x02c\n", "\x01x") + "0000", packets("\x03no\n")} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		heard := 0
		listen := func(line string) {
			heard += len(line)
			if len(line) > 3*maxLine || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
				t.Fatalf("progress %q", line)
			}
		}
		pack, err := io.ReadAll(iotest.OneByteReader(NewDemuxer(NewReader(bytes.NewReader(stream)), listen)))
		if len(pack)+heard > len(stream) {
			t.Fatalf("%d bytes of a pack and %d of progress out of %d", len(pack), heard, len(stream))
		}
		var b bytes.Buffer
		_, errAgain := NewDemuxer(NewReader(bytes.NewReader(stream)), nil).WriteTo(&b)
		if !bytes.Equal(b.Bytes(), pack) || (err == nil) != (errAgain == nil) {
			t.Fatalf("%q: Read says %q, %v; WriteTo %q, %v", stream, pack, err, b.Bytes(), errAgain)
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		m := NewMuxer(&again, Sideband, nil)
		if _, err := m.Write(pack); err != nil || m.Close() != nil {
			t.Fatal(err)
		}
		back, err := io.ReadAll(NewDemuxer(NewReader(&again), nil))
		if err != nil || !bytes.Equal(back, pack) {
			t.Fatalf("%q came back as %q, %v", pack, back, err)
		}
	})
}

func FuzzParseV2(f *testing.F) {
	for _, body := range [][]byte{
		[]byte("0000"),
		v2("ls-refs", "agent=git/2.39.5 object-format=sha1", "peel|symrefs|unborn|ref-prefix HEAD|ref-prefix refs/heads/"),
		v2("fetch", "agent=git/2.39.5 object-format=sha1 server-option=a", "thin-pack|ofs-delta|want "+a40+"|have "+b40+"|filter blob:none|done"),
		v2("fetch", "object-format=sha256", "want "+d64+"|shallow "+d64+"|deepen 1|deepen-relative|want-ref HEAD|wait-for-done"),
		v2("fetch", "", "deepen-since 1700000000|deepen-not v1|packfile-uris https|sideband-all|no-progress|include-tag"),
		v2("object-info", "", "size|oid "+a40),
		v2("bundle-uri", "", ""),
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseV2(body, Limits{Bytes: 1 << 16, Lines: 1000})
		if err != nil {
			return
		}
		wantSound(t, r)
		if r.Command == "" {
			return
		}
		// Who asks changes nothing; what is asked does.
		for line, same := range map[string]bool{"agent=another": true, "session-id=x": true, "server-option=another one": false} {
			other, err := ParseV2(append([]byte(packets(line)), body...), Limits{})
			if err != nil || slices.Contains(r.Caps, line) {
				continue
			}
			if (other.Canonical() == r.Canonical()) != same {
				t.Fatalf("%q: with %s the same: %t", body, line, !same)
			}
		}
	})
}

func FuzzParseV0(f *testing.F) {
	for _, lines := range []string{
		"-", "want " + a40 + "|-|done", "want " + a40 + " side-band-64k agent=x|-|done|-",
		"want " + a40 + " multi_ack_detailed no-done side-band thin-pack ofs-delta|want " + b40 + "|shallow " + b40 + "|deepen 1|-|have " + c40 + "|-",
		"want " + a40 + "|deepen-since 7|deepen-not v1|filter tree:0|-|have " + c40 + "|-|have " + b40 + "|-|done",
	} {
		f.Add(v0(lines))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseV0(0, body, Limits{Bytes: 1 << 16, Lines: 1000})
		if err != nil {
			return
		}
		wantSound(t, r)
		again, err := ParseV0(1, append(slices.Clip(slices.Clone(body)), "0000"...), Limits{})
		if r.Done && (err != nil || again.Canonical() != r.Canonical()) {
			t.Fatalf("%q: a flush packet after done makes another of it: %v", body, err)
		}
	})
}

// wantSound checks what is promised of every Request.
func wantSound(t *testing.T, r *Request) {
	digits := map[string]int{"sha1": 40, "sha256": 64}[r.ObjectFormat]
	if digits == 0 {
		t.Fatalf("object format %q", r.ObjectFormat)
	}
	for _, ids := range [][]OID{r.Wants, r.Haves, r.Shallows} {
		for i, id := range ids {
			if len(id) != digits || strings.Trim(string(id), "0123456789abcdef") != "" || i > 0 && ids[i-1] >= id {
				t.Fatalf("%q of %q", id, ids)
			}
		}
	}
	for _, c := range r.Caps {
		if strings.HasPrefix(c, "agent=") || strings.HasPrefix(c, "session-id=") || !r.has(c) {
			t.Fatalf("capability %q of %q", c, r.Caps)
		}
	}
	if r.Tellable() && !r.EndsInPack() || r.EndsInPack() && len(r.Wants)+len(r.WantRefs) == 0 || r.Depth < 0 {
		t.Fatalf("%+v", r)
	}
	if n := r.SidebandSize(); n != 0 && n != Sideband && n != Sideband64k || r.Progress() && n == 0 {
		t.Fatalf("side-band of %d", n)
	}
}
