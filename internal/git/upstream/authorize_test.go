package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var repoH = Repo{Host: "h", Path: "r"}

func TestMayReadIsBelievedForAWhileAndMayNotNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 200
		s := &stub{get: func(r *http.Request) *http.Response {
			if status != 200 || r.Header.Get("Authorization") != "Bearer good" {
				return reply(r, 401, "", "WWW-Authenticate", `Basic realm="x"`)
			}
			return reply(r, 200, v2Advert, "Content-Type", advertType)
		}}
		c := newClient(t, Options{Transport: s, AuthTTL: 15 * time.Second}, "http://h")
		good, bad := CredentialsOf(http.Header{"Authorization": {"Bearer good"}}), CredentialsOf(http.Header{"Authorization": {"Bearer bad"}})
		asked := func(cred Credentials, repo Repo) (int, error) {
			before := s.count()
			err := c.Authorize(t.Context(), repo, cred)
			return s.count() - before, err
		}
		for _, step := range []struct {
			cred Credentials
			repo Repo
			asks int
			ok   bool
		}{{good, repoH, 1, true}, {good, repoH, 0, true}, {bad, repoH, 1, false}, {bad, repoH, 1, false}, {Credentials{}, repoH, 1, false},
			{good, Repo{Host: "h", Path: "R"}, 1, true}, {good, repoH, 0, true}} {
			n, err := asked(step.cred, step.repo)
			if n != step.asks || (err == nil) != step.ok {
				t.Errorf("%+v: %d requests, %v", step, n, err)
			}
			if err != nil {
				if f := wantKind(t, err, Unauthorized); len(f.Challenge) != 1 || f.Status != 401 {
					t.Errorf("the challenge is not passed on: %+v", f)
				}
			}
		}
		status = 401 // the right is taken away
		time.Sleep(14 * time.Second)
		if n, err := asked(good, repoH); n != 0 || err != nil {
			t.Errorf("%d requests, %v within the time it is believed for", n, err)
		}
		time.Sleep(2 * time.Second)
		if n, err := asked(good, repoH); n != 1 || err == nil {
			t.Errorf("%d requests, %v after it", n, err)
		}
		if c.allowed(c.hosts["h"], repoH, good) {
			t.Error("the right is remembered after upstream took it away")
		}
	})
}

func TestCallersWithTheSameCredentialsShareAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{get: func(r *http.Request) *http.Response {
			time.Sleep(time.Second)
			return reply(r, 404, "")
		}}
		c := newClient(t, Options{Transport: s}, "http://h")
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if !isKind(c.Authorize(t.Context(), repoH, Credentials{}), NotFound) {
					t.Error("no failure")
				}
			})
		}
		wg.Go(func() { _ = c.Authorize(t.Context(), repoH, CredentialsOf(http.Header{"Authorization": {"x"}})) })
		wg.Wait()
		if s.count() != 2 {
			t.Errorf("%d requests for 2 credentials", s.count())
		}
	})
}

func TestWhenTheAskingCallerLeavesAnotherAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(10 * time.Second):
				return reply(r, 200, v2Advert, "Content-Type", advertType), nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		c := newClient(t, Options{Transport: transport}, "http://h")
		leaves, leave := context.WithCancelCause(t.Context())
		left := errors.New("left")
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := c.Authorize(leaves, repoH, Credentials{}); !errors.Is(err, left) {
				t.Errorf("who left hears %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				if err := c.Authorize(t.Context(), repoH, Credentials{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		leave(left)
		wg.Wait()
		if n := c.Stats().Requests; n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		if failures := c.Stats().Failures; failures[Unavailable] != 0 {
			t.Errorf("a caller that left counts as a failure of upstream: %v", failures)
		}
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	r := newRecent[string, int](100)
	for i := range 1000 {
		r.put(fmt.Sprint(i), i, time.Now())
	}
	if n := len(r.mu.at); n != 100 || r.mu.order.Len() != 100 {
		t.Errorf("%d are remembered", n)
	}
	if _, ok := r.get("900", time.Hour); !ok {
		t.Error("a late one is forgotten")
	}
	if _, ok := r.get("899", time.Hour); ok {
		t.Error("an early one is remembered")
	}
}

func TestAnEarlierAnswerReplacesNoLaterOne(t *testing.T) {
	r, now := newRecent[string, int](1), time.Now()
	r.put("k", 2, now)
	r.put("k", 1, now.Add(-time.Minute))
	if v, ok := r.get("k", time.Second); !ok || v != 2 {
		t.Errorf("it is %d, %v", v, ok)
	}
}

func TestATokenIsForReadersWithoutCredentials(t *testing.T) {
	var got []string
	s := &stub{get: func(r *http.Request) *http.Response {
		got = append(got, r.Header.Get("Authorization"))
		return reply(r, 200, v2Advert, "Content-Type", advertType)
	}}
	c := newClient(t, Options{Transport: s, Hosts: []Host{{URL: "http://h", Token: "Bearer ours"}}})
	for _, cred := range []Credentials{{}, CredentialsOf(http.Header{"Authorization": {"Bearer theirs"}})} {
		if err := c.Authorize(t.Context(), repoH, cred); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 2 || got[0] != "Bearer ours" || got[1] != "Bearer theirs" {
		t.Errorf("sent %q", got)
	}
}
