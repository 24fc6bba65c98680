package config

import (
	"errors"
	"strings"
	"testing"
)

// FuzzParse feeds the decoder hostile files. It must not panic, every problem must have a place in the file, and what
// it accepts must be reachable again through flags: the three ways of writing a setting mean the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		whole, tenants, "graphql { tenant \"a\" \"b\" {}\nresolver { x {} } }", "", "store {", "memory_limit = -1", "memory_limit = 1e400", "log \"x\" {}\n", "listen { hosts = [null, [1]] }",
		"bazel { max_blob = \"${1}MiB\" }", "\ufefflog {}", "governor { shed = 0.75 - 0.1 }", "store { path = <<E\nx\nE\n}", "a=\"\xff\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := Parse(src, "f.hcl")
		if err != nil {
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("not Problems: %v", err)
			}
			for _, p := range problems {
				if !strings.HasPrefix(p.At, "f.hcl:") || p.Text == "" {
					t.Fatalf("a problem without its place: %+v", p)
				}
			}
			return
		}
		flags := map[string]string{}
		for _, s := range Settings() {
			if v := c.Value(s.Path); v != "" && !s.Secret && !strings.Contains(v, ",") {
				flags[s.Flag] = v
			}
		}
		again, err := Load(Sources{Flags: flags})
		if again == nil {
			t.Fatalf("written as flags: %v", err)
		}
		for _, s := range Settings() {
			if _, given := flags[s.Flag]; given && again.Value(s.Path) != c.Value(s.Path) {
				t.Fatalf("%s: %s as a flag, %s in the file", s.Path, again.Value(s.Path), c.Value(s.Path))
			}
		}
	})
}
