package rig

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Repo is a repository of an Upstream, changed behind its back as a push by somebody else would.
type Repo struct {
	Name, Dir string

	t       testing.TB
	commits int // so far, for their dates
}

// repoConfig is what an ordinary Git host allows.
var repoConfig = []string{
	"http.receivepack", "true", "uploadpack.allowFilter", "true", "uploadpack.allowAnySHA1InWant", "true",
	"gc.auto", "0", "maintenance.auto", "false", "receive.autogc", "false",
}

// Empty makes a repository without a commit.
func (u *Upstream) Empty(name string) *Repo {
	u.t.Helper()
	r := &Repo{Name: name, Dir: filepath.Join(u.Root, filepath.FromSlash(name)), t: u.t}
	if err := os.MkdirAll(filepath.Dir(r.Dir), 0o755); err != nil {
		u.t.Fatal(err)
	}
	r.run(nil, "init", "--quiet", "--bare", "--initial-branch=main", r.Dir)
	for i := 0; i < len(repoConfig); i += 2 {
		r.Git("config", repoConfig[i], repoConfig[i+1])
	}
	return r
}

// Open returns a repository that was made before.
func (u *Upstream) Open(name string) *Repo {
	return &Repo{Name: name, Dir: filepath.Join(u.Root, filepath.FromSlash(name)), t: u.t}
}

// R40 makes a repository of one commit and the tags t1 to t40, every second of them annotated.
func (u *Upstream) R40(name string) *Repo {
	u.t.Helper()
	r := u.Empty(name)
	r.Commit("main", "README", "one commit, forty tags\n")
	for i := 1; i <= 40; i++ {
		r.Tag(fmt.Sprintf("t%d", i), "main", i%2 == 0)
	}
	return r
}

// blobSize is that of the blobs of Big. They are small so that there are many: what a clone costs goes by their number.
const blobSize = 2 << 10

// Big makes a repository of about so many bytes of random blobs in ten commits.
func (u *Upstream) Big(name string, size int64) *Repo {
	u.t.Helper()
	r := u.Empty(name)
	r.fastImport(func(w io.Writer) {
		random := rand.NewChaCha8([32]byte{'b', 'i', 'g'})
		blob := make([]byte, blobSize)
		blobs := max(size/blobSize, 10)
		for c := range int64(10) {
			r.commit(w, "main", false)
			for i := blobs * c / 10; i < blobs*(c+1)/10; i++ {
				random.Read(blob)
				file(w, fmt.Sprintf("d%d/%d/blob%d", c, i%100, i), blob)
			}
		}
	})
	return r
}

// Deep makes a repository of so many commits with five objects each: a commit, three trees and a blob of 1.4 KiB.
func (u *Upstream) Deep(name string, commits int) *Repo {
	u.t.Helper()
	r := u.Empty(name)
	r.fastImport(func(w io.Writer) {
		random := rand.NewChaCha8([32]byte{'d', 'e', 'e', 'p'})
		blob := make([]byte, 1434)
		for c := range commits {
			r.commit(w, "main", false)
			random.Read(blob)
			file(w, fmt.Sprintf("a%d/b%d/c%d", c%10, c/10%10, c/100%40), blob)
		}
	})
	r.Git("repack", "-a", "-d", "-q", "--window=5", "--depth=20")
	return r
}

// Commit adds a commit to a branch, which it makes if there is none, and returns its id.
func (r *Repo) Commit(branch, path, text string) string {
	r.t.Helper()
	exists := r.try("show-ref", "--verify", "--quiet", "refs/heads/"+branch) == nil
	r.fastImport(func(w io.Writer) {
		r.commit(w, branch, exists)
		file(w, path, []byte(text))
	})
	return r.Git("rev-parse", "refs/heads/"+branch)
}

// Replace makes a branch have one new commit instead of what it had, as a forced push does, and returns the id of it.
func (r *Repo) Replace(branch, path, text string) string {
	r.t.Helper()
	fresh := r.Commit("replacement", path, text)
	r.Git("update-ref", "refs/heads/"+branch, fresh)
	r.Git("update-ref", "-d", "refs/heads/replacement")
	return fresh
}

// Tag makes a tag.
func (r *Repo) Tag(name, target string, annotated bool) {
	r.t.Helper()
	args := []string{"tag", name, target}
	if annotated {
		args = []string{"tag", "-a", "-m", name, name, target}
	}
	r.Git(args...)
}

// Git runs git in the repository and returns what it prints, without the last newline.
func (r *Repo) Git(args ...string) string {
	r.t.Helper()
	return r.run(nil, append([]string{"--git-dir=" + r.Dir}, args...)...)
}

func (r *Repo) try(args ...string) error {
	cmd := exec.Command("git", append([]string{"--git-dir=" + r.Dir}, args...)...)
	cmd.Env = plainEnv(r.Dir)
	return cmd.Run()
}

func (r *Repo) run(stdin io.Reader, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = plainEnv(r.Dir)
	cmd.Stdin = stdin
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, errs.String())
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// plainEnv is that of a git which knows nothing of the machine's user.
func plainEnv(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + filepath.Join(home, "gitconfig"),
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "LC_ALL=C", "TZ=UTC",
		"GIT_AUTHOR_NAME=rig", "GIT_AUTHOR_EMAIL=rig@localhost", "GIT_COMMITTER_NAME=rig", "GIT_COMMITTER_EMAIL=rig@localhost",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
}

// fastImport feeds what write writes to git fast-import.
func (r *Repo) fastImport(write func(io.Writer)) {
	r.t.Helper()
	in, out := io.Pipe()
	go func() {
		write(out)
		out.Close()
	}()
	r.run(in, "--git-dir="+r.Dir, "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--force")
}

// commit begins a commit. In one run of fast-import a branch goes on by itself; one of before has to be named.
func (r *Repo) commit(w io.Writer, branch string, exists bool) {
	r.commits++
	fmt.Fprintf(w, "commit refs/heads/%s\ncommitter rig <rig@localhost> %d +0000\ndata 2\nc\n", branch, 1_700_000_000+r.commits)
	if exists {
		fmt.Fprintf(w, "from refs/heads/%s^0\n", branch)
	}
}

func file(w io.Writer, path string, text []byte) {
	fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n", path, len(text))
	w.Write(text)
	io.WriteString(w, "\n")
}
