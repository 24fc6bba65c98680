package privtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/e2e/rig"
)

// killed is how many processes of the group the kernel has killed for memory.
func (g group) killed() (n int) {
	g.t.Helper()
	name := "memory.events"
	if g.v1 {
		name = "memory.oom_control"
	}
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		g.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "oom_kill %d", &n); err == nil {
			return n
		}
	}
	g.t.Fatalf("%s does not count what was killed:\n%s", name, text)
	return 0
}

// limit gives the group another limit.
func (g group) limit(limit int64) {
	g.t.Helper()
	name := "memory.max"
	if g.v1 {
		name = "memory.limit_in_bytes"
	}
	g.write(filepath.Join(g.dir, name), fmt.Sprint(limit))
}

// cloneAll clones n times at once and looks into each clone.
func cloneAll(t *testing.T, s *rig.GitServer, repo string, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		client := rig.NewGitClient(t).Nice()
		wg.Go(func() {
			dir := client.Dir()
			defer os.RemoveAll(dir)
			if out, err := client.Run(t.Context(), "clone", "--quiet", "--bare", s.URL(repo), dir); err != nil {
				t.Errorf("clone %d: %v\n%s", i, err, out)
			} else if out, err := client.Run(t.Context(), "-C", dir, "fsck", "--connectivity-only"); err != nil {
				t.Errorf("clone %d: fsck: %v\n%s", i, err, out)
			}
		})
	}
	wg.Wait()
}

var settingOf = regexp.MustCompile(`GIT_CONFIG_(KEY|VALUE)_(\d+)=["']?([^"'\n]*)`)

// settings that a child was given, by name in lower case.
func settings(env string) map[string]string {
	keys, values := map[string]string{}, map[string]string{}
	for _, m := range settingOf.FindAllStringSubmatch(env, -1) {
		if m[1] == "KEY" {
			keys[m[2]] = strings.ToLower(m[3])
		} else {
			values[m[2]] = m[3]
		}
	}
	all := map[string]string{}
	for n, key := range keys {
		all[key] = values[n]
	}
	return all
}

// G8: 200 MiB are cloned cold and warm in a group of 1 GiB, by a server that believes in sixteen processors, while the mirror
// is folded and packed anew.
func TestCaseG8ClonesAndMaintenanceStayWithinAGroup(t *testing.T) {
	const limit, processors = 1 << 30, 16
	up := rig.NewUpstream(t)
	big := up.Big("big", 200*mib)
	g := newGroup(t, limit)
	by := append(g.by(), "env", fmt.Sprint("GOMAXPROCS=", processors))
	s := rig.GitPlace{By: by}.Start(t, up)
	var found struct {
		Limit  int64             `json:"limit_bytes"`
		Source levee.LimitSource `json:"limit_source"`
	}
	if err := s.Status(&found); err != nil || found.Limit != limit || found.Source != levee.FromGroup {
		t.Fatalf("the limit is %d from %s, %v", found.Limit, found.Source, err)
	}
	pid := s.PID()
	stop := rig.WatchTree(pid)
	cloneAll(t, s, "big", 3)

	// What only the last commit reached is enough for a new pack of all the rest.
	big.Git("update-ref", "refs/heads/main", "main~1")
	anew := func() bool {
		for _, c := range s.Spy.Packs() {
			if strings.Contains(c.Args, "--non-empty --all") {
				return true
			}
		}
		return false
	}
	rounds := 0
	for ; rounds == 0 || rounds < 6 && !anew() && !t.Failed(); rounds++ {
		cloneAll(t, s, "big", 3)
	}
	eventually(t, time.Minute, "the mirror is packed anew", anew)
	cloneAll(t, s, "big", 2)
	tree := stop()
	t.Logf("after %d rounds: the tree took %d MiB, the server itself %d MiB; the group shows %d MiB; %d packs were made",
		rounds, tree.PeakAnon/mib, tree.PeakRoot/mib, g.usage()/mib, len(s.Spy.Packs()))
	if n := g.killed(); n > 0 {
		t.Errorf("the kernel killed %d processes for memory", n)
	}
	if code, _, _, err := s.Get("/livez"); err != nil || code != http.StatusOK || s.PID() != pid {
		t.Errorf("/livez: %d, %v", code, err)
	}
	if tree.PeakAnon > limit*6/10 {
		t.Errorf("the tree took %d MiB: that is more than git's share", tree.PeakAnon/mib)
	}
	for _, c := range s.Spy.Packs() {
		fits(t, settings(s.Spy.Env(c)), limit*4/10)
	}
	quiet(t, s)
}

// fits checks that what a child may use for deltas, in all of its threads, is within git's memory.
func fits(t *testing.T, settings map[string]string, share int64) {
	t.Helper()
	var threads, window, cache int64
	for name, into := range map[string]*int64{"pack.threads": &threads, "pack.windowmemory": &window, "pack.deltacachesize": &cache} {
		if n, err := fmt.Sscan(settings[name], into); n != 1 || err != nil || *into <= 0 {
			t.Fatalf("%s is %q", name, settings[name])
		}
	}
	if threads*window+cache > share {
		t.Errorf("%d threads of %d MiB and %d MiB for deltas do not fit into %d MiB", threads, window/mib, cache/mib, share/mib)
	}
}

