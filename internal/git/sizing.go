package git

import (
	"fmt"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/bytesize"
)

const (
	kib = 1 << 10
	mib = 1 << 20

	smallMemory = 1 << 30 // limits below which bodies are held shorter
	largeMemory = 4 << 30

	defaultTotal         = 8
	defaultPerRepository = 2
)

// What is counted by number, in bytes; tests hold these figures.
const (
	// perRequest is what a request takes in flight, besides its connection: a short body and what is parsed from it, the
	// buffer of a pack on its way out, or the two buffers of a forward.
	perRequest = 160 * kib

	// smallBody is what of a body perRequest contains.
	smallBody = 16 * kib

	// bodyFactor is how many times its length a parsed body takes: the bytes, and a header of each object's name in sorted
	// lists.
	bodyFactor = 3
)

// Memory of children, by what they do. The least that a generation is given is what git takes for a few thousand objects;
// below it nothing useful can be planned.
const (
	leastSlot      = 8 * mib
	comfortSlot    = 16 * mib // generations at once give way before slots get smaller than this
	leastMirror    = 24 * mib
	leastQuickSlot = 6 * mib
	mostQuickSlot  = 32 * mib
	leastRoundSlot = 5 * mib
	mostRoundSlot  = 16 * mib
	manyChildren   = 8
)

// upstreamReceive is the buffer in the kernel of a connection to an upstream, which the kernel doubles; what is sent is little
// but for pushes.
const (
	upstreamReceive = 256 * kib
	perUpstream     = 2*upstreamReceive + 128*kib
)

// shares is how git.memory is divided.
type shares struct {
	requests          int64
	bodies            int64 // bytes
	tables, refs      int64 // bytes: known answers, lists of refs
	dirty             int64 // bytes of pages on their way to disk
	upstream          int64 // transfers of one host at once
	mirrors, mirror   int64 // children at once, bytes of each
	rounds, roundSlot int64
	quicks, quickSlot int64
	total, slot       int64
}

// fill replaces what is zero and can be known without the memory's division.
func (o *Options) fill(limit int64) {
	set(&o.Memory, limit*2/5)
	set(&o.Grace, 10*time.Minute)
	set(&o.QueueNoticeAfter, 5*time.Second)
	set(&o.Wait, 10*time.Minute)
	set(&o.SilentWait, 50*time.Second)
	set(&o.Stall, 60*time.Second)
	set(&o.Push, DenyPush)
	set(&o.ShedAs, ShedHTTP)
	set(&o.TooLarge, ForwardTooLarge)
	switch {
	case limit < smallMemory:
		set(&o.MaxBody, 2*mib)
	case limit < largeMemory:
		set(&o.MaxBody, 4*mib)
	}
	set(&o.MaxBody, 16*mib)
}

// divide makes lines out of git.memory. Live Go memory takes 1/0.55 of its size, and a twentieth of everything is the margin;
// so what remains after Go and the kernel's pages is for children, most of it for generations.
func (o *Options) divide() (s shares, err error) {
	m := o.Memory
	s.requests = clamp(m/(3*mib), 64, 256)
	s.bodies = max(clamp(m/32, 4*mib, 64*mib), bodyCost(o.MaxBody))
	s.tables = clamp(m/64, 2*mib, 32*mib)
	s.refs = clamp(m/24, 8*mib, 256*mib)
	s.dirty = clamp(m/12, 16*mib, 64*mib)
	live := s.requests*perRequest + s.bodies + s.tables + s.refs
	live += s.requests * o.Connection.Live
	s.upstream = clamp(m/(128*mib), 2, 8)
	children := m - m/20 - s.dirty - live*20/11 - s.requests*o.Connection.Kernel - o.upstreams(s)*perUpstream
	if need := leastMirror + leastRoundSlot + leastQuickSlot + leastSlot; children < int64(need) {
		least := m + (int64(need)-children)*20/19
		return s, fmt.Errorf("git.memory (%s) leaves %s for git's processes, which need %s at least: raise git.memory to %s, or lower git.max_body (%s)",
			bytesize.Format(m), bytesize.Format(max(children, 0)), bytesize.Format(int64(need)), bytesize.Format(least), bytesize.Format(o.MaxBody))
	}
	s.mirrors = clamp(children/(512*mib), 1, 2)
	s.mirror = max(children*40/100/s.mirrors, leastMirror)
	s.rounds, s.roundSlot = slots(children*8/100, leastRoundSlot, mostRoundSlot)
	s.quicks, s.quickSlot = slots(children*12/100, leastQuickSlot, mostQuickSlot)
	packs := children - s.mirrors*s.mirror - s.rounds*s.roundSlot - s.quicks*s.quickSlot
	s.total = int64(o.Total)
	if s.total == 0 {
		s.total = max(clamp(packs/comfortSlot, 1, defaultTotal), min(int64(o.PerRepository), packs/leastSlot))
	}
	set(&o.PerRepository, int(min(defaultPerRepository, s.total)))
	s.slot = packs / s.total
	if s.slot < leastSlot {
		return s, fmt.Errorf("git.total (%d) generations have %s each of git.memory (%s), and need %s at least: lower git.total to %d or raise git.memory",
			s.total, bytesize.Format(s.slot), bytesize.Format(m), bytesize.Format(leastSlot), packs/leastSlot)
	}
	if int64(o.PerRepository) > s.total {
		return s, fmt.Errorf("git.per_repository (%d) is above the %d generations that git.memory (%s) has room for: lower git.per_repository or raise git.memory",
			o.PerRepository, s.total, bytesize.Format(m))
	}
	return s, nil
}

