package gitcases

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// clientsLeave: killed in the middle of a slow transfer, in a queue, and while upstream says nothing.
func clientsLeave(l *Lab) {
	big := l.Up.Big("big", l.Size.Big)
	mute := l.Up.R40("mute")
	s := l.serve("--git-per-repository", "2", "--git-total", "2")
	rig.NewGitClient(l).Clone(s.URL("big"), "--bare")
	l.idle(s)
	before := s.OpenFiles()
	line := rig.SlowLine(l, s.HTTP, 50_000)
	tips := commits(big, "main")
	for round := range (l.Size.Rounds + 9) / 10 {
		crowd(10, func(i int) {
			if i%2 == 0 {
				killInTransfer(l, s.At(line, "big"))
				return
			}
			ctx, leave := context.WithCancel(l.ctx())
			defer leave()
			if p, err := (rig.Ask{Wants: tips[(round+i)%len(tips):][:1], Window: 4 << 10}).Send(ctx, s.URL("big")); err == nil {
				p.Next() // whatever comes first
				p.Close()
			}
		})
	}
	leftWhileUpstreamIsSilent(l, s, mute)
	l.idle(s)
	l.until("descriptors to be as before", func() error {
		return no(s.OpenFiles() <= before+8, "%d are open, %d were", s.OpenFiles(), before) // connections to upstream are kept
	})
	client := rig.NewGitClient(l)
	client.Clone(s.URL("big"), "--depth=1", "--bare")
	l.idle(s)
}

// killInTransfer starts a clone by git and kills it when a pack is on its way.
func killInTransfer(l *Lab, url string) {
	client := rig.NewGitClient(l)
	dir := client.Dir()
	ctx, kill := context.WithCancel(l.ctx())
	ended := make(chan error, 1)
	go func() { _, err := client.Run(ctx, "clone", "--quiet", "--bare", url, dir); ended <- err }()
	for !packComing(dir) {
		select {
		case err := <-ended:
			l.Errorf("a clone over a slow line has ended: %v", err)
			kill()
			return
		case <-time.After(moment):
		}
	}
	kill()
	<-ended
}

func packComing(dir string) bool {
	names, _ := filepath.Glob(filepath.Join(dir, "objects", "pack", "tmp_pack_*"))
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

func leftWhileUpstreamIsSilent(l *Lab, s *rig.GitServer, mute *rig.Repo) {
	l.Up.Break(rig.Fault{Match: func(c rig.Call) bool { return c.Repo == mute.Name }, Silent: true})
	ctx, leave := context.WithCancel(l.ctx())
	ended := make(chan error, 1)
	go func() {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, refsURL(s.URL("mute")), nil)
		_, err := http.DefaultClient.Do(r)
		ended <- err
	}()
	l.until("upstream to be asked", func() error {
		now, _ := l.Up.UnderWay(rig.InfoRefs)
		return no(now > 0, "it is not")
	})
	leave()
	if err := <-ended; err == nil {
		l.Error("a silent upstream was answered for")
	}
	l.Up.Mend()
}

// childrensSettings: what a child may take stands in its configuration.
func childrensSettings(l *Lab) {
	l.Up.Deep("deep", l.Size.Commits)
	s := l.serve()
	client := rig.NewGitClient(l)
	client.Clone(s.URL("deep"), "--bare")
	want := map[string][]string{
		"pack-objects": {"pack.threads", "pack.windowmemory", "pack.deltacachesize", "core.packedgitlimit", "core.bigfilethreshold"},
		"index-pack":   {"pack.threads", "core.bigfilethreshold"},
	}
	for command, settings := range want {
		calls := s.Spy.Calls(command)
		if len(calls) == 0 {
			l.Errorf("void: there was no %s", command)
		}
		for _, c := range calls {
			for _, setting := range settings {
				if !hasSetting(s.Spy.Env(c), setting) {
					l.Errorf("%s was not told %s:\n%s", command, setting, s.Spy.Env(c))
				}
			}
		}
	}
	for _, c := range s.Spy.Calls() {
		for _, setting := range []string{"gc.auto", "maintenance.auto"} {
			if env := s.Spy.Env(c); c.Command != "version" && !hasSetting(env, setting) && !mirrorSays(s, setting) {
				l.Errorf("%s may start maintenance of its own: no %s", c.Args, setting)
			}
		}
	}
}

// killedChild: a generation that is killed before its first byte is told to the client, and the next one succeeds.
func killedChild(l *Lab) {
	big := l.Up.Big("big", l.Size.Big)
	s := l.serve()
	client := rig.NewGitClient(l)
	client.Git("ls-remote", s.URL("big"))
	held := s.Spy.Hold("pack-objects")
	ask := rig.Ask{Wants: []string{big.Git("rev-parse", "main")}}
	type end struct {
		p   *rig.Pack
		err error
	}
	ended := make(chan end, 1)
	go func() { p, err := ask.Get(l.ctx(), s.URL("big")); ended <- end{p, err} }()
	l.making(s, 0, 1)
	if err := syscall.Kill(s.Spy.Packs()[0].PID, syscall.SIGKILL); err != nil {
		l.Fatal(err)
	}
	held.Close()
	e := <-ended
	switch {
	case e.err != nil:
		l.Errorf("the connection was cut: %v", e.err)
	case e.p.Whole() == nil: // made again: as good
	case e.p.Status >= 500 && e.p.Text != "", e.p.Fatal != "", e.p.Refused != "":
		l.Logf("told: %v", e.p.Whole())
	default:
		l.Errorf("a silent failure: %v", e.p.Whole())
	}
	held.Release()
	p, err := ask.Get(l.ctx(), s.URL("big"))
	l.whole("the next clone", p, err)
	l.idle(s)
}

// packsNotInMemory: four slow clones at a time, and a client that stalls.
func packsNotInMemory(l *Lab) {
	big := l.Up.Big("big", l.Size.Big)
	s := l.serve("--memory-limit", "512MiB")
	tips := commits(big, "main")
	rig.NewGitClient(l).Clone(s.URL("big"), "--bare")
	stop := rig.WatchTree(s.PID())
	line := rig.SlowLine(l, s.HTTP, 4<<20)
	crowd(4, func(i int) {
		p, err := rig.Ask{Wants: tips[i : i+1]}.Get(l.ctx(), s.At(line, "big"))
		if l.whole(fmt.Sprint("client ", i), p, err) && p.First.Sub(p.Sent) > 2*time.Second {
			l.Errorf("client %d got its first byte after %s", i, p.First.Sub(p.Sent))
		}
	})
	stalled, err := rig.Ask{Wants: tips[:1], Window: 4 << 10}.Send(l.ctx(), s.URL("big"))
	if err != nil {
		l.Fatal(err)
	}
	defer stalled.Close()
	p, err := rig.Ask{Wants: tips[:1]}.Get(l.ctx(), s.URL("big"))
	l.whole("a client beside one that stalls", p, err)
	tree := stop()
	l.Logf("the server itself took %d MiB, with children %d MiB", tree.PeakRoot>>20, tree.PeakAnon>>20)
	if tree.PeakRoot > 128<<20 {
		l.Error("that is more than 128 MiB")
	}
}
