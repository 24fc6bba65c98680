package gitcases

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// mostPacks of a mirror, whatever was fetched into it.
const mostPacks = 60

// maintenanceRace: pushes and forced pushes upstream, fetches, five clones at a time, and the server's own maintenance.
func maintenanceRace(l *Lab) {
	r := l.Up.Deep("deep", l.Size.Commits)
	s := l.serve("--git-max-staleness", "0s")
	client := rig.NewGitClient(l)
	rolling := client.Clone(s.URL("deep"))
	for round := range l.Size.Rounds {
		var turn sync.WaitGroup
		turn.Go(func() {
			r.Commit("main", "f", fmt.Sprint(round))
			r.Commit(fmt.Sprint("branch", round%7), "g", fmt.Sprint(round))
			r.Replace("forced", "h", fmt.Sprint(round))
		})
		turn.Go(func() {
			crowd(5, func(i int) {
				own := rig.NewGitClient(l).Nice()
				dir := own.Clone(s.URL("deep"), "--bare")
				own.In(dir, "fsck", "--connectivity-only")
				os.RemoveAll(dir)
			})
		})
		turn.Go(func() {
			client.In(rolling, "fetch", "--quiet", "--prune", "--force", "origin", "+refs/heads/*:refs/remotes/origin/*")
		})
		turn.Wait()
		if l.Failed() {
			return
		}
	}
	if here, there := client.Git("ls-remote", s.URL("deep")), client.Git("ls-remote", l.Up.URL("deep")); here != there {
		l.Errorf("refs here:\n%s\nupstream:\n%s", here, there)
	}
	client.In(rolling, "fsck", "--connectivity-only")
	l.idle(s)
	for _, dir := range s.Mirrors() {
		client.Git("--git-dir="+dir, "fsck", "--connectivity-only")
		packs, _ := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
		l.Logf("after %d rounds there are %d packs", l.Size.Rounds, len(packs))
		if len(packs) > mostPacks {
			l.Error("that is too many")
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.keep")); len(left) > 0 {
			l.Errorf("left behind: %v", left)
		}
	}
	for _, c := range s.Spy.Calls() {
		if c.Command == "gc" || strings.Contains(c.Args, "--auto") {
			l.Errorf("git was to decide on maintenance itself: %s", c.Args)
		}
	}
}

// killedServer: kill -9 during the first clone, during a fetch, and in each of the server's own commands on the way from
// nothing to a pack.
func killedServer(l *Lab) {
	k := &killing{Lab: l, s: l.serve(), client: rig.NewGitClient(l)}
	stalls := func(after int64) func() {
		l.Up.Break(rig.Fault{Match: rig.Call.Transfer, StallAfter: after})
		return l.Up.Mend
	}
	transferring := func() error {
		now, _ := l.Up.UnderWay(rig.Fetch)
		return no(now > 0, "no transfer")
	}
	r := l.Up.Big("big", l.Size.Big)
	k.while("it clones", r, stalls(l.Size.Big/2), transferring)
	r.Commit("main", "new", strings.Repeat("new", 1000))
	k.while("it fetches", r, stalls(100), transferring)
	for _, command := range k.commands() {
		before := len(k.s.Spy.Calls(command))
		held := k.s.Spy.Hold(command)
		k.while("it runs "+command, l.Up.R40(command), held.Release, func() error {
			return no(len(k.s.Spy.Calls(command)) > before, "no %s", command)
		})
	}
}

type killing struct {
	*Lab
	s      *rig.GitServer
	client *rig.GitClient
}

// commands that a first clone of a small repository has the server run.
func (k *killing) commands() (names []string) {
	k.Up.R40("probe")
	before := len(k.s.Spy.Calls())
	k.client.Clone(k.s.URL("probe"), "--bare")
	for _, c := range k.s.Spy.Calls()[before:] {
		if !slices.Contains(names, c.Command) {
			names = append(names, c.Command)
		}
	}
	k.Logf("a first clone runs %q", names)
	return names
}

// while kills the server when a clone has led it where it was to be, and looks at what the next one makes of that.
func (k *killing) while(what string, r *rig.Repo, mend func(), there func() error) {
	k.Helper()
	first := k.client.Start(k.ctx(), "clone", "--bare", k.s.URL(r.Name), k.client.Dir())
	k.until(what, there)
	k.s.Kill()
	first.Wait() // its error is of the kill
	k.until("no process to be left of a server that was killed while "+what, func() error {
		left := rig.Naming(k.s.Data, k.s.PID())
		return no(len(left) == 0, "left: %v", left)
	})
	mend()
	k.s.Start()
	dir := k.client.Clone(k.s.URL(r.Name), "--bare")
	k.client.In(dir, "fsck", "--connectivity-only")
	if got, want := k.client.In(dir, "rev-parse", "HEAD"), r.Git("rev-parse", "main"); got != want {
		k.Errorf("killed while %s: the next clone has %s, upstream %s", what, got, want)
	}
	k.idle(k.s)
	k.Logf("it came back from a kill while %s", what)
}

// brokenMirror: what a dead server may have left, and what a bad disk may have made of a mirror.
func brokenMirror(l *Lab) {
	r := l.Up.R40("r40")
	l.Up.R40("other")
	s := l.serve()
	client := rig.NewGitClient(l)
	client.Clone(s.URL("r40"), "--bare")
	client.Clone(s.URL("other"), "--bare")
	l.idle(s)
	for name, harm := range map[string]func(dir string){
		"locks": func(dir string) {
			for _, lock := range []string{"refs/heads/main.lock", "shallow.lock", "packed-refs.lock", "HEAD.lock", "config.lock", "objects/info/commit-graph.lock",
				"objects/pack/multi-pack-index.lock", "objects/pack/tmp_pack_abcdef", "objects/pack/tmp_idx_abcdef"} {
				plant(l, filepath.Join(dir, lock), "")
			}
		},
		"a truncated idx":  func(dir string) { truncate(l, dir, "*.idx") },
		"a truncated pack": func(dir string) { truncate(l, dir, "*.pack") },
		"no HEAD":          func(dir string) { os.Remove(filepath.Join(dir, "HEAD")) },
	} {
		s.Kill()
		for _, dir := range s.Mirrors() {
			if strings.Contains(dir, "r40") {
				harm(dir)
			}
		}
		s.Start()
		tip := r.Commit("main", "f", name)
		l.until("a clone after "+name, func() error {
			dir := client.Dir()
			out, err := client.Run(l.ctx(), "clone", "--quiet", "--bare", s.URL("r40"), dir)
			if err != nil {
				l.Logf("%s: a clone failed: %s", name, out)
				return fmt.Errorf("%w: %s", err, out)
			}
			client.In(dir, "fsck")
			got := client.In(dir, "rev-parse", "HEAD")
			return no(got == tip, "it has %s, upstream %s", got, tip)
		})
		client.Clone(s.URL("other"), "--bare")
		l.idle(s) // no lock and no temporary file is left either
	}
}

func plant(l *Lab, path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		l.Fatal(err)
	}
}

func truncate(l *Lab, dir, pattern string) {
	l.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "objects", "pack", pattern))
	if len(names) == 0 {
		l.Fatalf("void: %s has no %s", dir, pattern)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil {
			os.Chmod(name, 0o644)
			err = os.Truncate(name, info.Size()/2)
		}
		if err != nil {
			l.Fatal(err)
		}
	}
}
