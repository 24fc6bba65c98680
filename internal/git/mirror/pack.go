package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/git/child"
)

const (
	// growth is how many times larger than all smaller ones together each pack is after fold. A larger one makes fewer packs
	// and rewrites them more often. With it the number of packs grows with the logarithm of the number of objects.
	growth = 2

	// mostPacks is what fetches leave to upkeep. A fetch that brings one more folds them itself.
	mostPacks = 48
)

// rollUp says how many of the smallest packs, whose numbers of objects come in ascending order, are to become one.
func rollUp(objects []int64) (n int) {
	sum := int64(0)
	for i, count := range objects {
		if i > 0 && count < growth*sum {
			n = i + 1
		}
		sum += count
	}
	return n
}

// fold makes few packs of many, and brings what is derived from them up to date.
func (b *bare) fold(ctx context.Context, m *mirror) error {
	p, err := b.s.quietPermit(ctx, b.id)
	if err != nil {
		return err
	}
	defer p.Release()
	b.folding.Lock()
	defer b.folding.Unlock()
	b.mu.Lock()
	b.mu.unfolded = false
	b.mu.Unlock()
	err = p.foldLocked(ctx, b)
	if err != nil {
		b.mu.Lock()
		b.mu.unfolded = true
		b.mu.Unlock()
	}
	return err
}

// bound is for who has just added a pack.
func (p *permit) bound(ctx context.Context, b *bare) error {
	b.folding.Lock()
	defer b.folding.Unlock()
	if packs, _ := b.live(); len(packs) <= mostPacks {
		return nil
	}
	return p.foldLocked(ctx, b)
}

func (p *permit) foldLocked(ctx context.Context, b *bare) error {
	packs, _ := b.live() // the largest first
	small := make([]int64, 0, len(packs))
	for _, k := range slices.Backward(packs) {
		small = append(small, k.objects())
	}
	old := packs[len(packs)-rollUp(small):]
	if len(old) == 0 {
		return p.derive(ctx, b, false)
	}
	if err := b.s.makeRoom(packBytes(old)); err != nil {
		return err
	}
	var names strings.Builder
	for _, k := range old {
		names.WriteString(k.name() + ".pack\n")
	}
	made, err := p.packAnew(ctx, b, []string{"--stdin-packs"}, names.String())
	if err != nil {
		return err
	}
	defer made.discard()
	if err := b.add(made); err != nil {
		return err
	}
	return errors.Join(b.doom(old), p.derive(ctx, b, false))
}

func packBytes(packs []*pack) (n int64) {
	for _, p := range packs {
		n += p.bytes
	}
	return n
}

// packAnew makes a pack in work/.
func (p *permit) packAnew(ctx context.Context, b *bare, what []string, stdin string) (_ *incoming, err error) {
	made, err := b.s.newIncoming()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			made.discard()
		}
	}()
	if err := made.borrow(b); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	args := append([]string{"pack-objects", "-q", "--delta-base-offset", "--non-empty"}, what...)
	err = p.git(ctx, b.dir, child.Cmd{
		Args: append(args, filepath.Join(made.packs(), "pack")), Env: made.env(),
		Stdin: strings.NewReader(stdin), Stdout: &out,
	})
	if err != nil {
		return nil, fmt.Errorf("pack anew: %w", err)
	}
	if made.hash = strings.TrimSpace(out.String()); made.hash != "" && !validOID(made.hash, b.hash) {
		return nil, fmt.Errorf("git pack-objects says %.80q", out.String())
	}
	made.bytes = diskBytes(made.work)
	b.s.incoming.Add(made.bytes)
	return made, nil
}

// repack packs what refs reach, and drops the rest. It works beside fetches.
func (b *bare) repack(ctx context.Context, m *mirror) error {
	before, err := b.refs()
	if err != nil {
		return err
	}
	packs, wants := b.live()
	if err := b.s.makeRoom(packBytes(packs)); err != nil {
		return err
	}
	made, err := b.packReachable(ctx)
	if err != nil {
		return err
	}
	defer made.discard()
	done, err := b.exchange(ctx, before, append(slices.Clone(packs), wants...), made)
	if !done {
		return err
	}
	err = errors.Join(err, b.deriveAnew(ctx))
	if err != nil {
		b.dropDerived() // it names objects that go when the caller lets go of b
	}
	return err
}

