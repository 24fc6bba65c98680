package mirror

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

// forced makes a repository of which a branch was force-pushed after it was mirrored; it returns what is unreachable now.
func forced(t *testing.T, s *Store, w *work) (l *Lease, old []string) {
	t.Helper()
	w.commit("main")
	lost := w.commit("main")
	old = []string{lost, w.git("rev-parse", lost+"^{tree}"), w.git("rev-parse", lost+":file")}
	lease(t, s, repoA).Release()
	w.git("reset", "-q", "--hard", "HEAD~1")
	w.commit("main")
	return lease(t, s, repoA), old
}

func ensure(t *testing.T, l *Lease, c upstream.Credentials, names ...string) []pkt.OID {
	t.Helper()
	missing, err := l.Ensure(t.Context(), c, oidsOf(names...))
	must(t, err)
	return missing
}

func prune(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "reflog", "expire", "--expire=now", "--all")
	git(t, dir, "repack", "-a", "-d", "-q")
	git(t, dir, "prune", "--expire=now")
}

func TestG5AfterAForcePushWhatWasLostIsServedOnlyIfUpstreamStillDoes(t *testing.T) {
	w := newOrigin(t)
	h, o := hostOf(w), options(t)
	s := openStore(t, o, h)
	l, old := forced(t, s, w)
	if missing := ensure(t, l, nobody, old...); len(missing) > 0 {
		t.Errorf("upstream has them, and %v are missing", missing)
	}
	prune(t, w.origin)
	for _, name := range old {
		if !has(t, l.Dir, name) {
			t.Fatalf("%s is not in the mirror: this tests nothing", name)
		}
	}
	check := func() {
		t.Helper()
		if missing := ensure(t, l, nobody, append(old, w.git("rev-parse", "HEAD"), w.git("rev-parse", "HEAD:file"))...); len(missing) != len(old) {
			t.Errorf("of %d that upstream does not serve, %d are missing", len(old), len(missing))
		}
	}
	check()
	l.Release()
	s.Close()
	s = openStore(t, o, h) // a restart forgets nothing
	l = lease(t, s, repoA)
	check()
	if _, fetched := h.counts(); fetched > 60 {
		t.Errorf("%d fetches", fetched)
	}
}

func TestG5WhatUpstreamServesToOneCallerIsNotServedToAnother(t *testing.T) {
	w := newOrigin(t)
	h := hostOf(w)
	s := openStore(t, options(t), h)
	l, old := forced(t, s, w)
	insider, outsider := cred("insider"), cred("outsider")
	h.set(func(_ context.Context, what string, c upstream.Credentials) error {
		if what == "fetch" && c == outsider {
			return failure(upstream.NotOurRef)
		}
		return nil
	})
	hidden := w.git("commit-tree", "-m", "hidden", "HEAD^{tree}")
	w.git("push", "-q", "origin", hidden+":refs/x/y")
	git(t, w.origin, "update-ref", "-d", "refs/x/y") // upstream has it; no ref reaches it
	old = append(old, hidden)
	for range 2 { // before it was fetched for the other, and after
		if missing := ensure(t, l, outsider, old...); len(missing) != len(old) {
			t.Errorf("the outsider may have %d", len(old)-len(missing))
		}
		if missing := ensure(t, l, insider, old...); len(missing) > 0 {
			t.Errorf("the insider lacks %v", missing)
		}
	}
	if !has(t, l.Dir, hidden) {
		t.Error("git does not find what was fetched by name")
	}
}

func TestAFullRepackDropsWhatIsLostWhenNoLeaseHoldsIt(t *testing.T) {
	w := newOrigin(t)
	h, o := hostOf(w), options(t)
	s := openStore(t, o, h)
	l, old := forced(t, s, w)
	ensure(t, l, nobody, old...)
	m := s.enter(repoA)
	defer s.leave(m)
	must(t, l.h.b.repack(t.Context(), m))
	if !has(t, l.Dir, old[0]) {
		t.Error("it is gone, and a lease held it")
	}
	l.Release()
	if has(t, l.Dir, old[0]) {
		t.Error("it is still there, and nobody holds it")
	}
	next := lease(t, s, repoA)
	fsck(t, next)
	sameRefsAs(t, next, w.origin)
	prune(t, w.origin)
	if missing := ensure(t, next, nobody, old...); len(missing) != len(old) {
		t.Errorf("missing %v", missing)
	}
	next.Release()
	s.Close()
	s = openStore(t, o, h)
	b, release := s.all()[0].held()
	defer release()
	if !b.mu.suspects.none() || b.mu.unfolded {
		t.Error("after a restart there is something left to do")
	}
}

func TestG16ARepackDuringWhichRefsMovedToWhatItDropsIsForNothing(t *testing.T) {
	w := newOrigin(t)
	s := openStore(t, options(t), hostOf(w))
	l, old := forced(t, s, w)
	done := repackDuring(t, l.h.b, func() {
		w.git("push", "-q", "--force", "origin", old[0]+":refs/heads/main") // back again
		lease(t, s, repoA)
	})
	if done {
		t.Error("packs were exchanged, and refs need what was dropped")
	}
	fsck(t, lease(t, s, repoA))
}

