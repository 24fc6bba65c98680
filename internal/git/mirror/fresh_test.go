package mirror

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/upstream"
)

func TestWithoutStalenessWhoComesAfterAQuestionBeganGetsANewerAnswer(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h := hostOf(w)
	s := openStore(t, options(t), h)
	lease(t, s, repoA)
	began, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.set(func(_ context.Context, what string, _ upstream.Credentials) error {
		once.Do(func() { close(began); <-answer })
		return nil
	})
	first := make(chan *View)
	ask := func() {
		v, err := s.Refs(t.Context(), repoA, nobody)
		if err != nil {
			t.Error(err)
		}
		first <- v
	}
	go ask()
	<-began
	var rest [10]chan *View
	for i := range rest {
		rest[i] = make(chan *View, 1)
		go func() {
			v, err := s.Refs(t.Context(), repoA, nobody)
			if err != nil {
				t.Error(err)
			}
			rest[i] <- v
		}()
	}
	m := s.enter(repoA)
	until(t, "the others wait", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.mu.users == 13 })
	s.leave(m)
	tip := w.commit("main")
	close(answer)
	<-first
	for _, c := range rest {
		if v := <-c; v.Refs.List[0].OID != tip {
			t.Error("a request that came after the question had begun got its answer")
		}
	}
	if asked, _ := h.counts(); asked != 3 {
		t.Errorf("upstream was asked %d times", asked)
	}
}

func TestWithinStalenessUpstreamIsNotAsked(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h, o := hostOf(w), options(t)
	o.MaxStaleness = time.Hour
	s := openStore(t, o, h)
	for range 5 {
		lease(t, s, repoA)
	}
	if asked, _ := h.counts(); asked != 1 {
		t.Errorf("upstream was asked %d times", asked)
	}
}

func TestG13WhileUpstreamIsOutAMirrorIsServedWithinGraceAndSaysSo(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	for _, kind := range []upstream.Kind{upstream.RateLimited, upstream.Unavailable, upstream.Stalled, upstream.Truncated} {
		t.Run(string(kind), func(t *testing.T) {
			h, o := hostOf(w), options(t)
			s := openStore(t, o, h)
			first := lease(t, s, repoA)
			first.Release()
			h.set(func(context.Context, string, upstream.Credentials) error { return failure(kind) })
			v, err := s.Refs(t.Context(), repoA, nobody)
			must(t, err)
			if kindOf(v.Stale) != kind || v.Age <= 0 || v.Generation != first.Generation {
				t.Errorf("%+v", v)
			}
			l, err := s.Lease(t.Context(), repoA, nobody, v, nil)
			must(t, err)
			l.Release()
			s.Close()

			s = openStore(t, o, h) // and after a restart
			v, err = s.Refs(t.Context(), repoA, nobody)
			must(t, err)
			l, err = s.Lease(t.Context(), repoA, nobody, v, nil)
			must(t, err)
			l.Release()
			s.Close()

			o.Grace = time.Nanosecond
			s = openStore(t, o, h)
			if _, err := s.Refs(t.Context(), repoA, nobody); kindOf(err) != kind {
				t.Errorf("after grace: %v", err)
			}
		})
	}
}

