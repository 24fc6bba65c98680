package graphql

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/residency"
)

func TestARouteIsAskedForOnceAndBelievedForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		r := routes{ttl: 5 * time.Second, negative: 2 * time.Second}
		r.ask = func(ctx context.Context, name string) (*resolved, error) {
			asked.Add(1)
			time.Sleep(100 * time.Millisecond)
			if name == "nobody" {
				return nil, nil
			}
			return &resolved{name: name}, nil
		}
		for range 10 {
			go func() {
				if to, err := r.find(t.Context(), "x"); err != nil || to.name != "x" {
					t.Error(to, err)
				}
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times by ten at once", n)
		}
		for _, c := range []struct {
			name  string
			after time.Duration
			want  int64
		}{{"x", 4 * time.Second, 1}, {"x", 2 * time.Second, 2}, {"nobody", 0, 3}, {"nobody", time.Second, 3}, {"nobody", 2 * time.Second, 4}} {
			time.Sleep(c.after)
			if _, err := r.find(t.Context(), c.name); err != nil || asked.Load() != c.want {
				t.Errorf("%s after %v: asked %d times, want %d (%v)", c.name, c.after, asked.Load(), c.want, err)
			}
		}
		r.forget("x")
		_, _ = r.find(t.Context(), "x")
		if asked.Load() != 5 {
			t.Error("forgotten, and not asked for")
		}
	})
}

func TestTheFirstAskerMayLeaveAndTheOthersGetTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := routes{ttl: time.Second}
		r.ask = func(ctx context.Context, _ string) (*resolved, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return &resolved{name: "x"}, nil
			}
		}
		first, leave := context.WithCancel(t.Context())
		go func() { _, _ = r.find(first, "x") }()
		synctest.Wait()
		leave()
		if to, err := r.find(t.Context(), "x"); err != nil || to == nil {
			t.Error(to, err)
		}
	})
}

func TestAFailureIsNotBelieved(t *testing.T) {
	n := 0
	r := routes{ttl: time.Minute, negative: time.Minute, ask: func(context.Context, string) (*resolved, error) {
		n++
		return nil, errors.New("no database")
	}}
	for range 2 {
		if _, err := r.find(t.Context(), "x"); err == nil {
			t.Error("no error")
		}
	}
	if n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestNamesFromClientsAreForgottenBeforeTheyAreManyTooMany(t *testing.T) {
	r := routes{ttl: time.Hour, negative: time.Hour, ask: func(context.Context, string) (*resolved, error) { return nil, nil }}
	for i := range 2 * maxRoutes {
		_, _ = r.find(t.Context(), string(rune('a'+i%26))+time.Duration(i).String())
	}
	if n := len(r.mu.known); n > maxRoutes {
		t.Errorf("%d names", n)
	}
}

func TestEveryShedHasItsCodeAndARetryAfter(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
	}{
		{&gate.Shed{Reason: gate.QueueFull, RetryAfter: 2 * time.Second}, CodeOverloaded},
		{&gate.Shed{Reason: gate.Timeout}, CodeOverloaded},
		{&gate.Shed{Reason: gate.Closed}, CodeRotating},
		{&residency.Shed{Reason: residency.Overloaded, RetryAfter: time.Second}, CodeOverloaded},
		{&residency.Shed{Reason: residency.Pressure}, CodeOverloaded},
		{&residency.Shed{Reason: residency.TooLarge}, CodeOverloaded},
		{&residency.Shed{Reason: residency.BuildTimeout}, CodeBuild},
		{&residency.Shed{Reason: residency.Rotating}, CodeRotating},
		{&residency.Shed{Reason: residency.Closed}, CodeRotating},
		{&pgpool.Unavailable{Err: errors.New("refused")}, CodeUnavailable},
	} {
		code, after, ok := overload(c.err)
		if !ok || code != c.code || after < 1 {
			t.Errorf("%v: %q, %d, %v", c.err, code, after, ok)
		}
	}
	if _, _, ok := overload(context.Canceled); ok {
		t.Error("a client that left is no shed")
	}
}

