package git

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/git/upstream"
)

func optionsAt(t *testing.T, limit int64, change func(*Options)) Options {
	t.Helper()
	k, err := levee.New(levee.Options{MemoryLimit: limit, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Kernel: k, Hosts: []upstream.Host{{URL: "https://github.com"}}, Dir: "mirrors", Connection: Connection{76 << 10, 256 << 10}}
	if change != nil {
		change(&o)
	}
	return o
}

// The lines of git, its part of the margin and of the collector must be no more than git.memory, or Bazel would be cut short.
func TestGitsLinesFitItsMemoryAtEveryLimit(t *testing.T) {
	for _, m := range []int64{384, 512, 768, 1024, 2048, 4096, 8192, 65536} {
		o := optionsAt(t, m*mib, nil)
		s, err := New(o)
		if err != nil {
			t.Errorf("%d MiB: %v", m, err)
			continue
		}
		live, other := float64(0), float64(0)
		for _, l := range o.Kernel.Plan().Lines {
			switch {
			case !strings.HasPrefix(l.Account, "git_"):
			case l.Kind == levee.KindGo:
				live += float64(l.Bytes)
			default:
				other += float64(l.Bytes)
			}
		}
		live += float64(s.Connections()) * float64(o.Connection.Live)
		other += float64(s.Connections()) * float64(o.Connection.Kernel)
		used := (live/0.55 + other) * 20 / 19
		if memory := float64(s.Memory()); used > memory*1.001 || used < memory*0.8 {
			t.Errorf("%d MiB: %.0f MiB used of %.0f", m, used/mib, memory/mib)
		}
	}
}

func TestSettingsThatDoNotFitEachOtherAreNamed(t *testing.T) {
	for _, test := range []struct {
		limit  int64
		change func(*Options)
		want   []string
	}{
		{200, nil, []string{"git.memory", "git.max_body"}},
		{512, func(o *Options) { o.Total = 64 }, []string{"git.total (64)", "git.memory (204.8MiB)"}},
		{512, func(o *Options) { o.PerRepository = 30 }, []string{"git.per_repository (30)", "git.memory (204.8MiB)"}},
		{512, func(o *Options) { o.PerRepository, o.Total = 3, 2 }, []string{"git.per_repository (3)", "git.total (2)"}},
		{512, func(o *Options) { o.Memory = 512 * mib }, []string{"git.memory", "memory_limit"}},
		{512, func(o *Options) { o.MaxBody = 200 * mib }, []string{"git.memory", "git.max_body (200MiB)"}},
		{512, func(o *Options) { o.Wait, o.SilentWait = 1, 2 }, []string{"git.wait", "git.silent_wait"}},
		{512, func(o *Options) { o.HideRefs = []string{"!"} }, []string{"git.hide_refs"}},
		{512, func(o *Options) { o.Hosts[0].URL = "ftp://github.com" }, []string{"ftp://github.com"}},
	} {
		_, err := New(optionsAt(t, test.limit*mib, test.change))
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}

func TestOneGenerationMayTakeTheSharesOfAll(t *testing.T) {
	s, err := New(optionsAt(t, 1024*mib, func(o *Options) { o.Total, o.PerRepository = 4, 1 }))
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.gates.packs.Admit(t.Context(), "repo", 4*s.shares.slot)
	if err != nil {
		t.Fatal(err)
	}
	p.Release()
	if _, err := s.gates.packs.Admit(t.Context(), "repo", 4*s.shares.slot+1); err == nil {
		t.Error("more than all was admitted")
	}
}

func TestOnlyTheBusiestRepositoriesAreNamed(t *testing.T) {
	var b busiest
	for i := range 5000 {
		b.add("popular")
		b.add(fmt.Sprintf("once-%d", i))
	}
	list := b.list()
	if len(b.n) > countedRepositories || len(list) > shownRepositories || list[0].Name != "popular" || list[0].Served != 5000 {
		t.Errorf("%d counted, %d shown, first %+v", len(b.n), len(list), list[0])
	}
}

func TestPassesAreForgottenAfterTheGraceTimeAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccess(time.Minute)
		repo := upstream.Repo{Host: "h", Path: "p"}
		p := a.pass(repo, "Basic alice")
		a.granted(p)
		if !a.within(p) || a.within(a.pass(repo, "Basic bob"), a.pass(upstream.Repo{Host: "h", Path: "q"}, "Basic alice")) {
			t.Error("a pass is good for somebody or something else, or for nothing")
		}
		time.Sleep(time.Minute)
		if a.within(p) {
			t.Error("a pass is good after the grace time")
		}
		for i := range 2 * maxPasses {
			a.granted(a.pass(repo, fmt.Sprint(i)))
		}
		if len(a.mu.seen) > maxPasses {
			t.Errorf("%d passes are kept", len(a.mu.seen))
		}
	})
}