func TestARepackDuringWhichNewCommitsCameIsNotForNothing(t *testing.T) {
	w := newOrigin(t)
	s := openStore(t, options(t), hostOf(w))
	l, old := forced(t, s, w)
	done := repackDuring(t, l.h.b, func() {
		for range 3 {
			w.commit("main")
			lease(t, s, repoA).Release()
		}
	})
	if !done {
		t.Error("packs were not exchanged, and a busy mirror would never be packed anew")
	}
	l.Release()
	l = lease(t, s, repoA)
	fsck(t, l)
	sameRefsAs(t, l, w.origin)
	prune(t, w.origin)
	if missing := ensure(t, l, nobody, old...); len(missing) != len(old) {
		t.Errorf("missing %v", missing)
	}
}

func repackDuring(t *testing.T, b *bare, meanwhile func()) (done bool) {
	t.Helper()
	before, err := b.refs()
	must(t, err)
	packs, wants := b.live()
	made, err := b.packReachable(t.Context())
	must(t, err)
	defer made.discard()
	meanwhile()
	done, err = b.exchange(t.Context(), before, append(slices.Clone(packs), wants...), made)
	must(t, err)
	if done {
		must(t, b.deriveAnew(t.Context()))
	}
	return done
}

func TestG14ReachableObjectsAreServedWithoutAskingUpstream(t *testing.T) {
	w := newOrigin(t)
	first := w.commit("main")
	w.commit("main")
	h := hostOf(w)
	s := openStore(t, options(t), h)
	l := lease(t, s, repoA)
	_, before := h.counts()
	if missing := ensure(t, l, nobody, first, w.git("rev-parse", first+"^{tree}"), w.git("rev-parse", first+":file")); len(missing) > 0 {
		t.Errorf("missing %v", missing)
	}
	if _, after := h.counts(); after != before {
		t.Error("upstream was asked")
	}
}

func TestG14WhatTheMirrorLacksIsFetchedOnceForAllBeforeAnybodyHearsNotOurRef(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h := hostOf(w)
	s := openStore(t, options(t), h)
	l := lease(t, s, repoA)
	generation := l.Generation
	hidden := w.git("commit-tree", "-m", "hidden", "-p", "HEAD", "HEAD^{tree}")
	w.git("push", "-q", "origin", hidden+":refs/x/y")
	git(t, w.origin, "update-ref", "-d", "refs/x/y")
	nowhere := strings.Repeat("0123456789", 4)
	_, before := h.counts()
	answers := make(chan []pkt.OID)
	for range 10 {
		go func() {
			again := l.Hold()
			defer again.Release()
			missing, err := again.Ensure(t.Context(), nobody, oidsOf(hidden, nowhere, "nonsense"))
			if err != nil {
				t.Error(err)
			}
			answers <- missing
		}()
	}
	for range 10 {
		if missing := <-answers; len(missing) != 2 {
			t.Errorf("missing %v", missing)
		}
	}
	ensure(t, l, nobody, hidden)
	if l.Generation <= generation {
		t.Error("the generation is what it was")
	}
	if _, after := h.counts(); after-before > 60 {
		t.Errorf("%d fetches", after-before)
	}
	client := t.TempDir()
	git(t, client, "init", "-q")
	git(t, client, "-c", "protocol.version=2", "fetch", "-q", "file://"+l.Dir, hidden) // what a server would send
	git(t, client, "fsck", "--full", "--no-dangling")
}

func TestAWantThatUpstreamHasJustGotIsFoundByItsRefs(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	h, o := hostOf(w), options(t)
	o.MaxStaleness = time.Hour
	s := openStore(t, o, h)
	l := lease(t, s, repoA)
	tip := w.commit("main")
	l.h.m.mu.Lock()
	l.h.m.mu.known = l.h.m.mu.known.at(time.Now().Add(-time.Minute))
	l.h.m.mu.Unlock()
	if missing := ensure(t, l, nobody, tip); len(missing) > 0 {
		t.Errorf("missing %v", missing)
	}
	packs, wants := l.h.b.live()
	if len(packs) != 2 || len(wants) != 0 {
		t.Errorf("%d packs and %d of wants", len(packs), len(wants))
	}
}

func TestWhenUpstreamIsOutAnUnreachableWantFailsAndAReachableOneDoesNot(t *testing.T) {
	w := newOrigin(t)
	h := hostOf(w)
	s := openStore(t, options(t), h)
	l, old := forced(t, s, w)
	h.set(func(context.Context, string, upstream.Credentials) error { return failure(upstream.Unavailable) })
	if _, err := l.Ensure(t.Context(), nobody, oidsOf(old...)); kindOf(err) != upstream.Unavailable {
		t.Errorf("%v", err)
	}
	if missing := ensure(t, l, nobody, w.git("rev-parse", "HEAD"), w.git("rev-parse", "HEAD~1")); len(missing) > 0 {
		t.Errorf("missing %v", missing)
	}
}

func TestALeaseThatNoStoreMadeDoesNoHarm(t *testing.T) {
	l := &Lease{Dir: "x"}
	again := l.Hold()
	again.Release()
	l.Suspect(nil)
	if missing, err := l.Ensure(t.Context(), nobody, oidsOf("x")); missing != nil || err != nil {
		t.Error(missing, err)
	}
	l.Release()
	l.Release()
}
