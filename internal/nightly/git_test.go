package nightly

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/gitcases"
	"github.com/leveehq/levee/internal/e2e/rig"
)

func TestEveryGitCaseHoldsAtFullLength(t *testing.T) { gitcases.RunAll(t, gitcases.Full, nil) }

// clones of two repositories at once, and what is looked at afterwards.
type clones struct {
	t     *testing.T
	names []string
	mu    sync.Mutex
	dirs  []string
	by    []*rig.GitClient
}

// all clones n times, by clients at the lowest priority, and returns when all have ended.
func (c *clones) all(n int, url func(repo string) string) {
	var wg sync.WaitGroup
	for i := range n {
		client := rig.NewGitClient(c.t).Nice()
		wg.Go(func() {
			dir := client.Dir()
			if out, err := client.Run(c.t.Context(), "clone", "--quiet", "--bare", url(c.names[i%len(c.names)]), dir); err != nil {
				c.t.Errorf("clone %d: %v\n%s", i, err, out)
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.dirs, c.by = append(c.dirs, dir), append(c.by, client)
		})
	}
	wg.Wait()
}

// check looks into each clone and removes it. That is work, so it comes when everything is measured.
func (c *clones) check(want int) {
	c.t.Helper()
	if len(c.dirs) != want {
		c.t.Errorf("%d of %d clones succeeded", len(c.dirs), want)
	}
	for i, dir := range c.dirs {
		c.by[i].In(dir, "fsck", "--connectivity-only")
		os.RemoveAll(dir)
	}
	c.dirs, c.by = nil, nil
}

const (
	atOnce  = 49
	commits = 18_500 // of five objects each
)

// 49 full clones of two warm mirrors: at most one generation for each, at a fraction of what http-backend takes on the same
// mirrors, and quick requests stay quick meanwhile.
func TestAStormOfClonesCostsAFractionOfHTTPBackend(t *testing.T) {
	up := rig.NewUpstream(t)
	names := []string{"a", "b"}
	for i, name := range names {
		atLeast(t, up.Deep(name, commits+i), 90_000, 25e6)
	}
	s := rig.StartGit(t, up, "--memory-limit", "1GiB")
	for _, name := range names { // warms the mirror, and makes another pack than that of a clone
		rig.NewGitClient(t).Clone(s.URL(name), "--bare", "--depth=1")
	}
	packs, logged := len(s.Spy.Packs()), len(s.AllLog())

	all := &clones{t: t, names: names}
	stop, quick := rig.WatchTree(s.PID()), quickly(t, up, s.URL("a"))
	all.all(atOnce, s.URL)
	ours := stop()
	lazy := quick()
	all.check(atOnce)
	if n := len(s.Spy.Packs()) - packs - lazy; n > len(names) {
		t.Errorf("%d packs were made for clones of %d repositories", n, len(names))
	}
	for method, took := range served(t, s.AllLog()[logged:]) {
		slices.Sort(took)
		if p99 := took[len(took)*99/100]; p99 > 1000 {
			t.Errorf("%s took %.0f ms at p99 of %d", method, p99, len(took))
		} else {
			t.Logf("%s took %.0f ms at p99 of %d", method, p99, len(took))
		}
	}
	for bitmaps, most := range map[bool][2]float64{false: {1. / 8, 1. / 10}, true: {1. / 3, 1. / 3}} {
		theirs := httpBackend(t, all, s, up, bitmaps)
		cpu, anon := ours.CPU.Seconds()/theirs.CPU.Seconds(), float64(ours.PeakAnon)/float64(theirs.PeakAnon)
		t.Logf("bitmaps %v: %s of %s CPU (%.3f), %d of %d MiB (%.3f)", bitmaps, ours.CPU, theirs.CPU, cpu, ours.PeakAnon/mib, theirs.PeakAnon/mib, anon)
		if cpu > most[0] || anon > most[1] {
			t.Errorf("want at most %.3f and %.3f", most[0], most[1])
		}
	}
}

func atLeast(t *testing.T, r *rig.Repo, objects int, bytes float64) {
	t.Helper()
	var n, packs, size, kib int
	count := r.Git("count-objects", "-v")
	for line := range strings.Lines(count) {
		fmt.Sscanf(line, "in-pack: %d", &n)
		fmt.Sscanf(line, "packs: %d", &packs)
		fmt.Sscanf(line, "size-pack: %d", &kib)
	}
	if size = kib << 10; n < objects || float64(size) < bytes {
		t.Fatalf("void: %s has %d objects in %d bytes", r.Name, n, size)
	}
}

// quickly does what a developer does beside the storm, once a second until it is stopped, and returns how many packs were made
// for it. Without the pause a quick server would do more of it than a slow one, and its cost could not be compared.
func quickly(t *testing.T, up *rig.Upstream, url string) (stop func() (packs int)) {
	r, client := up.Open("a"), rig.NewGitClient(t)
	history := strings.Fields(r.Git("rev-list", "-n", "1000", "main"))
	blobs := strings.Fields(r.Git("rev-parse", "main:a0/b0/c0", "main:a1/b1/c1"))
	quit, done := make(chan struct{}), make(chan struct{})
	packs := 0
	go func() {
		defer close(done)
		for i := 1; ; i++ {
			select {
			case <-quit:
				return
			case <-time.After(time.Second):
			}
			client.Git("ls-remote", url)
			for what, ask := range map[string]rig.Ask{
				"a lazy fetch":         {Wants: append(blobs[:1:1], r.Git("rev-parse", fmt.Sprintf("main~%d:a1/b1/c1", i))), Filter: "blob:none"},
				"an incremental fetch": {Wants: history[:1], Haves: history[i%len(history):][:1]},
			} {
				p, err := ask.Get(t.Context(), url)
				if err == nil {
					err = p.Whole()
				}
				if packs++; err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	}()
	return func() int {
		close(quit)
		<-done
		return packs
	}
}

// served are the times in milliseconds of quick requests in the server's own log: those that are no clones of 28 MB.
func served(t *testing.T, log string) map[string][]float64 {
	t.Helper()
	took := map[string][]float64{}
	for line := range strings.Lines(log) {
		var r struct {
			Msg, Method string
			Bytes       int64
			Took        float64 `json:"took_ms"`
		}
		if json.Unmarshal([]byte(line), &r) != nil || r.Msg != "call" {
			continue
		}
		if r.Method == "ls-refs" || r.Method == "fetch" && r.Bytes < 1*mib {
			took[r.Method] = append(took[r.Method], r.Took)
		}
	}
	if len(took["ls-refs"]) < 20 || len(took["fetch"]) < 10 {
		t.Errorf("void: %d ls-refs and %d quick fetches", len(took["ls-refs"]), len(took["fetch"]))
	}
	return took
}

// httpBackend does the same with plain http-backend on copies of the server's mirrors.
func httpBackend(t *testing.T, all *clones, s *rig.GitServer, up *rig.Upstream, bitmaps bool) rig.Tree {
	t.Helper()
	config := filepath.Join(t.TempDir(), "gitconfig")
	if err := os.WriteFile(config, []byte("[uploadpack]\n\tallowFilter = true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := rig.StartBackend(t, mirrors(t, s, up, all.names, bitmaps), config)
	stop, quick := rig.WatchTree(b.PID), quickly(t, up, b.URL("a"))
	all.all(atOnce, b.URL)
	tree := stop()
	quick()
	all.check(atOnce)
	return tree
}

// mirrors copies them under the names that they have upstream. Which is which, their refs tell.
func mirrors(t *testing.T, s *rig.GitServer, up *rig.Upstream, names []string, bitmaps bool) (root string) {
	t.Helper()
	root = t.TempDir()
	client := rig.NewGitClient(t)
	for _, dir := range s.Mirrors() {
		tip := client.Git("--git-dir="+dir, "rev-parse", "refs/heads/main")
		for _, name := range names {
			if up.Open(name).Git("rev-parse", "main") != tip {
				continue
			}
			if err := os.CopyFS(filepath.Join(root, name), os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range names {
		found, _ := filepath.Glob(filepath.Join(root, name, "objects", "pack", "*.bitmap"))
		if len(found) == 0 {
			t.Errorf("the mirror of %s has no bitmap", name)
		}
		for _, path := range found {
			if !bitmaps {
				os.Remove(path)
			}
		}
	}
	return root
}

// 60 clones of 200 MB at 1 GiB: what the tree takes stays within the plan, and children are told their part of it.
func TestSixtyClonesOf200MBStayWithinAGibibyte(t *testing.T) {
	up := rig.NewUpstream(t)
	up.Big("big", 200*mib)
	s := rig.StartGit(t, up, "--memory-limit", "1GiB")
	stop := rig.WatchTree(s.PID())
	all := &clones{t: t, names: []string{"big"}}
	for range 6 { // ten at a time on disk, or they would fill it
		all.all(10, s.URL)
		all.check(10)
	}
	crowd := make(chan error, 60)
	for _, tip := range strings.Fields(up.Open("big").Git("rev-list", "main")) {
		for range 6 {
			go func() {
				p, err := rig.Ask{Wants: []string{tip}}.Get(t.Context(), s.URL("big"))
				if err == nil {
					err = p.Whole()
				}
				crowd <- err
			}()
		}
	}
	for range cap(crowd) {
		if err := <-crowd; err != nil {
			t.Error(err)
		}
	}
	tree := stop()
	t.Logf("at most %d MiB, of which %d the server's; at once: %v", tree.PeakAnon/mib, tree.PeakRoot/mib, tree.Most)
	if tree.PeakAnon > gib {
		t.Error("that is more than the limit")
	}
	setting := regexp.MustCompile(`GIT_CONFIG_KEY_\d+='(pack\.(?:threads|windowMemory|deltaCacheSize))'`)
	for _, c := range s.Spy.Packs() {
		if n := len(setting.FindAllString(s.Spy.Env(c), -1)); n != 3 {
			t.Errorf("a pack-objects was told %d of 3 settings", n)
		}
	}
	if code, _, _, err := s.Get("/readyz"); err != nil || code != http.StatusOK {
		t.Errorf("/readyz afterwards: %d, %v", code, err)
	}
}

// packCache is the cache around pack-objects that those have who know of it: what was made for the same arguments and the
// same input is not made again.
const packCache = `#!/bin/sh
dir=$(dirname "$0")
cat >"$dir/in.$$"
key=$(printf '%s\n' "$@" | cat - "$dir/in.$$" | sha1sum | cut -d' ' -f1)
if [ ! -e "$dir/$key" ]; then
	"$@" <"$dir/in.$$" >"$dir/out.$$" && mv "$dir/out.$$" "$dir/$key"
fi
rm -f "$dir/in.$$"
exec cat "$dir/$key"
`

// Serving a warm pack takes at most a third of the CPU per byte of http-backend with a bitmap and a warm pack cache.
func TestServingAWarmPackTakesAThirdOfTheCPUOfHTTPBackend(t *testing.T) {
	up := rig.NewUpstream(t)
	up.Deep("a", commits)
	s := rig.StartGit(t, up, "--memory-limit", "1GiB")
	rig.NewGitClient(t).Clone(s.URL("a"), "--bare")

	cache := t.TempDir()
	hook, config := filepath.Join(cache, "hook"), filepath.Join(cache, "gitconfig")
	for path, text := range map[string]string{hook: packCache, config: "[uploadpack]\n\tpackObjectsHook = " + hook + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := rig.StartBackend(t, mirrors(t, s, up, []string{"a"}, true), config)
	ask := rig.Ask{Wants: []string{up.Open("a").Git("rev-parse", "main")}, Quiet: true}
	ours, theirs := cpuPerGB(t, ask, s.PID(), s.URL("a")), cpuPerGB(t, ask, b.PID, b.URL("a"))
	t.Logf("%.2f CPU-s per GB, http-backend %.2f: %.3f", ours, theirs, ours/theirs)
	if ours > theirs/3 {
		t.Error("that is more than a third")
	}
}

// cpuPerGB serves a pack once to warm, and then for as many times as make a gigabyte.
func cpuPerGB(t *testing.T, ask rig.Ask, pid int, url string) float64 {
	t.Helper()
	get := func() int64 {
		p, err := ask.Get(t.Context(), url)
		if err == nil {
			err = p.Whole()
		}
		if err != nil {
			t.Fatal(err)
		}
		return p.Size
	}
	get()
	before, bytes := rig.CPU(pid), int64(0)
	for bytes < 1e9 {
		bytes += get()
	}
	return (rig.CPU(pid) - before).Seconds() / (float64(bytes) / 1e9)
}

// An upstream that stands still is given up after a minute, and everybody is told.
func TestAnUpstreamThatStallsFor90SecondsIsGivenUp(t *testing.T) {
	up := rig.NewUpstream(t)
	up.Big("big", 20*mib)
	s := rig.StartGit(t, up, "--memory-limit", "1GiB")
	up.Break(rig.Fault{Match: rig.Call.Transfer, StallAfter: 5 * mib})
	began := time.Now()
	var wg sync.WaitGroup
	for range 4 {
		client := rig.NewGitClient(t)
		wg.Go(func() {
			if out, err := client.Run(t.Context(), "clone", "--bare", s.URL("big"), client.Dir()); err == nil {
				t.Errorf("cloned what upstream did not give:\n%s", out)
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); took < 50*time.Second || took > 90*time.Second {
		t.Errorf("it was given up after %s", took)
	}
	up.Mend()
	rig.NewGitClient(t).Clone(s.URL("big"), "--bare")
	until(t, time.Minute, "no child is left", func() bool { return len(rig.Below(s.PID())) == 0 })
}

// With limits of one, everything works that does not need two at a time.
func TestCaseO5EveryGitCaseHoldsWithEveryLimitAtOne(t *testing.T) {
	gitcases.RunAll(t, gitcases.Small, func(c gitcases.Case) bool { return !c.Wide }, "--git-per-repository", "1", "--git-total", "1")
}
