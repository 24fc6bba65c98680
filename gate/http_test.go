package gate

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// served is a handler behind a gate of one permit, on a real server that speaks HTTP/2 to clients that want it.
type served struct {
	g       *Gate
	url     string
	client  *http.Client
	inside  atomic.Int64  // handlers with a permit
	finish  chan struct{} // one value lets one handler end
	started chan struct{} // one value for each that got its permit
}

func serve(t *testing.T, http2 bool, queue int) *served {
	s := &served{
		g:       mustNew(t, Options{Limit: 1, Queue: queue, Wait: time.Minute}),
		finish:  make(chan struct{}),
		started: make(chan struct{}, 10_000),
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(s.handle))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // the panics are ours
	srv.EnableHTTP2 = http2
	if http2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	s.client, s.url = srv.Client(), srv.URL
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		srv.Close()
		wantEmpty(t, s.g)
		if n := s.inside.Load(); n != 0 {
			t.Errorf("%d handlers are still inside", n)
		}
	})
	return s
}

func (s *served) handle(w http.ResponseWriter, r *http.Request) {
	p, err := s.g.Admit(r.Context(), "k", 1)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer p.Release()
	if s.inside.Add(1) != 1 {
		panic("two at once behind a gate of one")
	}
	defer s.inside.Add(-1)
	s.started <- struct{}{}
	switch r.URL.Path {
	case "/panic":
		panic("the handler's own fault")
	case "/hold":
		<-s.finish
	}
}

// get starts a request; the returned func gives its status, or 0 if it failed.
func (s *served) get(ctx context.Context, path string) (result func() int) {
	status := make(chan int, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
		resp, err := s.client.Do(req)
		if err != nil {
			status <- 0
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	return func() int { return <-status }
}

func overBothProtocols(t *testing.T, f func(t *testing.T, http2 bool)) {
	t.Run("HTTP/1.1", func(t *testing.T) { f(t, false) })
	t.Run("HTTP/2", func(t *testing.T) { f(t, true) })
}

func TestAStreamThatIsResetWhileItWaitsLeavesTheQueue(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, http2 bool) {
		s := serve(t, http2, 100)
		holder := s.get(context.Background(), "/hold")
		<-s.started
		ctx, cancel := context.WithCancel(context.Background())
		var waiters []func() int
		for range 20 {
			waiters = append(waiters, s.get(ctx, "/"))
		}
		waitUntil(t, "twenty wait", func() bool { return s.g.Stats().Queued == 20 })
		cancel()
		for _, w := range waiters {
			w()
		}
		waitUntil(t, "nobody waits", func() bool { return s.g.Stats().Queued == 0 })
		if n := s.g.Stats().Canceled; n != 20 {
			t.Errorf("%d were counted as canceled, want 20", n)
		}
		s.finish <- struct{}{}
		if code := holder(); code != http.StatusOK {
			t.Errorf("the holder got status %d", code)
		}
	})
}

func TestStreamsThatAreResetAtTheMomentOfTheGrantHoldNothing(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, http2 bool) {
		s := serve(t, http2, 100)
		for range 100 {
			holder := s.get(context.Background(), "/hold")
			<-s.started
			ctx, cancel := context.WithCancel(context.Background())
			reset := s.get(ctx, "/")
			waitUntil(t, "one waits", func() bool { return s.g.Stats().Queued == 1 })
			next := s.get(context.Background(), "/")
			waitUntil(t, "two wait", func() bool { return s.g.Stats().Queued == 2 })
			var race sync.WaitGroup
			race.Go(cancel)
			race.Go(func() { s.finish <- struct{}{} })
			race.Wait()
			reset()
			if a, b := holder(), next(); a != http.StatusOK || b != http.StatusOK {
				t.Fatalf("the holder got status %d and the next %d", a, b)
			}
			waitUntil(t, "nothing is held", func() bool { return s.g.Stats().Held == 0 })
			for len(s.started) > 0 {
				<-s.started
			}
		}
	})
}

func TestAHandlerThatPanicsGivesItsPermitBack(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, http2 bool) {
		s := serve(t, http2, 100)
		var all []func() int
		for range 20 {
			all = append(all, s.get(context.Background(), "/panic"))
		}
		for _, result := range all {
			if code := result(); code != 0 {
				t.Errorf("a handler that panicked answered %d", code)
			}
		}
		waitUntil(t, "nothing is held", func() bool { return s.g.Stats().Held == 0 })
		if code := s.get(context.Background(), "/")(); code != http.StatusOK {
			t.Errorf("the next one got status %d", code)
		}
	})
}

func TestTheNamesOfReasonsFitMetrics(t *testing.T) {
	seen := map[Reason]bool{}
	for _, r := range Reasons() {
		if seen[r] || strings.Trim(string(r), "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("%q is there twice or is no label", r)
		}
		seen[r] = true
	}
}
