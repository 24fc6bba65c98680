package storm

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestARepositoryIsMadeWithExactlyTheObjectsAskedFor(t *testing.T) {
	dir := repository(t)
	count, err := gitOutput(t.Context(), "-C", dir, "count-objects", "-v")
	if err != nil || !strings.Contains(count, fmt.Sprintf("in-pack: %d\n", testObjects)) || !strings.Contains(count, "packs: 1\n") {
		t.Errorf("%s, %v", count, err)
	}
	if size := packBytes(dir); size < 700<<10 || size > 1300<<10 {
		t.Errorf("the pack has %d bytes, asked for 1 MiB", size)
	}
	if _, err := gitOutput(t.Context(), "-C", dir, "fsck", "--full", "--strict"); err != nil {
		t.Error(err)
	}
}

func TestTheSameRepositoryIsMadeAgain(t *testing.T) {
	o := DefaultGitOptions()
	o.Make, o.Objects, o.Size = filepath.Join(t.TempDir(), "again"), testObjects, 1<<20
	if _, err := Git(t.Context(), o, nil, nil); err != nil {
		t.Fatal(err)
	}
	var refs [2]string
	for i, dir := range []string{repository(t), o.Make} {
		text, err := gitOutput(t.Context(), "-C", dir, "for-each-ref")
		if err != nil {
			t.Fatal(err)
		}
		refs[i] = text
	}
	if refs[0] != refs[1] || refs[0] == "" {
		t.Errorf("refs differ:\n%s\n%s", refs[0], refs[1])
	}
	var usage *UsageError
	if _, err := Git(t.Context(), o, nil, nil); !errors.As(err, &usage) {
		t.Errorf("a directory that is in use: %v, want a usage error", err)
	}
}
