package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// A process that is started with this variable serves by git http-backend, as the command would with --serve.
const serveEnv = "LEVEE_STORM_TEST_SERVE"

func init() {
	root := os.Getenv(serveEnv)
	if root == "" {
		backendCommand = func(ctx context.Context, root string) (*exec.Cmd, error) {
			return exec.CommandContext(ctx, "/usr/bin/env", serveEnv+"="+root, os.Args[0]), nil
		}
		return
	}
	o := DefaultGitOptions()
	o.Serve = root
	if _, err := Git(context.Background(), o, os.Stdout, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const testObjects = 1000

// repository makes one. Two calls make the same.
func repository(t *testing.T) string {
	t.Helper()
	o := DefaultGitOptions()
	o.Make, o.Objects, o.Size = filepath.Join(t.TempDir(), "r"), testObjects, 1<<20
	if _, err := Git(t.Context(), o, nil, nil); err != nil {
		t.Fatal(err)
	}
	return o.Make
}

// serveRepository serves the repository by git http-backend in this process; between is asked before each request and
// answers it itself if it says so.
func serveRepository(t *testing.T, between func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	h, err := backend(filepath.Dir(repository(t)))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if between == nil || !between(w, r) {
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/r"
}

func smallGit(t *testing.T, target, scenario string) GitOptions {
	o := DefaultGitOptions()
	o.Target, o.Scenario, o.Dir = []string{target}, scenario, t.TempDir()
	o.Clients, o.Duration, o.QuickLimit = 3, 30*time.Second, 0
	o.Rate, o.Slow, o.Leave, o.Warm = 50_000, 300*time.Millisecond, 100*time.Millisecond, 1
	return o
}

func runGit(t *testing.T, o GitOptions) *GitReport {
	t.Helper()
	r, err := Git(t.Context(), o, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGitClientsOfAHealthyServerKeepEveryPromise(t *testing.T) {
	for _, scenario := range []string{"clones", "coalesce", "distinct", "slow", "leave"} {
		t.Run(scenario, func(t *testing.T) {
			url := serveRepository(t, nil)
			o := smallGit(t, url, scenario)
			o.Upstream = []string{url}
			r := runGit(t, o)
			if r.ExitStatus() != ExitOK {
				t.Fatalf("broken: %q", r.Problems())
			}
			s := r.Sections[0]
			if s.Offered != 3 || s.Admitted != 3 || s.Bytes == 0 && scenario != "leave" { // who leaves at once may have got nothing
				t.Errorf("offered %d, admitted %d, %d bytes", s.Offered, s.Admitted, s.Bytes)
			}
			if scenario == "clones" && s.Verified != 3 {
				t.Errorf("%d clones checked", s.Verified)
			}
			for _, name := range []string{"quick: ls-remote", "quick: incremental", "quick: lazy"} {
				if q := sectionOf(r, name); scenario != "coalesce" && (q.Admitted == 0 || q.Latency.N == 0) {
					t.Errorf("%s: %+v", name, q)
				}
			}
		})
	}
}

func sectionOf(r *GitReport, name string) Section {
	for _, s := range r.Sections {
		if s.Name == name {
			return s
		}
	}
	return Section{}
}

func TestClonesAloneAskForNothingElse(t *testing.T) {
	var mu sync.Mutex
	requests := 0
	url := serveRepository(t, func(http.ResponseWriter, *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		requests++
		return false
	})
	o := smallGit(t, url, "clones")
	o.Clients, o.Beside, o.Fsck = 1, false, "none"
	if r := runGit(t, o); r.ExitStatus() != ExitOK || requests != 3 {
		t.Errorf("%d requests, want 3: capabilities, refs, pack; broken %q", requests, r.Problems())
	}
}

func TestTheProbesRunAlone(t *testing.T) {
	o := smallGit(t, serveRepository(t, nil), "quick")
	o.Duration = 1500 * time.Millisecond
	r := runGit(t, o)
	if r.ExitStatus() != ExitOK || len(r.Sections) != 3 || r.Sections[2].Admitted < 2 || r.Sections[2].Bytes == 0 {
		t.Errorf("%+v, broken %q", r.Sections, r.Problems())
	}
}

func TestARealClientsWordsAreUnderstood(t *testing.T) {
	var packfile, refused gitRequest
	packfile.line("packfile")
	refused.line("ERR shed by gate git_packs: timeout (cost 1)")
	said := "\x03the Git cache is busy (timeout); try again in 7s\n"
	for code, answer := range map[string]http.HandlerFunc{
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, "shed by gate git_packs: timeout", http.StatusTooManyRequests)
		},
		"ERR packet": func(w http.ResponseWriter, _ *http.Request) { w.Write(refused.Bytes()) },
		"band 3": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "%s%04x%s", packfile.String(), len(said)+4, said)
		},
	} {
		t.Run(code, func(t *testing.T) {
			url := serveRepository(t, func(w http.ResponseWriter, r *http.Request) bool {
				text, _ := io.ReadAll(io.LimitReader(r.Body, 100))
				if !bytes.Contains(text, []byte("command=fetch")) {
					r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text), r.Body))
					return false
				}
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				answer(w, r)
				return true
			})
			books := newTally("clones")
			if cloneOne(t.Context(), books, url, filepath.Join(t.TempDir(), "c")) {
				t.Fatal("the clone succeeded")
			}
			s := books.section()
			if len(s.Shed) != 1 || s.Shed[0].Code != code || code != "429" && s.Shed[0].Reason != "timeout" || len(s.Broken) != 0 {
				t.Errorf("shed %+v, failed %+v, broken %q", s.Shed, s.Failed, s.Broken)
			}
		})
	}
}