func (b *bare) deriveAnew(ctx context.Context) error {
	p, err := b.s.quietPermit(ctx, b.id)
	if err != nil {
		return err
	}
	defer p.Release()
	b.folding.Lock()
	defer b.folding.Unlock()
	return p.derive(ctx, b, true)
}

// packReachable has no permit any more when it returns: exchange waits for fetches, which may wait for one.
func (b *bare) packReachable(ctx context.Context) (*incoming, error) {
	p, err := b.s.quietPermit(ctx, b.id)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	return p.packAnew(ctx, b, []string{"--all"}, "")
}

// exchange puts made in the place of old, the packs that there were when refs were those of before. Meanwhile refs may have
// moved to what was left out; then it was all for nothing. A fetch decides what it lacks and then moves refs, so none must be
// between the two.
func (b *bare) exchange(ctx context.Context, before *snapshot, old []*pack, made *incoming) (done bool, err error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	now, err := b.refs()
	if err != nil {
		return false, err
	}
	moved := now.seq != before.seq
	if moved {
		if ok, err := b.covered(ctx, before, now, old, made); !ok || err != nil {
			return false, err
		}
	}
	b.folding.Lock()
	defer b.folding.Unlock()
	if !moved { // whatever was folded since has nothing that made lacks, but for what is to go
		packs, wants := b.live()
		old = append(slices.Clone(packs), wants...)
	}
	if err := b.add(made); err != nil {
		return false, err
	}
	if err := b.doom(old); err != nil {
		return false, err
	}
	err = b.note(func(m *meta) { m.Packed, m.Repacked = time.Now().UTC(), true })
	if moved || err != nil {
		return true, err // the list of suspects has some too many now, which does no harm
	}
	return true, b.suspect(suspects{})
}

