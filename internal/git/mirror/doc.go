// Package mirror keeps copies of upstream repositories on disk.
//
// It refuses to serve clients, to decide who may read, and to keep a credential. A mirror is empty, cloning, ready or broken;
// each state survives kill -9, and the next start or use repairs what it finds.
//
//	empty ──▶ cloning ──▶ ready ◀──▶ (fetch, maintenance)
//	             │  ▲        │
//	             ▼  │        ▼
//	           empty└──── broken      a broken one is set aside and cloned anew
//
// On disk:
//
//	lock                 taken by the process that has the directory
//	mirrors/<id>.<n>/    a bare repository; <id> is a hash of the repository's name, which levee.json has in clear
//	work/<n>/            what is being made: clones, packs on their way in, and what is on its way out. Emptied at start
//
// Nothing is written where readers look until it is whole. A pack is received, indexed and checked for connectivity in work/,
// and then renamed into its place. Refs are one file, packed-refs, which is replaced; there are no loose refs, so there are no
// locks on them that a dead process could leave, and no order in which refs would have to change. Packs that a repack has made
// superfluous stay until every lease is released that began before it.
//
// What a mirror's own packs hold is reachable from its refs and may be served to whoever may read the repository, but for the
// suspects: objects that a deleted or force-moved ref reached, until a full repack drops them. Those, and objects that were
// fetched by name because no ref reaches them (they are kept apart, in wants/, an alternate), are served only if upstream
// says so to the same caller.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/upstream"
)

// Options of a Store.
type Options struct {
	// Dir is the store's alone; it is made if it is not there.
	Dir string

	// MaxBytes is for all mirrors; the least recently used whole mirrors give way. 0 is no bound. Too low: mirrors are cloned
	// again and again. Too high: the disk fills, and clones fail for want of room instead.
	MaxBytes int64

	// MaxStaleness is how old upstream's word on its refs may be; 0 asks every time, with one question for all who wait.
	MaxStaleness time.Duration

	// Grace is how long a mirror is served while upstream cannot be asked; 0 is 10 min.
	Grace time.Duration

	// RefBytes is for lists of refs in memory of mirrors that nobody uses now; 0 is 32 MiB. Too low: they are read from disk
	// for every other request. A list takes about 200 bytes a ref.
	RefBytes int64

	Upstream *upstream.Client
	Runner   *child.Runner

	// Gate is for git's processes of all kinds here: in bytes, keyed by repository. Budget is what one may take.
	Gate   *gate.Gate
	Budget child.Budget

	Logger *slog.Logger // nil is slog's default
}

func (o *Options) validate() error {
	switch {
	case o.Dir == "" || o.Upstream == nil || o.Runner == nil || o.Gate == nil:
		return errors.New("mirror: Options.Dir, Upstream, Runner and Gate are required")
	case o.Budget.Bytes < 1:
		return fmt.Errorf("mirror: Options.Budget is %d bytes; a child needs one", o.Budget.Bytes)
	case o.MaxBytes < 0 || o.MaxStaleness < 0 || o.Grace < 0 || o.RefBytes < 0:
		return fmt.Errorf("mirror: MaxBytes %d, MaxStaleness %v, Grace %v and RefBytes %d must not be negative",
			o.MaxBytes, o.MaxStaleness, o.Grace, o.RefBytes)
	}
	return nil
}

const (
	defaultGrace    = 10 * time.Minute
	defaultRefBytes = 32 << 20
)

// asker is the part of upstream.Client that is used here.
type asker interface {
	LsRefs(ctx context.Context, repo upstream.Repo, cred upstream.Credentials) (*upstream.Refs, error)
	Fetch(ctx context.Context, repo upstream.Repo, cred upstream.Credentials, f upstream.Fetch) error
}

// runner is the part of child.Runner that is used here.
type runner interface {
	Run(ctx context.Context, c child.Cmd) (child.Usage, error)
}

// ErrClosed is of calls after Run has ended.
var ErrClosed = errors.New("mirror store is closed")

// ErrNoRoom is wrapped by errors of what does not fit Options.MaxBytes, with everything evicted that may be, and ErrTooLarge
// by those of what git cannot index within Options.Budget. Upstream can serve what cannot be mirrored.
var (
	ErrNoRoom   = errors.New("no room for the mirror")
	ErrTooLarge = errors.New("the repository is too large to be mirrored with the memory that git.memory leaves for it")
)

// State of a mirror.
type State string

const (
	Empty   State = "empty"
	Cloning State = "cloning"
	Ready   State = "ready"
	Broken  State = "broken"
)

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
