package rig

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the tests of the Git cache stand on is tested here with the real git: an upstream that did not do what it is told
// would make them pass for nothing.

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain until " + what)
		}
	}
}

func TestARealGitClonesFromTheUpstreamWhichRemembersIt(t *testing.T) {
	u := NewUpstream(t)
	u.R40("team/R40")
	c := NewGitClient(t)
	dir := c.Clone(u.URL("team/R40"))
	if n := len(strings.Fields(c.In(dir, "tag"))); n != 40 {
		t.Errorf("%d tags", n)
	}
	var kinds []Kind
	for _, call := range u.Calls() {
		if kinds = append(kinds, call.Kind); call.Repo != "team/R40" || call.Version != 2 || call.Status != http.StatusOK || !strings.HasPrefix(call.Agent, "git/") {
			t.Errorf("%+v", call)
		}
	}
	if !slices.Equal(kinds, []Kind{InfoRefs, LsRefs, Fetch}) || u.Count(Call.Clone) != 1 || u.Count(Call.Transfer) != 1 {
		t.Errorf("%v", kinds)
	}
}

func TestARealGitPushesToTheUpstream(t *testing.T) {
	u := NewUpstream(t)
	r := u.Empty("r")
	c := NewGitClient(t)
	dir := c.Clone(u.URL("r"))
	c.In(dir, "commit", "--quiet", "--allow-empty", "-m", "first")
	c.In(dir, "push", "--quiet", "origin", "HEAD:main")
	if pushed, local := r.Git("rev-parse", "main"), c.In(dir, "rev-parse", "HEAD"); pushed != local {
		t.Errorf("%s there, %s here", pushed, local)
	}
}

func TestTheUpstreamMisbehavesAsItIsTold(t *testing.T) {
	u := NewUpstream(t)
	u.Big("big", 1<<20)
	fetches := func(c Call) bool { return c.Kind == Fetch }
	for _, c := range []struct {
		name  string
		fault Fault
		says  string
	}{
		{"a cut connection", Fault{Match: fetches, CutAfter: 100_000}, "early EOF"},
		{"an end in the middle", Fault{Match: fetches, EndAfter: 100_000}, "early EOF"},
		{"a rate limit", Fault{Status: http.StatusTooManyRequests, RetryAfter: "5"}, "429"},
		{"another host", Fault{Match: func(c Call) bool { return c.Kind == InfoRefs }, Redirect: DeadAddress(t)}, "Failed to connect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lift := u.Break(c.fault)
			client := NewGitClient(t)
			if out, err := client.Run(t.Context(), "clone", u.URL("big"), client.Dir()); err == nil || !strings.Contains(out, c.says) {
				t.Errorf("%v\n%s", err, out)
			}
			lift()
			client.Clone(u.URL("big"))
		})
	}
}

func TestASilentUpstreamAnswersNothingAndAStalledOneGoesOnWhenItIsMended(t *testing.T) {
	u := NewUpstream(t)
	u.Big("big", 1<<20)
	c := NewGitClient(t)
	u.Break(Fault{Silent: true, Times: 1})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := c.Run(ctx, "ls-remote", u.URL("big")); ended <- err }()
	eventually(t, "it was asked", func() bool { now, _ := u.UnderWay(InfoRefs); return now == 1 })
	cancel()
	if err := <-ended; err == nil {
		t.Error("it was answered")
	}
	eventually(t, "the call has ended with its client", func() bool { now, _ := u.UnderWay(InfoRefs); return now == 0 })

	u.Break(Fault{Match: func(c Call) bool { return c.Kind == Fetch }, StallAfter: 50_000, Times: 1})
	go func() { _, err := c.Run(t.Context(), "clone", u.URL("big"), c.Dir()); ended <- err }()
	eventually(t, "the clone has begun", func() bool { now, _ := u.UnderWay(Fetch); return now == 1 })
	u.Mend()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestARestrictedRepositoryIsForItsUserUntilThatIsRevoked(t *testing.T) {
	u := NewUpstream(t)
	u.R40("priv")
	u.Restrict("priv", "a", "good")
	c := NewGitClient(t)
	as := func(user *url.Userinfo) string {
		at, _ := url.Parse(u.URL("priv"))
		at.User = user
		return at.String()
	}
	c.Clone(as(url.UserPassword("a", "good")))
	for _, user := range []*url.Userinfo{nil, url.UserPassword("a", "bad")} {
		if out, err := c.Run(t.Context(), "ls-remote", as(user)); err == nil {
			t.Errorf("%v may read:\n%s", user, out)
		}
	}
	u.Revoke("priv")
	if out, err := c.Run(t.Context(), "ls-remote", as(url.UserPassword("a", "good"))); err == nil {
		t.Errorf("may read still:\n%s", out)
	}
}

func TestAnAskGetsAWholePackAndKnowsOneThatIsNot(t *testing.T) {
	u := NewUpstream(t)
	tip := u.Big("big", 1<<20).Git("rev-parse", "main")
	for _, a := range []Ask{{Wants: []string{tip}}, {Wants: []string{tip}, Gzip: true, Quiet: true, From: "127.0.0.2"}, {Wants: []string{tip}, Depth: 1}} {
		p, err := a.Get(t.Context(), u.URL("big"))
		if err == nil {
			err = p.Whole()
		}
		if err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
	u.Break(Fault{EndAfter: 300_000})
	if p, err := (Ask{Wants: []string{tip}}).Get(t.Context(), u.URL("big")); err == nil && p.Whole() == nil {
		t.Error("a pack that was cut passes for a whole one")
	}
	u.Mend()
	p, err := Ask{Wants: []string{strings.Repeat("1", 40)}}.Get(t.Context(), u.URL("big"))
	if p == nil || !errors.Is(err, io.EOF) && err != nil || !strings.Contains(p.Refused, "not our ref") {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestASlowLineIsSlow(t *testing.T) {
	u := NewUpstream(t)
	tip := u.Big("big", 1<<20).Git("rev-parse", "main")
	line := SlowLine(t, u.Addr, 2<<20)
	began := time.Now()
	p, err := Ask{Wants: []string{tip}}.Get(t.Context(), "http://"+line+"/big")
	if took := time.Since(began); err != nil || p.Whole() != nil || took < 300*time.Millisecond {
		t.Errorf("%v, %v after %s", err, p, took)
	}
}

func TestASpyHoldsCallsAndLetsThemGo(t *testing.T) {
	s := newSpy(t)
	held := s.Hold("version")
	start := func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(s.Dir, "bin", "git"), "version")
		cmd.Env = append(plainEnv(s.Dir), "SECRET=no")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	first := start()
	eventually(t, "the call is noted", func() bool { return len(s.Calls("version")) == 1 })
	held.Close()
	if err := start().Wait(); err != nil {
		t.Errorf("a call after the door was closed: %v", err)
	}
	if p, ok := readProcess(first.Process.Pid); !ok || p.State == 'Z' {
		t.Error("the call that was held has gone on")
	}
	held.Release()
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(s.Everything(), "SECRET=") || len(s.Packs()) != 0 {
		t.Errorf("noted: %q", s.Everything())
	}
}

func TestATreeIsWatched(t *testing.T) {
	cmd := exec.Command("sh", "-c", "git hash-object -t tree /dev/null; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := WatchTree(cmd.Process.Pid)
	eventually(t, "it is named", func() bool { return len(Naming("hash-object -t tree /dev/null", 0)) > 0 })
	in.Close()
	if tree := stop(); tree.PeakAnon == 0 {
		t.Errorf("%+v", tree)
	}
	cmd.Wait()
}