func TestARealClientShowsThatItIsQueued(t *testing.T) {
	// The packfile section begins with the notice; the rest is the server's own answer behind its header.
	h, err := backend(filepath.Dir(repository(t)))
	if err != nil {
		t.Fatal(err)
	}
	url := serveRepository(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		recorded := httptest.NewRecorder()
		h.ServeHTTP(recorded, r)
		w.Header().Set("Content-Type", recorded.Header().Get("Content-Type"))
		head := []byte("000dpackfile\n")
		body := recorded.Body.Bytes()
		if rest, ok := bytes.CutPrefix(body, head); ok {
			notice := "queued, position 3\n"
			body = append(append(head, fmt.Sprintf("%04x\x02%s", len(notice)+5, notice)...), rest...)
		}
		w.Write(body)
		return true
	})
	books := newTally("clones")
	if !cloneOne(t.Context(), books, url, filepath.Join(t.TempDir(), "c")) {
		t.Fatalf("broken: %q", books.section().Broken)
	}
	if notes := books.section().Notes; len(notes) != 1 || !strings.Contains(notes[0], "queued, position 3") {
		t.Errorf("notes %q", notes)
	}
}

func TestACloneThatIsNotWholeBreaksAPromise(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	if _, err := gitOutput(t.Context(), "clone", "--quiet", "--bare", "--no-hardlinks", repository(t), dir); err != nil {
		t.Fatal(err)
	}
	packs, _ := filepath.Glob(filepath.Join(dir, "objects/pack/*.pack"))
	if err := errors.Join(os.Chmod(packs[0], 0o644), os.Truncate(packs[0], 1000)); err != nil {
		t.Fatal(err)
	}
	books := newTally("clones")
	fsckOne(t.Context(), books, dir, "full")
	if s := books.section(); s.Wrong != 1 || len(s.Broken) != 1 {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsNotQuickBreaksAPromise(t *testing.T) {
	o := smallGit(t, serveRepository(t, nil), "quick")
	o.Duration, o.QuickLimit = 100*time.Millisecond, time.Nanosecond
	r := runGit(t, o)
	if !strings.Contains(strings.Join(r.Problems(), "\n"), "quick: lazy: took") {
		t.Errorf("broken promises %q", r.Problems())
	}
}

func TestAMirrorThatDiffersFromItsUpstreamBreaksAPromise(t *testing.T) {
	o := smallGit(t, serveRepository(t, nil), "quick")
	o.Duration = 100 * time.Millisecond
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b gitRequest
		b.line("version 2")
		if r.Method == http.MethodPost {
			b.Reset()
			b.line("1111111111111111111111111111111111111111 refs/heads/other")
		}
		b.WriteString(gitFlush)
		w.Write(b.Bytes())
	}))
	defer s.Close()
	o.Upstream = []string{s.URL + "/r"}
	if r := runGit(t, o); !strings.Contains(strings.Join(r.Problems(), "\n"), `instead of "1111`) {
		t.Errorf("broken promises %q", r.Problems())
	}
}

