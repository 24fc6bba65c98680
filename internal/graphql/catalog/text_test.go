package catalog

import (
	"slices"
	"strings"
	"testing"
)

// FuzzRow reads anything as a column of a row: what is no answer of PostgreSQL's may read as anything, and panic at nothing.
func FuzzRow(f *testing.F) {
	for _, s := range []string{"", "{}", "{23,25}", "[0:1]={23,25}", "1 2 3", "0 -1", "t", "4294967295", "{", "}", "99999999999999999999"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, column []byte) {
		r := row{[][]byte{column}}
		for _, item := range r.list(0) {
			if strings.Contains(item, ",") {
				t.Errorf("%q is one item of %q", item, column)
			}
		}
		r.numbers(0)
		r.oid(0)
		r.bool(0)
		r.int(0)
	})
}

// FuzzTextArray reads back what is written as an array for PostgreSQL, by the rules of its array literals.
func FuzzTextArray(f *testing.F) {
	f.Add("a", `b"\`, "{,}")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		in := []string{a, b, c}
		if got := elements(textArray(in)); !slices.Equal(got, in) {
			t.Errorf("%q was written as %s, which is %q", in, textArray(in), got)
		}
	})
}

// elements reads an array literal whose items are all in quotes.
func elements(literal string) (out []string) {
	literal = literal[1 : len(literal)-1]
	for literal != "" {
		var item strings.Builder
		i := 1
		for ; literal[i] != '"'; i++ {
			if literal[i] == '\\' {
				i++
			}
			item.WriteByte(literal[i])
		}
		out = append(out, item.String())
		literal = strings.TrimPrefix(literal[i+1:], ",")
	}
	return out
}

// FuzzArena keeps texts, and expects them back, each once.
func FuzzArena(f *testing.F) {
	f.Add([]byte("a,b,a,,longer than the first chunk"), 700)
	f.Fuzz(func(t *testing.T, data []byte, repeat int) {
		var a arena
		var kept []string
		texts := strings.Split(strings.Repeat(string(data), 1+max(0, repeat)%8), ",")
		for _, s := range texts {
			kept = append(kept, a.keep([]byte(s)))
		}
		total := int64(0)
		for i, s := range texts {
			if kept[i] != s {
				t.Fatalf("%q was kept as %q", s, kept[i])
			}
			if slices.Index(texts, s) == i {
				total += int64(len(s))
			}
		}
		if a.bytes < total {
			t.Errorf("%d bytes are kept in %d", total, a.bytes)
		}
	})
}