// covered tells whether all that refs reach now and did not reach before is in packs that came since.
func (b *bare) covered(ctx context.Context, before, now *snapshot, old []*pack, made *incoming) (bool, error) {
	p, err := b.s.permit(ctx, b.id)
	if err != nil {
		return false, err
	}
	defer p.Release()
	added := compare(before.refs, now.refs).added
	if len(added) == 0 {
		return true, nil
	}
	found := &oidLines{hash: b.hash, most: mostSuspects}
	revs := strings.Join(added, "\n") + "\n^" + strings.Join(oids(before.refs), "\n^") + "\n"
	err = p.git(ctx, b.dir, child.Cmd{Args: []string{"rev-list", "--objects", "--stdin"}, Stdin: strings.NewReader(revs), Stdout: found})
	if found.over {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	packs, _ := b.live()
	since := slices.DeleteFunc(slices.Clone(packs), func(k *pack) bool { return slices.Contains(old, k) })
	lacking, err := absent(since, found.names())
	if err != nil || len(lacking) == 0 {
		return err == nil, err
	}
	// rev-list names some objects that were reached before, too: they are in made.
	again, err := openPack(filepath.Join(made.packs(), "pack-"+made.hash), b.hash)
	if err != nil {
		return false, err
	}
	lacking, err = absent([]*pack{again}, lacking)
	return len(lacking) == 0, err
}

// dropDerived removes what can be made again from packs and refs.
func (b *bare) dropDerived() {
	dropDerived(b.dir)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.unfolded = true
}

func dropDerived(dir string) {
	objects := filepath.Join(dir, "objects")
	names, _ := filepath.Glob(filepath.Join(globQuote(objects), "pack", "multi-pack-index*"))
	for _, name := range append(names, filepath.Join(objects, "info", "commit-graph")) {
		os.Remove(name)
	}
	os.RemoveAll(filepath.Join(objects, "info", "commit-graphs"))
}

// derive writes the multi-pack-index with its bitmap, and the commit-graph. None of them is needed for right answers, so
// failing to make one is no reason not to serve; the error is the end of ctx.
func (p *permit) derive(ctx context.Context, b *bare, whole bool) error {
	packs, _ := b.live()
	if len(packs) == 0 {
		return nil
	}
	err := p.writeIndex(ctx, b, packs, "--bitmap")
	if err != nil && ctx.Err() == nil {
		err = errors.Join(err, p.writeIndex(ctx, b, packs))
	}
	split := "--split"
	if whole {
		split = "--split=replace"
	}
	err = errors.Join(err, p.git(ctx, b.dir, child.Cmd{Args: []string{"commit-graph", "write", "--reachable", split}}))
	if err != nil && killed(ctx, err) {
		b.unlock()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		if whole {
			b.dropDerived()
		}
		b.s.log.Warn("a mirror has no bitmap or no commit-graph; clones of it cost more", "repo", b.id.String(), "error", err)
	}
	return nil
}

// killed tells whether a child had no time to clear up behind itself.
func killed(ctx context.Context, err error) bool {
	var exit *child.ExitError
	return ctx.Err() != nil || errors.As(err, &exit) && exit.Signal != ""
}

// unlock removes the locks of derived files, which git does only when it ends by itself: with them left, none would be written
// again before a restart. Upkeep is killed each time that it gives way.
func (b *bare) unlock() {
	objects := filepath.Join(b.dir, "objects")
	for _, name := range []string{"pack/multi-pack-index.lock", "info/commit-graph.lock", "info/commit-graphs/commit-graph-chain.lock"} {
		os.Remove(filepath.Join(objects, name))
	}
	for _, pattern := range []string{"pack/tmp_midx*", "pack/tmp_bitmap*", "info/tmp_graph*", "info/commit-graphs/tmp_graph*"} {
		names, _ := filepath.Glob(filepath.Join(globQuote(objects), pattern))
		for _, name := range names {
			os.Remove(name)
		}
	}
}

// writeIndex indexes packs together. The largest is preferred: git copies what a client needs of it without looking at
// single objects.
func (p *permit) writeIndex(ctx context.Context, b *bare, packs []*pack, more ...string) error {
	var names strings.Builder
	for _, k := range packs {
		names.WriteString(k.name() + ".idx\n")
	}
	err := p.git(ctx, b.dir, child.Cmd{
		Args:   append([]string{"multi-pack-index", "write", "--stdin-packs", "--preferred-pack=" + packs[0].name() + ".pack"}, more...),
		Config: []string{"pack.writeBitmapLookupTable=true"},
		Stdin:  strings.NewReader(names.String()),
	})
	if err != nil {
		if killed(ctx, err) {
			b.unlock()
		}
		// An old one would name packs that are about to go.
		os.Remove(filepath.Join(b.packDir(), "multi-pack-index"))
	}
	return err
}

// verify looks at everything, after something failed as if files were damaged.
func (b *bare) verify(ctx context.Context, m *mirror) error {
	b.mu.Lock()
	why := b.mu.doubts
	b.mu.Unlock()
	err := b.check(ctx)
	var exit *child.ExitError
	if errors.Is(err, errBadPack) || errors.As(err, &exit) && !exit.OutOfMemory && !exit.DiskFull {
		m.dropThis(b, fmt.Errorf("%w (looked at because: %w)", err, why))
		return nil
	}
	if err == nil || exit != nil { // more memory than there is would be needed to know
		b.mu.Lock()
		b.mu.doubts, b.mu.verified = nil, time.Now()
		b.mu.Unlock()
	}
	return err
}

func (b *bare) check(ctx context.Context) error {
	if _, err := openPacks(b.packDir(), b.hash); err != nil {
		return err
	}
	p, err := b.s.quietPermit(ctx, b.id)
	if err != nil {
		return err
	}
	defer p.Release()
	b.folding.Lock()
	defer b.folding.Unlock()
	b.dropDerived()
	packs, wants := b.live()
	for _, k := range append(slices.Clone(packs), wants...) {
		if err := p.git(ctx, b.dir, child.Cmd{Args: []string{"index-pack", "--verify", k.base + ".pack"}}); err != nil {
			return err
		}
	}
	return p.git(ctx, b.dir, child.Cmd{Args: []string{"rev-list", "--objects", "--all", "--quiet"}})
}
