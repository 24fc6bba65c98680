package git

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/packs"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

// Service answers git clients. It is an http.Handler from Open on.
type Service struct {
	opt    Options // filled
	kernel *levee.Kernel
	log    *accesslog.Log
	logger *slog.Logger
	shares shares
	gates  gates
	hidden hidden
	access *access
	known  known
	count  counters

	// What follows is made by Open, before the first request.

	upstream host
	mirrors  mirrors
	packs    packServer

	client *upstream.Client
	store  *mirror.Store
	cache  *packs.Cache
}

// host is what a service needs of an *upstream.Client.
type host interface {
	Resolve(rawPath string) (upstream.Repo, upstream.Service, string, error)
	Authorize(ctx context.Context, repo upstream.Repo, cred upstream.Credentials) error
	Forward(w http.ResponseWriter, r *http.Request, repo upstream.Repo, rest string) error
}

// mirrors is what it needs of a *mirror.Store.
type mirrors interface {
	Refs(ctx context.Context, repo upstream.Repo, cred upstream.Credentials) (*mirror.View, error)
	Lease(ctx context.Context, repo upstream.Repo, cred upstream.Credentials, v *mirror.View, progress func(string)) (lease, error)
}

// lease is what it needs of a *mirror.Lease, besides passing it on.
type lease interface {
	Ensure(ctx context.Context, cred upstream.Credentials, oids []pkt.OID) (missing []pkt.OID, err error)
	Release()
}

// packServer is what it needs of a *packs.Cache.
type packServer interface {
	Serve(ctx context.Context, j packs.Job, out packs.Out) (packs.Result, error)
}

// leases makes a *mirror.Store speak of leases in the interface's word.
type leases struct{ *mirror.Store }

func (l leases) Lease(ctx context.Context, repo upstream.Repo, cred upstream.Credentials, v *mirror.View, progress func(string)) (lease, error) {
	le, err := l.Store.Lease(ctx, repo, cred, v, progress)
	if err != nil {
		return nil, err // not le: a nil pointer in an interface is not nil
	}
	return le, nil
}

// New checks o, makes the gates, and registers the plan's lines. It opens and starts nothing. An error names the settings that
// contradict each other.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.fill(o.Kernel.Limit())
	if o.Memory >= o.Kernel.Limit() {
		return nil, fmt.Errorf("git.memory (%d bytes) is not below memory_limit (%d bytes): lower the first or raise the second", o.Memory, o.Kernel.Limit())
	}
	if err := o.validate(); err != nil { // what was derived may contradict what was given
		return nil, err
	}
	s := &Service{opt: o, kernel: o.Kernel, log: o.Log, logger: o.Logger, hidden: newHidden(o.HideRefs), access: newAccess(o.Grace)}
	var err error
	if s.shares, err = s.opt.divide(); err != nil {
		return nil, err
	}
	if _, err := upstream.New(s.upstreamOptions()); err != nil { // for its errors: the client of Open has tokens
		return nil, err
	}
	if s.gates, err = s.opt.makeGates(o.Kernel, s.shares); err != nil {
		return nil, fmt.Errorf("git: %w", err)
	}
	o.addLines(o.Kernel, s.gates, s.shares)
	o.Kernel.AddStatus("git", func() any { return s.Status() })
	return s, nil
}

// Open makes ready what is on disk, and repairs it. It must be called before Run and before the first request; the kernel has
// proved the plan by then.
func (s *Service) Open() error {
	hosts := s.upstreamOptions()
	for i := range hosts.Hosts {
		if s.opt.Token == nil {
			break
		}
		var err error
		if hosts.Hosts[i].Token, err = s.opt.Token(hosts.Hosts[i].URL); err != nil {
			return fmt.Errorf("git.tokens: %w", err)
		}
	}
	client, err := upstream.New(hosts)
	if err != nil {
		return err
	}
	runner, err := child.New(child.Options{Watch: s.kernel.WatchChild})
	if err != nil {
		return err
	}
	if err := s.sizeByDisk(); err != nil {
		return err
	}
	if s.store, err = mirror.Open(s.mirrorOptions(client, runner)); err != nil {
		return fmt.Errorf("git mirrors: %w", err)
	}
	if s.cache, err = packs.Open(s.packOptions(runner)); err != nil {
		s.store.Close()
		return fmt.Errorf("git packs: %w", err)
	}
	s.client = client
	s.upstream, s.mirrors, s.packs = client, leases{s.store}, s.cache
	return nil
}

// Run does upkeep until ctx ends, and returns when all children are gone.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.store.Run(ctx) })
	g.Go(func() error { return s.cache.Run(ctx) })
	return g.Wait()
}

// Memory is what all lines of git's are made for, in bytes.
func (s *Service) Memory() int64 { return s.opt.Memory }

// Connections is how many connections of the HTTP listener are planned within Memory. Their lines are the listener's.
func (s *Service) Connections() int { return int(s.shares.requests) }

func (s *Service) upstreamOptions() upstream.Options {
	return upstream.Options{
		Hosts: append([]upstream.Host(nil), s.opt.Hosts...), Stall: s.opt.Stall, Logger: s.logger,
		MaxRefs: s.shares.longestRefs(), ReceiveBuffer: upstreamReceive, Connections: int(s.shares.upstream),
	}
}

func (s *Service) mirrorOptions(c *upstream.Client, r *child.Runner) mirror.Options {
	return mirror.Options{
		Dir: filepath.Join(s.opt.Dir, "mirrors"), MaxBytes: s.opt.MaxSize,
		MaxStaleness: s.opt.MaxStaleness, Grace: s.opt.Grace, RefBytes: s.shares.keptRefs(),
		Upstream: c, Runner: r, Gate: s.gates.mirrors, Budget: child.Budget{Bytes: s.shares.mirror, Threads: 1},
		Logger: s.logger,
	}
}

func (s *Service) packOptions(r *child.Runner) packs.Options {
	return packs.Options{
		Dir: filepath.Join(s.opt.Dir, "packs"), MaxBytes: s.opt.SpoolSize, TableBytes: s.shares.tables, Runner: r,
		Heavy: s.gates.packs, Quick: s.gates.quick, Rounds: s.gates.rounds,
		Slot: s.shares.slot, QuickSlot: s.shares.quickSlot, RoundSlot: s.shares.roundSlot,
		HideRefs: s.opt.HideRefs, NoticeAfter: s.opt.QueueNoticeAfter, NoticeEvery: noticeEvery, SilentWait: s.opt.SilentWait, Wait: s.opt.Wait,
	}
}

// What the disk bounds when no setting does.
const (
	mostMirrors = 100 << 30
	mostSpool   = 10 << 30
)

func (s *Service) sizeByDisk() error {
	if err := os.MkdirAll(s.opt.Dir, 0o700); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(s.opt.Dir, &fs); err != nil {
		return fmt.Errorf("%s: %w", s.opt.Dir, err)
	}
	free := int64(fs.Bavail) * fs.Bsize
	set(&s.opt.MaxSize, min(free/4, mostMirrors))
	set(&s.opt.SpoolSize, min(free/8, mostSpool))
	return nil
}
