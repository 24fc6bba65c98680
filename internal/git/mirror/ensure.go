package mirror

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

// Ensure has objects fetched that the mirror lacks, or that are not reachable in it any more and may therefore only be served
// if upstream still does (single-flight by object). What neither has is returned. An error is as Lease's. It may raise
// l.Generation.
func (l *Lease) Ensure(ctx context.Context, cred upstream.Credentials, oids []pkt.OID) (missing []pkt.OID, err error) {
	if l.h == nil {
		return nil, nil
	}
	defer l.refresh()
	e := &ensuring{m: l.h.m, b: l.h.b, cred: cred}
	for _, o := range oids {
		e.want(string(o))
	}
	if err := e.look(); err != nil {
		e.m.dropIfBad(e.b, err)
		return nil, err
	}
	if len(e.absent) > 0 {
		if err := e.catchUp(ctx); err != nil {
			return nil, err
		}
	}
	if err := e.fetchAbsent(ctx); err != nil {
		return nil, err
	}
	if err := e.ask(ctx); err != nil {
		return nil, err
	}
	for _, o := range e.missing {
		missing = append(missing, pkt.OID(o))
	}
	return missing, nil
}

// ensuring is one Ensure.
type ensuring struct {
	m    *mirror
	b    *bare
	cred upstream.Credentials

	wanted   []string
	absent   []string // in no pack
	doubtful []string // there, but to be served only if upstream says so to this caller
	missing  []string
}

func (e *ensuring) want(oid string) {
	if !validOID(oid, e.b.hash) {
		e.missing = append(e.missing, oid)
		return
	}
	e.wanted = append(e.wanted, oid)
}

// look sorts what is wanted. What is in a pack and no suspect is reachable from a ref, and needs no more.
func (e *ensuring) look() error {
	packs, wants := e.b.live()
	outside, err := absent(packs, e.wanted)
	if err != nil {
		return err
	}
	if e.absent, err = absent(wants, outside); err != nil {
		return err
	}
	nowhere, doubtful := set(e.absent), set(outside)
	for o := range e.unreachable() {
		doubtful[o] = true
	}
	e.doubtful = nil
	for _, o := range e.wanted {
		if doubtful[o] && !nowhere[o] {
			e.doubtful = append(e.doubtful, o)
		}
	}
	return nil
}

// unreachable are those of the wanted that are suspects and no tips.
func (e *ensuring) unreachable() map[string]bool {
	e.b.mu.Lock()
	list, applied := e.b.mu.suspects, e.b.mu.applied
	e.b.mu.Unlock()
	if list.none() {
		return nil
	}
	found := map[string]bool{}
	for _, o := range e.wanted {
		if list.has(o) {
			found[o] = true
		}
	}
	for _, r := range applied.refs.List {
		delete(found, r.OID)
		delete(found, r.Peeled)
	}
	return found
}

func set(list []string) map[string]bool {
	m := make(map[string]bool, len(list))
	for _, o := range list {
		m[o] = true
	}
	return m
}

// aMoment is how old refs are that are not asked for again for the sake of a want.
const aMoment = time.Second

// catchUp asks upstream for its refs, which may be older than this want, and looks again: what a ref reaches is everybody's.
func (e *ensuring) catchUp(ctx context.Context) error {
	s := e.m.s
	v, err := s.refsSince(ctx, e.m, e.cred, time.Now().Add(-aMoment))
	if err != nil {
		return err
	}
	l, err := s.Lease(ctx, e.m.id, e.cred, v, nil)
	if err != nil {
		return err
	}
	defer l.Release()
	return e.look()
}

// fetchAbsent gets what no pack has, for all who want it now. Whose fetch it was needs no other word of upstream's.
func (e *ensuring) fetchAbsent(ctx context.Context) error {
	for len(e.absent) > 0 {
		mine, others, err := e.m.fetchWants(e.b, e.cred, e.absent)
		if err != nil {
			return err
		}
		e.absent = nil
		if mine != nil {
			if err := e.take(ctx, mine, true); err != nil {
				return err
			}
		}
		for _, f := range others {
			if err := e.take(ctx, f, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// take waits for a flight and sorts what it brought.
func (e *ensuring) take(ctx context.Context, f *flight, mine bool) error {
	select {
	case <-f.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	mine = mine || f.cred == e.cred // nobody's credentials are everybody's
	if f.err != nil && (mine || !isAccess(f.err)) {
		return f.err
	}
	for _, o := range f.oids {
		switch got := f.err == nil && !slices.Contains(f.missing, o); {
		case !slices.Contains(e.wanted, o):
		case mine && !got:
			e.missing = append(e.missing, o)
		case mine: // upstream has just said so to this caller
		case got:
			e.doubtful = append(e.doubtful, o)
		default: // not with their credentials; perhaps with ours
			e.absent = append(e.absent, o)
		}
	}
	return nil
}

// ask has upstream say to this caller what it serves of what is doubtful. It sends next to nothing for a commit: no tree, no
// blob, no parent. One that knows no filters sends what it thinks we lack.
func (e *ensuring) ask(ctx context.Context) error {
	if len(e.doubtful) == 0 {
		return nil
	}
	from, err := e.b.refs()
	if err != nil {
		return err
	}
	_, missing, err := tryWants(e.doubtful, func(oids []string) error {
		err := e.m.s.up.Fetch(ctx, e.m.id, e.cred, upstream.Fetch{Wants: oids, Depth: 1, Filter: "tree:0", Pack: io.Discard})
		if kindOf(err) == upstream.Unsupported {
			err = e.m.s.up.Fetch(ctx, e.m.id, e.cred, upstream.Fetch{Wants: oids, Haves: haves(from.refs, change{}), Pack: io.Discard})
		}
		return err
	})
	e.missing = append(e.missing, missing...)
	return err
}

// mostTries bounds how often upstream is asked for one list.
const mostTries = 32

// tryWants calls try with oids, and without those that upstream does not know.
func tryWants(oids []string, try func(oids []string) error) (got, missing []string, err error) {
	for range mostTries {
		if len(oids) == 0 {
			return nil, missing, nil
		}
		err := try(oids)
		var f *upstream.Failure
		if !errors.As(err, &f) || f.Kind != upstream.NotOurRef {
			return oids, missing, err
		}
		i := slices.Index(oids, f.OID)
		if i < 0 && len(oids) > 1 { // it does not say which: one at a time, then
			return tryEach(oids, missing, try)
		}
		i = max(i, 0)
		missing = append(missing, oids[i])
		oids = slices.Delete(slices.Clone(oids), i, i+1)
	}
	return nil, append(missing, oids...), nil
}

func tryEach(oids, missing []string, try func(oids []string) error) (got, _ []string, err error) {
	for i, o := range oids {
		if i == mostTries {
			return got, append(missing, oids[i:]...), nil
		}
		switch err := try([]string{o}); {
		case kindOf(err) == upstream.NotOurRef:
			missing = append(missing, o)
		case err != nil:
			return got, missing, err
		default:
			got = append(got, o)
		}
	}
	return got, missing, nil
}