// slots divides share into children of at least least bytes, and of more, up to most, when there are many of them.
func slots(share, least, most int64) (n, each int64) {
	n = clamp(share/least, 1, manyChildren)
	return n, clamp(share/n, least, most)
}

// upstreams is how many connections to upstreams there may be: each host has as many for fetches as for questions, and as for
// what is forwarded.
func (o *Options) upstreams(s shares) int64 { return int64(len(o.Hosts)) * 3 * s.upstream }

// A list of refs takes four times what its advertisement is long while it is read. Half of the share is for one of the
// longest, half for those of mirrors that are kept in memory.
func (s shares) longestRefs() int64 { return s.refs / 8 }
func (s shares) keptRefs() int64    { return s.refs / 2 }

func bodyCost(n int64) int64 { return bodyFactor * n }

type gates struct{ requests, bodies, packs, quick, rounds, mirrors *gate.Gate }

// queue is the length of the queues behind the door: it lets no more requests in than these.
const queue = 4096

func (o *Options) makeGates(k *levee.Kernel, s shares) (g gates, err error) {
	mk := func(dst **gate.Gate, shedOnPressure bool, opt gate.Options) {
		if err == nil {
			opt.Queue = queue
			*dst, err = k.NewGate(opt, shedOnPressure)
		}
	}
	half := func(n int64) int64 { return max(1, n/2) }
	mk(&g.requests, false, gate.Options{Name: "git_requests", Limit: s.requests, PerKey: s.requests * 7 / 8, PerKeyContended: half(s.requests), Wait: o.SilentWait})
	mk(&g.bodies, false, gate.Options{Name: "git_bodies", Limit: s.bodies, PerKeyContended: half(s.bodies), Wait: o.SilentWait})
	mk(&g.packs, true, gate.Options{Name: "git_packs", Limit: s.total * s.slot, PerKey: int64(o.PerRepository) * s.slot, MaxCost: s.total * s.slot, Wait: o.Wait})
	mk(&g.quick, false, gate.Options{Name: "git_quick", Limit: s.quicks * s.quickSlot, PerKeyContended: half(s.quicks) * s.quickSlot, Wait: o.SilentWait})
	mk(&g.rounds, false, gate.Options{Name: "git_rounds", Limit: s.rounds * s.roundSlot, PerKeyContended: half(s.rounds) * s.roundSlot, Wait: o.SilentWait})
	mk(&g.mirrors, true, gate.Options{Name: "git_mirrors", Limit: s.mirrors * s.mirror, Wait: o.Wait})
	return g, err
}

func (o *Options) addLines(k *levee.Kernel, g gates, s shares) {
	line := func(account string, kind levee.Kind, n int64, unit string, per int64, setting, note string, gt *gate.Gate, perInUse int64) {
		l := levee.Line{Account: account, Kind: kind, Units: n, Unit: unit, PerUnit: per, Setting: setting, Note: note}
		if gt != nil {
			l.InUse = func() int64 { return gt.Stats().InUse * perInUse }
		}
		k.AddLine(l)
	}
	line("git_requests", levee.KindGo, s.requests, "request", perRequest, "git.memory", "Requests in flight: short bodies and what is parsed of them, buffers of packs and forwards.", g.requests, perRequest)
	line("git_bodies", levee.KindGo, s.bodies, "byte", 1, "git.max_body", "Longer request bodies, and what is parsed of them.", g.bodies, 1)
	line("git_answers", levee.KindGo, s.tables, "byte", 1, "git.memory", "Which request was answered by which pack.", nil, 0)
	line("git_refs", levee.KindGo, s.refs, "byte", 1, "git.memory", "Upstream's lists of refs.", nil, 0)
	line("git_packs", levee.KindChildren, s.total, "generation", s.slot, "git.total", "pack-objects of clones; one that needs more takes several shares.", g.packs, 1)
	line("git_quick", levee.KindChildren, s.quicks, "process", s.quickSlot, "git.memory", "pack-objects of what is predicted to be small: lazy and incremental fetches.", g.quick, 1)
	line("git_rounds", levee.KindChildren, s.rounds, "process", s.roundSlot, "git.memory", "upload-pack of negotiation rounds, and of planning.", g.rounds, 1)
	line("git_mirrors", levee.KindChildren, s.mirrors, "process", s.mirror, "git.memory", "index-pack, repack and commit-graph of mirrors.", g.mirrors, 1)
	line("git_dirty_pages", levee.KindKernel, s.dirty, "byte", 1, "git.memory", "Packs on their way to the disk.", nil, 0)
	line("git_upstreams", levee.KindKernel, o.upstreams(s), "connection", perUpstream, "git.hosts", "Kernel buffers of connections to upstream hosts.", nil, 0)
	k.AddDescriptors(o.upstreams(s)+s.requests*3+64*(s.total+s.quicks+s.rounds+s.mirrors), "git")
}

func set[T comparable](p *T, v T) {
	if *p == *new(T) {
		*p = v
	}
}

func clamp(n, lo, hi int64) int64 { return max(lo, min(n, hi)) }
