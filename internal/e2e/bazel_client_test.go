package e2e

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bazelClient is one user's Bazel: a workspace and an output root. Its server lives until the test ends.
type bazelClient struct {
	t         *testing.T
	workspace string
	startup   []string
	build     []string
}

const bazelMost = 5 * time.Minute // for one command; a build takes seconds

// newBazel makes a client with an output root of its own for the workspace.
func newBazel(t *testing.T, workspace string) *bazelClient {
	t.Helper()
	program, err := exec.LookPath("bazel-4")
	if err != nil {
		t.Fatalf("%v: scripts/test installs it (Debian's bazel-bootstrap)", err)
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		t.Fatal(err)
	}
	share := filepath.Join(filepath.Dir(filepath.Dir(program)), "share", "bazel")
	output := t.TempDir()
	b := &bazelClient{t: t, workspace: workspace, startup: []string{
		"--nosystem_rc", "--nohome_rc", "--noworkspace_rc",
		"--install_base=" + share, "--trust_install_base",
		"--output_user_root=" + output,
		"--max_idle_secs=120", "--host_jvm_args=-Xmx512m",
	}, build: []string{
		"--host_javabase=@local_jdk//:jdk",
		"--spawn_strategy=local", "--jobs=8",
		"--symlink_prefix=/", // none: another client of this workspace would take them for packages
		"--experimental_repository_disable_download",
		"--override_repository=rules_cc=" + filepath.Join(workspace, "stubs", "rules_cc"),
		"--override_repository=remote_coverage_tools=" + filepath.Join(workspace, "stubs", "remote_coverage_tools"),
		"--override_repository=rules_java=" + filepath.Join(share, "rules", "java"),
		"--override_repository=rules_proto=" + filepath.Join(share, "rules", "proto"),
		"--curses=no", "--color=no", "--show_progress_rate_limit=60",
	}}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		b.startup = append(b.startup, "--server_javabase="+home)
	}
	t.Cleanup(func() {
		b.run(context.Background(), "shutdown")
		makeWritable(output)
	})
	return b
}

// run runs one command and returns what it printed.
func (b *bazelClient) run(ctx context.Context, command string, flags ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, bazelMost)
	defer cancel()
	args := append(append([]string{}, b.startup...), command)
	cmd := exec.CommandContext(ctx, "bazel-4", append(args, flags...)...)
	cmd.Dir = b.workspace
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// test runs all targets and tests of the workspace, which must succeed without a lost input.
func (b *bazelClient) test(flags ...string) spawns {
	b.t.Helper()
	all := append(append([]string{}, b.build...), flags...)
	out, err := b.run(b.t.Context(), "test", append(all, "//...")...)
	if err != nil {
		b.t.Fatalf("bazel test %s: %v\n%s", strings.Join(flags, " "), err, out)
	}
	if lost := lostInput.FindString(out); lost != "" {
		b.t.Fatalf("bazel test %s succeeded, but: %s\n%s", strings.Join(flags, " "), lost, out)
	}
	return parseSpawns(b.t, out)
}

func (b *bazelClient) clean() {
	b.t.Helper()
	if out, err := b.run(b.t.Context(), "clean"); err != nil {
		b.t.Fatalf("bazel clean: %v\n%s", err, out)
	}
}

// lostInput matches what Bazel says when a promised blob is gone.
var lostInput = regexp.MustCompile(`(?i)[^\n]*(lost input|missing digest|Failed to fetch blobs)[^\n]*`)

// spawns is Bazel's own count of how the actions of a build came about.
type spawns struct {
	total, internal, remoteHit, local int
	text                              string
}

var (
	spawnsLine = regexp.MustCompile(`INFO: (\d+) process(?:es)?: ([^\n]*)\.\n`)
	spawnsPart = regexp.MustCompile(`(\d+) ([a-z -]+)`)
)

// parseSpawns reads a line like "INFO: 109 processes: 79 remote cache hit, 30 internal."
func parseSpawns(t *testing.T, out string) spawns {
	t.Helper()
	m := spawnsLine.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("Bazel did not say how its actions came about:\n%s", out)
	}
	s := spawns{text: m[0]}
	s.total, _ = strconv.Atoi(m[1])
	for _, part := range spawnsPart.FindAllStringSubmatch(m[2], -1) {
		n, _ := strconv.Atoi(part[1])
		switch part[2] {
		case "internal":
			s.internal = n
		case "remote cache hit":
			s.remoteHit = n
		default:
			s.local += n
		}
	}
	return s
}

// makeWritable lets the test's own clean-up remove an output root, whose directories Bazel makes read-only.
func makeWritable(dir string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
}

// in is the same client for a subtest.
func (b *bazelClient) in(t *testing.T) *bazelClient {
	c := *b
	c.t = t
	return &c
}
