// Package serve is the composition root: the one place that builds the services, opens their listeners and orders
// their start and end.
//
// It refuses to decide anything about memory, protocols or storage. What it knows is who needs whom, and in which order
// things begin and stop:
//
//	Build   kernel ─ gates and lines ─ services        nothing is opened, created or started: the plan is the server's own
//	Run     plan proved ─ addresses bound ─ directory locked ─ store ─ listeners served ─ ready
//	end     not ready ─ no new work ─ calls drained, bounded by grace ─ workers ─ store ─ lock
package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"google.golang.org/grpc/health"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/bazel"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/buildinfo"
	"github.com/leveehq/levee/internal/config"
	"github.com/leveehq/levee/internal/git"
	"github.com/leveehq/levee/internal/graphql"
	"github.com/leveehq/levee/internal/hostguard"
	"github.com/leveehq/levee/internal/metrics"
	"github.com/leveehq/levee/internal/rpc"
)

// Options are what the process lends to the server.
type Options struct {
	Out io.Writer // the plan and the addresses, for the person who started it
	Log io.Writer // records
	Env []string  // as os.Environ gives it

	// Hint, if there is one, is printed below the addresses. It is given those of the HTTP listener and of the admin listener.
	Hint func(http, admin string) string
}

// App is one server, built and not yet started.
type App struct {
	cfg    *config.Config
	out    io.Writer
	env    []string
	hint   func(http, admin string) string
	log    *slog.Logger
	kernel *levee.Kernel
	ready  *readiness

	store        *lateStore
	storeOptions blobstore.Options
	probe        *probe

	access     *accesslog.Log
	git        *git.Service     // nil: off
	graphql    *graphql.Service // nil: off
	bazel      *bazel.Service
	cache      *bazel.HTTPCache
	grpc       *rpc.Server
	grpcHealth *health.Server
	http       *http.Server

	admin     *http.Server
	adminGate *gate.Gate
}

// Build puts the server together. It opens, creates and starts nothing, so that "levee plan" and "levee check" look at
// the very thing that "levee serve" would run. An error is the configuration's.
func Build(cfg *config.Config, o Options) (*App, error) {
	a := &App{cfg: cfg, out: o.Out, env: o.Env, hint: o.Hint, log: newLogger(cfg.Log, o.Log), store: &lateStore{}}
	var err error
	a.kernel, err = levee.New(levee.Options{
		MemoryLimit: int64(cfg.MemoryLimit),
		EvictMark:   cfg.Governor.Evict,
		ShedMark:    cfg.Governor.Shed,
		Version:     buildinfo.Read().Version,
		Logger:      a.log,
	})
	if err != nil {
		return nil, fmt.Errorf("memory_limit: %w", err)
	}
	guard, err := hostguard.New(hostguard.Options{Hosts: cfg.Listen.Hosts, Setting: "listen.hosts"})
	if err != nil {
		return nil, err
	}
	a.access = newAccessLog(a.cfg.Log, a.log, a.kernel)
	if err := a.buildGit(); err != nil { // before Bazel, whose defaults are made for the rest
		return nil, err
	}
	if err := a.buildGraphQL(); err != nil {
		return nil, err
	}
	if err := a.buildBazel(guard); err != nil {
		return nil, err
	}
	if err := a.buildAdmin(guard); err != nil {
		return nil, err
	}
	a.buildStore() // after the others: its index takes what the plan has left
	addDescriptors(a.kernel)
	return a, nil
}

func (a *App) buildBazel(guard *hostguard.Guard) (err error) {
	o := bazelOptions(a.cfg, a.kernel, a.store, a.access)
	o.Memory = a.memoryOfBazel()
	if a.git != nil {
		o.OtherHTTPConnections += a.git.Connections()
	}
	if a.graphql != nil {
		o.OtherHTTPConnections += a.graphql.Connections()
	}
	a.bazel, err = bazel.New(o)
	if err != nil {
		return err
	}
	transport := a.bazel.RPCOptions()
	transport.Logger = a.log
	transport.Shed = a.shedConnection("grpc")
	if a.grpc, err = rpc.New(transport); err != nil {
		return err
	}
	a.grpcHealth = a.bazel.Register(a.grpc)
	a.cache = a.bazel.HTTP()
	routes, err := a.route(guard)
	if err != nil {
		return err
	}
	a.http = a.cache.Server(routes, a.log)
	return nil
}

// shedConnection records connections that were closed at once. Their clients are told nothing, so the log is where an
// operator learns why builds cannot connect.
func (a *App) shedConnection(proto string) func(peer string, err error) {
	return func(peer string, err error) {
		a.access.Call(context.Background(), accesslog.Record{Proto: proto, Method: "connect", Key: peer, Err: err})
	}
}

func (a *App) buildAdmin(guard *hostguard.Guard) (err error) {
	a.adminGate, err = a.kernel.NewGate(gate.Options{Name: "admin_connections", Limit: adminConnections, PerKey: adminPerAddress}, false)
	if err != nil {
		return err
	}
	sources := metrics.Sources{
		Status: a.status,
		RPC:    func() metrics.RPC { return rpcMetrics(a.grpc.Stats()) },
		Store:  a.store.metrics,
		Bazel:  func() metrics.Bazel { return bazelMetrics(a.bazel.Counters(), a.cache.Counts()) },
		Build:  buildinfo.Read(),
	}
	a.probe = newProbe(a.cfg.Store.Path, a.log)
	a.ready = newReadiness(a.probe.failing)
	pages := adminPages{ready: a.ready, status: func() any { return a.status() }}
	if a.git != nil {
		sources.Git = func() metrics.Git { return gitMetrics(a.git.Status()) }
		pages.git = a.git.Admin()
	}
	if a.graphql != nil {
		sources.GraphQL = func() metrics.GraphQL { return graphqlMetrics(a.graphql.Status()) }
		pages.graphql = a.graphql.Admin()
	}
	pages.metrics = metrics.New(sources).Handler()
	a.admin = newAdminServer(newAdmin(pages, guard), a.log)
	addAdminLines(a.kernel, a.adminGate)
	return nil
}

func (a *App) buildStore() {
	a.storeOptions = storeOptions(a.cfg, a.memoryOfBazel(), a.log)
	a.store.addLines(a.kernel, a.storeOptions)
	if a.storeOptions.MaxBlobs == 0 {
		a.storeOptions.MaxBlobs = autoMaxBlobs(a.storeOptions.MaxSize, a.kernel.Plan())
	}
	a.store.addIndexLine(a.kernel, a.storeOptions.MaxBlobs)
}

// status is the kernel's, and what is the matter for as long as it is.
func (a *App) status() levee.Status {
	s := a.kernel.Status()
	if text := a.store.warning(); text != "" {
		s.Warnings = append(s.Warnings, text)
	}
	return s
}

// Warn adds a standing warning, shown in the log, in Status and in metrics.
func (a *App) Warn(text string) { a.kernel.Warn(text) }

// newLogger never fails: config has checked the words.
func newLogger(c config.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		panic(err)
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

func newAccessLog(c config.Log, l *slog.Logger, k *levee.Kernel) *accesslog.Log {
	return accesslog.New(accesslog.Options{
		Logger: l, SampleOK: c.Sample, MaxPerSecond: c.MaxPerSecond,
		Level: func() string { return k.Level().String() },
	})
}
