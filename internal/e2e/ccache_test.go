package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// ccache with layout=bazel PUTs opaque bodies under /ac/. It must work with no flag of the server's.
func TestCcacheHitsWithItsBazelLayoutAndNoExtraFlag(t *testing.T) {
	if _, err := exec.LookPath("ccache"); err != nil {
		t.Fatalf("%v: scripts/test installs it", err)
	}
	s := rig.Start(t, t.TempDir())
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a.c"), "int answer(void) { return 42; }\n")
	local := filepath.Join(dir, "local")
	ccache := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "ccache", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CCACHE_DIR="+local, "CCACHE_CONFIGPATH="+filepath.Join(dir, "none.conf"),
			"CCACHE_REMOTE_STORAGE=http://"+s.HTTP+"|layout=bazel")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("ccache %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	ccache("gcc", "-c", "a.c", "-o", "a.o")
	if err := os.RemoveAll(local); err != nil {
		t.Fatal(err)
	}
	ccache("gcc", "-c", "a.c", "-o", "b.o")
	stats := ccache("--print-stats")
	for _, want := range []string{`remote_storage_hit\t[1-9]`, `remote_storage_error\t0`, `(direct|preprocessed)_cache_hit\t[1-9]`} {
		if !regexp.MustCompile(want).MatchString(stats) {
			t.Errorf("the statistics do not match %s:\n%s", want, stats)
		}
	}
}
