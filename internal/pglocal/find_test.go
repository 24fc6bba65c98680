package pglocal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// programs makes empty files, which is what Find looks for.
func programs(t *testing.T, dir string, names ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheNewestPackagedVersionThatHasAServerIsTaken(t *testing.T) {
	t.Setenv("LEVEE_PG_BIN", "")
	t.Setenv("PATH", t.TempDir())
	root := t.TempDir()
	for _, version := range []string{"9.6", "9", "15", "13", "pgsql-14"} {
		programs(t, filepath.Join(root, version, "bin"), "initdb", "postgres")
	}
	programs(t, filepath.Join(root, "17", "bin"), "psql") // a client's package only
	got, err := find([]string{filepath.Join(root, "*", "bin")})
	if want := filepath.Join(root, "15", "bin"); got != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestTheProgramsOfThePATHComeBeforePackagedOnes(t *testing.T) {
	t.Setenv("LEVEE_PG_BIN", "")
	path := programs(t, t.TempDir(), "initdb", "postgres")
	t.Setenv("PATH", path)
	packaged := programs(t, filepath.Join(t.TempDir(), "99", "bin"), "initdb", "postgres")
	if got, err := find([]string{packaged}); got != path || err != nil {
		t.Errorf("%s, %v; want %s", got, err, path)
	}
}

func TestPgConfigIsAskedLast(t *testing.T) {
	t.Setenv("LEVEE_PG_BIN", "")
	want := programs(t, t.TempDir(), "initdb", "postgres")
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "pg_config"), []byte("#!/bin/sh\necho "+want+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", path)
	if got, err := find(nil); got != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestWithoutAServerTheErrorNamesWhatToInstall(t *testing.T) {
	t.Setenv("LEVEE_PG_BIN", "")
	t.Setenv("PATH", t.TempDir())
	if _, err := find(nil); !errors.Is(err, errNoServer) || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Error(err)
	}
}

func TestADirectoryWithoutTheProgramsIsNamed(t *testing.T) {
	dir := programs(t, t.TempDir(), "postgres")
	t.Setenv("LEVEE_PG_BIN", dir)
	if _, err := Find(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
}
