// Package mirror keeps copies of upstream repositories on disk.
//
// It refuses to serve clients, to decide who may read, and to keep a credential. A mirror is empty, cloning, ready or broken;
// each state survives kill -9, and the next start or use repairs what it finds.
//
//	empty ──▶ cloning ──▶ ready ◀──▶ (fetch, maintenance; under the mirror's own lock)
//	             │  ▲        │
//	             ▼  │        ▼
//	           empty└──── broken      a broken one is set aside and cloned anew
package mirror

import (
	"context"
	"log/slog"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

// Options of a Store.
type Options struct {
	Dir          string
	MaxBytes     int64         // of all mirrors; the least recently used whole mirrors give way. 0 is no bound
	MaxStaleness time.Duration // 0 asks upstream every time, single-flight
	Grace        time.Duration // how long a mirror is served while upstream cannot be asked; 0 is 10 min
	Upstream     *upstream.Client
	Runner       *child.Runner
	// Gate is for index-pack, repack and commit-graph: in bytes, keyed by repository. Budget is what one such child may take.
	Gate   *gate.Gate
	Budget child.Budget
	Logger *slog.Logger
}

// State of a mirror.
type State string

const (
	Empty   State = "empty"
	Cloning State = "cloning"
	Ready   State = "ready"
	Broken  State = "broken"
)

// Store is safe for concurrent use.
type Store struct{}

// Open reads what is in o.Dir, and repairs it; it does not ask upstream.
func Open(o Options) (*Store, error) { panic("contract") }

// Run does maintenance and eviction until ctx ends.
func (s *Store) Run(ctx context.Context) error { panic("contract") }

// View is what a mirror's refs are for a caller.
type View struct {
	Refs       *upstream.Refs
	Generation uint64        // changes whenever refs or served objects change
	Age        time.Duration // since upstream was asked
	Stale      error         // why upstream could not be asked, if it is served within grace; nil is fresh
}

// Refs are upstream's, asked within MaxStaleness (single-flight). They are known before the mirror has their objects.
// The first call for a repository starts its clone, whoever gives up waiting.
func (s *Store) Refs(ctx context.Context, repo upstream.Repo, cred upstream.Credentials) (*View, error) {
	panic("contract")
}

// Lease waits until the mirror is ready and holds all objects that v advertises, and keeps it from eviction and from pruning
// what it has until Release. progress, which may be nil, gets lines of what is waited for.
func (s *Store) Lease(ctx context.Context, repo upstream.Repo, cred upstream.Credentials, v *View, progress func(string)) (*Lease, error) {
	panic("contract")
}

// Lease is a mirror in use.
type Lease struct {
	Repo       upstream.Repo
	Dir        string
	Generation uint64
	Objects    int64 // about how many the mirror has
	Bytes      int64 // of its packs
}

// Release may be called twice.
func (l *Lease) Release() { panic("contract") }

// Ensure has objects fetched that the mirror lacks, or that are not reachable in it any more and may therefore only be served
// if upstream still does (single-flight by object). What neither has is returned.
func (l *Lease) Ensure(ctx context.Context, cred upstream.Credentials, oids []pkt.OID) (missing []pkt.OID, err error) {
	panic("contract")
}

// Info of one mirror, for Status and the command line.
type Info struct {
	Repo       string    `json:"repo"`
	State      State     `json:"state"`
	Bytes      int64     `json:"bytes"`
	Packs      int       `json:"packs"`
	Generation uint64    `json:"generation"`
	LastUse    time.Time `json:"last_use"`
	LastAsked  time.Time `json:"last_asked"`
	Leases     int       `json:"leases"`
	Error      string    `json:"error,omitempty"`
}

// List is sorted by name.
func (s *Store) List() []Info { panic("contract") }

// Evict removes a mirror when its leases are released; false if there is none.
func (s *Store) Evict(repo upstream.Repo) bool { panic("contract") }