func TestATenantIsNamedByThePathOrATrustedHeaderOrTheHost(t *testing.T) {
	plain, trusting := &Service{}, &Service{opt: Options{TenantHeader: "X-Tenant"}}
	for _, c := range []struct {
		s            *Service
		target, host string
		headers      []string
		want         address
	}{
		{plain, "/graphql/acme", "x.test", nil, address{"acme", byPath}},
		{plain, "/graphql", "X.test:8080", nil, address{"x.test", byHost}},
		{plain, "/graphql/", "x.test", []string{"evil"}, address{"x.test", byHost}},
		{trusting, "/graphql", "x.test", []string{"acme"}, address{"acme", byHeader}},
		{trusting, "/graphql/other", "x.test", []string{"acme"}, address{"other", byPath}},
		{trusting, "/graphql", "x.test", []string{""}, address{"", byHeader}},
		{trusting, "/graphql", "x.test", nil, address{"x.test", byHost}},
	} {
		r := httptest.NewRequest(http.MethodPost, c.target, nil)
		r.Host = c.host
		r.Header.Set("X-Forwarded-Host", "evil.test") // nobody trusts it
		r.Header["X-Tenant"] = c.headers
		if at, err := c.s.addressOf(r); err != nil || at != c.want {
			t.Errorf("%s at %s with %q: %v, %v", c.target, c.host, c.headers, at, err)
		}
	}
	twice := httptest.NewRequest(http.MethodPost, "/graphql", nil)
	twice.Header["X-Tenant"] = []string{"a", "b"}
	if at, err := trusting.addressOf(twice); err == nil {
		t.Errorf("two tenants at once are %v", at)
	}
}

func TestATrustedHeaderLeadsToTenantsByNameAndHostAndNeverToAnother(t *testing.T) {
	acme, root := &resolved{name: "acme"}, &resolved{}
	s := &Service{byName: map[string]*resolved{"acme": acme, "": root}, byHost: map[string]*resolved{"acme.test": acme}}
	for name, want := range map[string]*resolved{"acme": acme, "ACME.test": acme, "": nil, "other": nil} {
		if got := s.listed(address{name, byHeader}); got != want {
			t.Errorf("%q leads to %v", name, got)
		}
	}
}

func TestContradictingOptionsAreNamed(t *testing.T) {
	tenant := Tenant{Name: "a", DatabaseURL: "postgres://x", Schemas: []string{"s"}}
	for want, o := range map[string]Options{
		"name a tenant":              {},
		"named twice":                {Tenants: []Tenant{tenant, tenant}},
		"has no database":            {Tenants: []Tenant{{Name: "b", Schemas: []string{"s"}}}},
		"exposes no schema":          {Tenants: []Tenant{{Name: "b", DatabaseURL: "postgres://x"}}},
		"letters, digits":            {Tenants: []Tenant{{Name: "a/b", DatabaseURL: "postgres://x", Schemas: []string{"s"}}}},
		"graphql.connections (2)":    {Tenants: []Tenant{tenant}, Connections: 2, ConnectionsPerDatabase: 3},
		"is no name of a header":     {Tenants: []Tenant{tenant}, TenantHeader: "X Tenant"},
		"which is no SQLSTATE":       {Tenants: []Tenant{tenant}, PassErrors: []string{"P1"}},
		"both database_url and sql":  {Resolver: &Resolver{SQL: "select 1"}},
		"a host leads to one tenant": {Tenants: []Tenant{{Name: "a", DatabaseURL: "postgres://x", Schemas: []string{"s"}, Hosts: []string{"h", "H"}}}},
	} {
		if err := o.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func FuzzBody(f *testing.F) {
	f.Add("application/json", []byte(`{"query":"{a}","variables":{"x":1e3},"operationName":null}`))
	f.Add("application/graphql", []byte(`{a}`))
	f.Add("text/plain; charset=x", []byte(`[]`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		e, err := open(contentType, body)
		if err == nil {
			_, err = e.request()
		}
		var p *problem
		if err != nil && !errors.As(err, &p) {
			t.Errorf("%v is no answer for a client", err)
		}
	})
}