func TestAServersTreeIsMeasuredWithItsChildren(t *testing.T) {
	b, err := startBackend(t.Context(), filepath.Dir(repository(t)), likeAHost)
	if err != nil {
		t.Fatal(err)
	}
	defer b.stop()
	o := smallGit(t, b.url+"r", "clones")
	o.PID, o.Beside = b.cmd.Process.Pid, false
	o.Admin = fakeAdmin(t, 500_000, 4096) // its limit is a million bytes, which any tree passes
	r := runGit(t, o)
	c := r.Costs[0]
	if !c.Measured || c.CPU <= 0 || c.GitCPU <= 0 || c.CPU < c.GitCPU || c.Anon <= c.GitAnon {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(strings.Join(r.Problems(), "\n"), "the server and its children held") {
		t.Errorf("broken promises %q", r.Problems())
	}
}

func TestCompareMeasuresBothOverTheSameMirrors(t *testing.T) {
	b, err := startBackend(t.Context(), filepath.Dir(repository(t)), likeAHost)
	if err != nil {
		t.Fatal(err)
	}
	defer b.stop()
	o := smallGit(t, b.url+"r", "compare")
	o.PID, o.Mirror, o.Fsck = b.cmd.Process.Pid, []string{repository(t)}, "connectivity"
	r := runGit(t, o)
	if r.ExitStatus() != ExitOK || len(r.Costs) != 5 || len(r.Ratios) != 3 {
		t.Fatalf("%d costs, %d ratios, broken %q", len(r.Costs), len(r.Ratios), r.Problems())
	}
	for _, c := range r.Costs {
		if c.CPU <= 0 || c.Bytes == 0 {
			t.Errorf("%+v", c)
		}
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"http-backend, no bitmaps", "times less CPU", "anonymous peak"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func TestGitOptionsAreAKongCommandAndNameEveryScenario(t *testing.T) {
	var cli struct {
		Git GitOptions `cmd:""`
	}
	p, err := kong.New(&cli, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"all", "compare"}
	for _, s := range gitScenarios {
		names = append(names, s.name)
	}
	for _, name := range names {
		if _, err := p.Parse([]string{"git", "--scenario=" + name, "--target=http://127.0.0.1:1/r", "--rate=10000", "--no-beside"}); err != nil {
			t.Error(err)
		}
	}
	if cli.Git.Rate != 10_000 || cli.Git.Beside || cli.Git.Clients != 49 {
		t.Errorf("%+v", cli.Git)
	}
}

func TestOnlyLoopbackIsEverCloned(t *testing.T) {
	for _, target := range []string{"http://10.0.0.1/r", "https://127.0.0.1/r", "http://127.0.0.1:80", "http://example.com/r", "http://u:p@127.0.0.1:80/r"} {
		o := DefaultGitOptions()
		o.Target = []string{target}
		var usage *UsageError
		if _, err := Git(t.Context(), o, nil, nil); !errors.As(err, &usage) {
			t.Errorf("target %s: %v, want a usage error", target, err)
		}
	}
}
