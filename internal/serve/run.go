package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/bytesize"
	"github.com/leveehq/levee/internal/listen"
)

// Run serves until ctx is done, and then ends in order. It returns nil after an orderly end.
//
// If a part fails while serving, the others are ended in the same order, and the error is the part's.
func (a *App) Run(ctx context.Context) error {
	if err := a.kernel.Start(); err != nil {
		if errors.As(err, new(*levee.PlanError)) {
			return a.Plan().Check() // the same, and it knows the limit that would do
		}
		return err
	}
	a.tellEnvironment()
	l, err := a.listen() // before the store: a start that finds a port in use leaves no directory behind
	if err != nil {
		return err
	}
	if err := a.store.open(a.storeOptions); err != nil {
		l.close()
		return fmt.Errorf("%s: %w", a.cfg.Describe("store.path"), err)
	}
	if err := a.openGit(); err != nil {
		l.close()
		return errors.Join(err, a.store.disk.Close())
	}
	a.announce(l)
	err = errors.Join(a.serve(ctx, l), a.store.disk.Close())
	if err != nil {
		a.log.Error("stopped", "error", err.Error())
	} else {
		a.log.Info("stopped")
	}
	return err
}

// serve runs workers and listeners. They are two groups, because the workers must outlive the calls that need them:
// the end of ctx, or the first failure in either, stops intake, and only when that has drained are the workers told to
// go. The admin listener is of the workers, so that probes and people can watch the end.
func (a *App) serve(ctx context.Context, l listeners) error {
	parent, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorkers()
	workers, working := errgroup.WithContext(parent)
	workers.Go(func() error { return a.kernel.Run(working) })
	workers.Go(func() error { return a.store.disk.Run(working) })
	workers.Go(func() error { return a.probe.Run(working) })
	workers.Go(func() error { return serveHTTP(a.admin, l.admin) })
	if a.git != nil {
		workers.Go(func() error { return a.git.Run(working) })
	}
	if a.graphql != nil {
		workers.Go(func() error { return a.graphql.Run(working) })
	}

	intake, taking := errgroup.WithContext(ctx)
	intake.Go(func() error { return a.grpc.Serve(l.grpc) })
	intake.Go(func() error { return serveHTTP(a.http, l.http) })

	a.ready.set("")
	a.log.Info("ready", "grpc", l.grpc.Addr().String(), "http", l.http.Addr().String(), "admin", l.admin.Addr().String())
	select {
	case <-taking.Done():
	case <-working.Done():
	}
	err := errors.Join(a.drain(), intake.Wait())
	stopWorkers()
	return errors.Join(err, a.admin.Close(), workers.Wait())
}

// drain refuses new work and waits, for shutdown_grace at most, until the calls under way have ended; what is left then
// is cut, and its client sees a broken connection.
func (a *App) drain() error {
	a.ready.set("shutting down")
	a.grpcHealth.Shutdown()
	a.log.Info("shutting down", "grace", a.cfg.ShutdownGrace.String())
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.ShutdownGrace)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return a.grpc.Shutdown(ctx) })
	g.Go(func() error {
		if err := a.http.Shutdown(ctx); err != nil {
			return a.http.Close()
		}
		return nil
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("shutting down: %w", err)
	}
	if ctx.Err() != nil {
		a.log.Warn("calls were cut because they outlasted the grace time; a longer one is shutdown_grace", "grace", a.cfg.ShutdownGrace.String())
	}
	return nil
}

func serveHTTP(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// listeners are open and bound; nothing is accepted before they are served.
type listeners struct{ grpc, http, admin net.Listener }

// address is one row of what is listened on.
type address struct {
	path, addr string
	to         *net.Listener
}

func (a *App) addresses(l *listeners) []address {
	if l == nil {
		l = &listeners{}
	}
	return []address{
		{"listen.admin", a.cfg.Listen.Admin, &l.admin},
		{"listen.grpc", a.cfg.Listen.GRPC, &l.grpc},
		{"listen.http", a.cfg.Listen.HTTP, &l.http},
	}
}

// listen binds all addresses or none.
func (a *App) listen() (l listeners, err error) {
	for _, p := range a.addresses(&l) {
		if *p.to, err = net.Listen("tcp", p.addr); err != nil {
			l.close()
			return listeners{}, a.listenError(p.path, err)
		}
	}
	l.admin = listen.Wrap(l.admin, listen.Options{
		Connections: a.adminGate, Shed: a.shedConnection("admin"),
		Receive: adminSocketReceive, Send: adminSocketSend, SmallRead: adminSmallRead,
	})
	o := a.cache.ListenOptions()
	o.Shed = a.shedConnection("http")
	l.http = listen.Wrap(l.http, o)
	return l, nil
}

func (l listeners) close() {
	for _, open := range []net.Listener{l.grpc, l.http, l.admin} {
		if open != nil {
			open.Close()
		}
	}
}

func (a *App) listenError(path string, err error) error {
	setting := a.cfg.Describe(path)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use by another program; stop that one, or choose another address or port 0", setting)
	}
	return fmt.Errorf("%s: %w", setting, err)
}

// announce prints what a person wants to see and to paste.
func (a *App) announce(l listeners) {
	fmt.Fprintf(a.out, "%s\nServing a Bazel remote cache from %s. Paste one of:\n\n", a.Plan(), a.cfg.Store.Path)
	fmt.Fprintf(a.out, "  bazel build --remote_cache=grpc://%s //...\n", pasted(l.grpc.Addr()))
	fmt.Fprintf(a.out, "  bazel build --remote_cache=http://%s //...\n\n", pasted(l.http.Addr()))
	a.announceGit(a.out, pasted(l.http.Addr()))
	a.announceGraphQL(a.out, pasted(l.http.Addr()))
	fmt.Fprintf(a.out, "Health, metrics and status: http://%s\n", pasted(l.admin.Addr()))
	if a.hint != nil {
		fmt.Fprintf(a.out, "\n%s", a.hint(pasted(l.http.Addr()), pasted(l.admin.Addr())))
	}
	for _, warning := range a.publicity() {
		a.kernel.Warn(warning)
	}
}

// pasted is an address that a client can connect to. The wildcard is none; the loopback address is one on this machine,
// whatever its name resolves to.
func pasted(addr net.Addr) string {
	if t, ok := addr.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.Port))
	}
	return addr.String()
}

// tellEnvironment tells an operator who has tuned the collector by hand what came of it. GOMEMLIMIT is the plan's to set:
// another one would make its arithmetic wrong. GOGC only trades processor time for garbage, which the limit bounds
// anyway, so the operator's stays.
func (a *App) tellEnvironment() {
	for _, pair := range a.env {
		switch name, value, _ := strings.Cut(pair, "="); name {
		case "GOMEMLIMIT":
			a.log.Warn("GOMEMLIMIT from the environment is not used, because the memory plan sets it; the setting to change is memory_limit",
				"environment", value, "used", bytesize.Format(a.Plan().GoMemLimit))
		case "GOGC":
			a.log.Info("GOGC from the environment is used in place of the default", "environment", value)
		}
	}
}