// quiet waits until the server has nothing left to do or to tidy up.
func quiet(t *testing.T, s *rig.GitServer) {
	t.Helper()
	for _, gate := range []string{"git_packs", "git_quick", "git_rounds", "git_mirrors", "git_bodies", "git_requests"} {
		eventually(t, time.Minute, gate+" is empty", func() bool {
			n, err := s.InUse(gate)
			return err == nil && n == 0
		})
	}
	eventually(t, time.Minute, "there is no child", func() bool { return len(rig.Below(s.PID())) == 0 })
	eventually(t, time.Minute, "there is no temporary file", func() bool { return len(s.Unfinished()) == 0 })
}

// G11: the server alone has 256 MiB, its git processes are elsewhere. Four clients take 200 MiB at 2 MB/s each.
func TestCaseG11TheServerAloneStaysSmallWhileClonesAreSlow(t *testing.T) {
	const rate, planned, alone = 2_000_000, 1 << 30, 256 * mib // a plan counts the children, and there is none so small
	up := rig.NewUpstream(t)
	tips := strings.Fields(up.Big("big", 200*mib).Git("rev-list", "main"))
	g := newGroup(t, planned)
	place := rig.GitPlace{By: g.by(), Data: t.TempDir()}
	s := place.Start(t, up, "--memory-limit", "1GiB")
	s.Spy.Move(filepath.Dir(g.dir))
	g.limit(alone)
	warm, err := rig.Ask{Wants: tips[:1], Depth: 1, Filter: "tree:0"}.Get(t.Context(), s.URL("big"))
	if err := wholly(warm, err); err != nil {
		t.Fatal(err)
	}
	stop := rig.WatchTree(s.PID())
	plain, err := rig.Ask{Wants: tips[4:5]}.Get(t.Context(), up.URL("big"))
	if err := wholly(plain, err); err != nil {
		t.Fatal(err)
	}
	if ours, err := (rig.Ask{Wants: tips[4:5]}).Get(t.Context(), s.URL("big")); wholly(ours, err) != nil {
		t.Error(wholly(ours, err))
	} else {
		theirs, took := plain.First.Sub(plain.Sent), ours.First.Sub(ours.Sent)
		t.Logf("the first byte came after %s, from upload-pack itself after %s", took, theirs)
		if took > theirs+2*time.Second {
			t.Error("that is too late")
		}
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			p, err := rig.Ask{Wants: tips[i : i+1], Window: 64 << 10}.Send(t.Context(), s.URL("big"))
			if err == nil {
				defer p.Close()
				slow, cancel := context.WithTimeout(t.Context(), 12*time.Second)
				err = p.Drain(slow, rate)
				if slow.Err() == nil {
					t.Errorf("client %d was not slow: %v", i, err)
				}
				cancel()
				err = p.Finish()
			}
			if err := wholly(p, err); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	tree := stop()
	t.Logf("the server itself took %d MiB, with children %d MiB", tree.PeakRoot/mib, tree.PeakAnon/mib)
	if tree.PeakRoot > 128*mib {
		t.Error("that is more than 128 MiB for the server")
	}
	if n := g.killed(); n > 0 {
		t.Errorf("the kernel killed %d processes for memory", n)
	}
	quiet(t, s)
	s.Kill()
	g.limit(planned)
	s = place.Start(t, up, "--memory-limit", "1GiB", "--git-spool-size", "16MiB")
	s.Spy.Move(filepath.Dir(g.dir))
	g.limit(alone)
	stalled(t, s, tips)
}

func wholly(p *rig.Pack, err error) error {
	if err != nil {
		return err
	}
	return p.Whole()
}

// stalled checks that git writes no more of a pack that is larger than the spool than its client has taken, and goes on when
// that does.
func stalled(t *testing.T, s *rig.GitServer, tips []string) {
	t.Helper()
	const most = 32 * mib // the spool, pipes and sockets
	p, err := rig.Ask{Wants: tips[:1]}.Send(t.Context(), s.URL("big"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var last, same int64
	eventually(t, time.Minute, "git writes no more", func() bool {
		n := int64(0)
		for _, c := range s.Spy.Packs() {
			n = written(c.PID)
		}
		if n == 0 || n != last {
			last, same = n, 0
			return false
		}
		same++
		return same > 40 // two seconds
	})
	t.Logf("git stood still after %d MiB", last/mib)
	if last > most {
		t.Errorf("want at most %d", int64(most)/mib)
	}
	if err := wholly(p, p.Finish()); err != nil {
		t.Errorf("the client that stalled: %v", err)
	}
	quiet(t, s)
}

// written is what a process has given to write, 0 if it is gone.
func written(pid int) (n int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "wchar: %d", &n)
	}
	return n
}