func TestNoGraceForWhoMayNotRead(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h := hostOf(w)
	s := openStore(t, options(t), h)
	lease(t, s, repoA)
	for _, kind := range []upstream.Kind{upstream.Unauthorized, upstream.NotFound, upstream.Unsupported, upstream.Malformed} {
		h.set(func(context.Context, string, upstream.Credentials) error { return failure(kind) })
		if _, err := s.Refs(t.Context(), repoA, nobody); kindOf(err) != kind {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestWhereObjectsCannotBeHadRefsAreUpstreamsToShow(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h := hostOf(w)
	h.set(func(_ context.Context, what string, _ upstream.Credentials) error {
		if what == "fetch" {
			return failure(upstream.Unsupported)
		}
		return nil
	})
	s := openStore(t, options(t), h)
	v, err := s.Refs(t.Context(), repoA, nobody)
	must(t, err)
	if _, err := s.Lease(t.Context(), repoA, nobody, v, nil); kindOf(err) != upstream.Unsupported {
		t.Errorf("lease: %v", err)
	}
	for range 3 {
		if _, err := s.Refs(t.Context(), repoA, nobody); kindOf(err) != upstream.Unsupported {
			t.Errorf("refs: %v", err)
		}
	}
	if _, fetched := h.counts(); fetched != 1 {
		t.Errorf("%d fetches", fetched)
	}

	// It is tried again after a while, behind everybody's back; and then it is a mirror like any other.
	h.set(nil)
	m := s.enter(repoA)
	m.mu.Lock()
	m.mu.pause = time.Time{}
	m.mu.Unlock()
	if _, err := s.Refs(t.Context(), repoA, nobody); kindOf(err) != upstream.Unsupported {
		t.Errorf("refs: %v", err)
	}
	m.mu.Lock()
	again := m.mu.syncing
	m.mu.Unlock()
	if again != nil {
		must(t, again.wait(t.Context(), nil))
	}
	s.leave(m)
	lease(t, s, repoA)
}

func TestG7WhenTheFetchFailsNobodyIsToldThatABranchIsNotThere(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h := hostOf(w)
	s := openStore(t, options(t), h)
	lease(t, s, repoA)
	w.git("tag", "t41")
	w.commit("main")
	w.git("push", "-q", "origin", "t41")
	h.set(func(_ context.Context, what string, _ upstream.Credentials) error {
		if what == "fetch" {
			return failure(upstream.Unavailable)
		}
		return nil
	})
	v, err := s.Refs(t.Context(), repoA, nobody)
	must(t, err)
	if last := v.Refs.List[len(v.Refs.List)-1]; last.Name != "refs/tags/t41" {
		t.Errorf("the view lacks t41: %+v", v.Refs.List)
	}
	if _, err := s.Lease(t.Context(), repoA, nobody, v, nil); kindOf(err) != upstream.Unavailable {
		t.Errorf("lease: %v", err)
	}
	h.set(nil)
	l := lease(t, s, repoA)
	sameRefsAs(t, l, w.origin)
}

func TestATruncatedCloneFailsForAllAndTheNextSucceeds(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h := hostOf(w)
	h.mu.cut = true
	s := openStore(t, options(t), h)
	errs := make(chan error)
	for range 10 {
		go func() {
			_, err := s.Lease(t.Context(), repoA, nobody, nil, nil)
			errs <- err
		}()
	}
	for range 10 {
		if err := <-errs; kindOf(err) != upstream.Truncated {
			t.Errorf("%v", err)
		}
	}
	if n := len(s.List()); n != 0 {
		t.Errorf("%d mirrors", n)
	}
	h.mu.Lock()
	h.mu.cut = false
	h.mu.Unlock()
	fsck(t, lease(t, s, repoA))
}

func TestACallersRefusalIsNoOtherCallers(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h := hostOf(w)
	good := cred("good")
	began := make(chan struct{})
	all := make(chan struct{})
	var once sync.Once
	h.set(func(_ context.Context, what string, c upstream.Credentials) error {
		once.Do(func() { close(began); <-all })
		if c != good {
			return failure(upstream.Unauthorized)
		}
		return nil
	})
	s := openStore(t, options(t), h)
	bad, fine := make(chan error), make(chan error)
	run := func(c upstream.Credentials, errs chan error) {
		l, err := s.Lease(t.Context(), repoA, c, nil, nil)
		if err == nil {
			l.Release()
		}
		errs <- err
	}
	go run(cred("bad"), bad)
	<-began
	for range 5 {
		go run(cred("worse"), bad)
		go run(good, fine)
	}
	close(all)
	for range 6 { // they may have an answer that somebody else asked for: who may read is decided before
		if err := <-bad; err != nil && kindOf(err) != upstream.Unauthorized {
			t.Errorf("with bad credentials: %v", err)
		}
	}
	for range 5 {
		if err := <-fine; err != nil {
			t.Errorf("with good credentials: %v", err)
		}
	}
}

func TestATransferWhoseCredentialsAreRevokedIsLedAnewByAFollower(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h, o := hostOf(w), options(t)
	o.MaxStaleness = time.Hour
	first, second := cred("first"), cred("second")
	fetching, revoke := make(chan struct{}, 2), make(chan struct{})
	h.set(func(_ context.Context, what string, c upstream.Credentials) error {
		if what == "fetch" && c == first {
			fetching <- struct{}{}
			<-revoke
			return failure(upstream.Unauthorized)
		}
		return nil
	})
	s := openStore(t, o, h)
	v, err := s.Refs(t.Context(), repoA, first)
	must(t, err)
	<-fetching
	errs := make(chan error, 2)
	for _, c := range []upstream.Credentials{first, second} {
		go func() {
			l, err := s.Lease(t.Context(), repoA, c, v, nil)
			if err == nil {
				l.Release()
			}
			errs <- err
		}()
	}
	m := s.enter(repoA)
	until(t, "both wait", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.mu.users == 4 })
	s.leave(m)
	close(revoke)
	failed := 0
	for range 2 {
		if err := <-errs; err != nil {
			failed++
		}
	}
	if failed > 1 {
		t.Errorf("%d failed", failed)
	}
	if s.List()[0].State != Ready {
		t.Errorf("%+v", s.List())
	}
}

func TestWhoWaitsForRefsDoesNotWaitForThoseThatCameAfter(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h := hostOf(w)
	s := openStore(t, options(t), h)
	lease(t, s, repoA)
	gates := make(chan chan struct{})
	h.set(func(_ context.Context, what string, _ upstream.Credentials) error {
		if what == "fetch" {
			open := make(chan struct{})
			gates <- open
			<-open
		}
		return nil
	})
	w.commit("main")
	v, err := s.Refs(t.Context(), repoA, nobody)
	must(t, err)
	got := make(chan error)
	go func() {
		l, err := s.Lease(t.Context(), repoA, nobody, v, nil)
		if err == nil {
			l.Release()
		}
		got <- err
	}()
	first := <-gates
	w.commit("main")
	_, err = s.Refs(t.Context(), repoA, nobody)
	must(t, err)
	close(first)
	second := <-gates // of what came after, and it stands still
	must(t, <-got)
	close(second)
}

func TestAShedCallersMirrorIsClonedAllTheSame(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	s := openStore(t, options(t), hostOf(w))
	_, err := s.Refs(t.Context(), repoA, nobody) // and then it is shed
	must(t, err)
	until(t, "the mirror is ready", func() bool { l := s.List(); return len(l) == 1 && l[0].State == Ready })
}

func TestAShedOfTheGateIsWhatTheLeaseFailsWith(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	o := options(t)
	s := openStore(t, o, hostOf(w))
	o.Gate.Close()
	if _, err := s.Lease(t.Context(), repoA, nobody, nil, nil); !errors.Is(err, gate.ErrShed) {
		t.Errorf("%v", err)
	}
}

func TestHostileAdvertisementsAreMalformed(t *testing.T) {
	oid := strings.Repeat("a", 40)
	for _, r := range []upstream.Ref{
		{Name: "refs/heads/../../x", OID: oid}, {Name: "refs/heads/a b", OID: oid}, {Name: "refs/heads/a\nb", OID: oid},
		{Name: "refs/heads/a.lock", OID: oid}, {Name: "config", OID: oid}, {Name: "refs/heads/a", OID: "x"},
		{Name: "refs/heads/a", OID: strings.Repeat("A", 40)}, {Name: "refs/heads/a"}, {Name: "refs/tags/a", OID: oid, Peeled: "x"},
		{Name: "HEAD", OID: oid, Symref: "../x"}, {Name: "refs/heads/a/", OID: oid}, {Name: "refs//a", OID: oid},
		{Name: "refs/heads/@{", OID: oid}, {Name: "refs/heads/.a", OID: oid},
	} {
		if err := checkRefs(&upstream.Refs{List: []upstream.Ref{r}}); kindOf(err) != upstream.Malformed {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if err := checkRefs(&upstream.Refs{ObjectFormat: "md5"}); kindOf(err) != upstream.Malformed {
		t.Error(err)
	}
}

func TestNothingIsKnownOfWhatUpstreamDoesNotHave(t *testing.T) {
	h := newHost(nil)
	h.set(func(context.Context, string, upstream.Credentials) error { return failure(upstream.NotFound) })
	s := openStore(t, options(t), h)
	for i := range 100 {
		_, _ = s.Refs(t.Context(), upstream.Repo{Host: "h", Path: strings.Repeat("x", i+1)}, nobody)
	}
	until(t, "all are forgotten", func() bool { return len(s.all()) == 0 })
}
