package upstream

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// limiting answers 429 with Retry-After until its time is over.
func limiting(d time.Duration, status int, fields ...string) *stub {
	until := time.Now().Add(d)
	return &stub{get: func(r *http.Request) *http.Response {
		if time.Now().Before(until) {
			return reply(r, status, "", fields...)
		}
		return reply(r, 200, v2Advert, "Content-Type", advertType)
	}}
}

// G13
func TestWhileALimitLastsNobodyIsSentUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limiting(5*time.Second, 429, "Retry-After", "5")
		c := newClient(t, Options{Transport: s}, "http://h")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 200 * time.Millisecond)
				err := c.Authorize(t.Context(), Repo{Host: "h", Path: "r" + strconv.Itoa(i)}, Credentials{})
				if f := wantKind(t, err, RateLimited); f.RetryAfter <= 0 || f.RetryAfter > 5*time.Second {
					t.Errorf("the time to wait is %v", f.RetryAfter)
				}
			})
		}
		wg.Wait()
		if s.count() != 1 {
			t.Errorf("%d requests while the limit lasted", s.count())
		}
		time.Sleep(2 * time.Second)
		if err := c.Authorize(t.Context(), repoH, Credentials{}); err != nil || s.count() != 2 {
			t.Errorf("after it: %v, %d requests", err, s.count())
		}
		stats := c.Stats()
		if stats.Failures[RateLimited] != 1 || stats.Hosts[0].Spared != 19 || stats.Requests != 2 {
			t.Errorf("counted %+v", stats)
		}
	})
}

func TestEachFormOfALimitIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inAMinute := time.Now().Add(time.Minute)
		for _, tt := range []struct {
			status int
			fields []string
			want   time.Duration // 0 is no limit
		}{
			{429, []string{"Retry-After", "7"}, 7 * time.Second},
			{429, []string{"Retry-After", inAMinute.UTC().Format(http.TimeFormat)}, time.Minute},
			{429, []string{"Retry-After", "nonsense"}, unnamedLimit},
			{429, []string{"Retry-After", "0"}, time.Second},
			{429, []string{"Retry-After", "Fri, 01 Jan 1999 00:00:00 GMT"}, time.Second},
			{429, []string{"Retry-After", "-5"}, unnamedLimit},
			{429, []string{"Retry-After", "864000"}, longestLimit},
			{429, nil, unnamedLimit},
			{503, []string{"Retry-After", "3"}, 3 * time.Second},
			{503, nil, 0},
			{403, []string{"Retry-After", "60"}, time.Minute},
			{403, []string{"X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", strconv.FormatInt(inAMinute.Unix(), 10)}, time.Minute},
			{403, []string{"X-Ratelimit-Remaining", "0"}, unnamedLimit},
			{403, []string{"X-Ratelimit-Remaining", "4999"}, 0},
			{403, nil, 0},
			{200, []string{"Retry-After", "9"}, 0},
		} {
			s := limiting(time.Second, tt.status, tt.fields...)
			c := newClient(t, Options{Transport: s}, "http://h")
			first := c.Authorize(t.Context(), repoH, Credentials{})
			if isKind(first, RateLimited) != (tt.want > 0) {
				t.Errorf("%d %q is %v", tt.status, tt.fields, first)
			}
			second := c.Authorize(t.Context(), repoH, Credentials{})
			var f *Failure
			if errors.As(first, &f) && tt.want > 0 && f.RetryAfter != tt.want {
				t.Errorf("%d %q: the first one hears %v, want %v", tt.status, tt.fields, f.RetryAfter, tt.want)
			}
			if tt.want > 0 && (!errors.As(second, &f) || f.RetryAfter != tt.want || s.count() != 1) {
				t.Errorf("%d %q: the next one hears %v after %d requests, want %v", tt.status, tt.fields, second, s.count(), tt.want)
			}
			if tt.want == 0 && s.count() != 2 {
				t.Errorf("%d %q keeps requests here", tt.status, tt.fields)
			}
		}
	})
}

func TestALimitOfOneCallerClosesNoHostForOthersAndOfTwoItDoes(t *testing.T) {
	var b backoff
	now := time.Now()
	one, two, three := callerKey{1}, callerKey{2}, callerKey{3}
	b.caller(one, now, time.Minute)
	if b.left(one, now) != time.Minute || b.left(two, now) != 0 || b.host(now) != 0 {
		t.Error("one caller's limit holds for others, or not for it")
	}
	b.caller(two, now, 30*time.Second)
	if b.left(one, now) != time.Minute || b.left(two, now) != 30*time.Second || b.left(three, now) != 30*time.Second {
		t.Errorf("a limit of two callers is no limit of the host's: %v %v %v", b.left(one, now), b.left(two, now), b.left(three, now))
	}
	later := now.Add(2 * time.Minute)
	b.caller(three, later, time.Minute)
	if b.left(one, later) != 0 || b.left(three, later) != time.Minute {
		t.Error("a limit that is over is remembered")
	}
	b.everyone(later, 5*time.Minute)
	if b.left(one, later) != 5*time.Minute {
		t.Error("503 with Retry-After does not hold for everyone")
	}
}

func TestAConnectionThatBreaksIsTriedAgainWithinABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			sent++
			return nil, syscall.ECONNRESET
		})
		c := newClient(t, Options{Transport: transport}, "http://h")
		for range 1000 {
			wantKind(t, c.Authorize(t.Context(), repoH, Credentials{}), Unavailable)
		}
		if sent < 1090 || sent > 1100 {
			t.Errorf("1000 requests were sent %d times", sent)
		}
		if s := c.Stats(); s.Hosts[0].Retries != uint64(sent-1000) || s.Requests != uint64(sent) || s.Failures[Unavailable] != 1000 {
			t.Errorf("counted %+v", s)
		}
	})
}

func TestAnAnswerIsNeverARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{get: func(r *http.Request) *http.Response { return reply(r, 502, "") }}
		c := newClient(t, Options{Transport: s}, "http://h")
		for range 100 {
			wantKind(t, c.Authorize(t.Context(), repoH, Credentials{}), Unavailable)
		}
		if s.count() != 100 {
			t.Errorf("100 requests were sent %d times", s.count())
		}
	})
}

func TestWhatAHostIsAskedAtOnceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return reply(r, 200, v2Advert, "Content-Type", advertType), nil
		})
		c := newClient(t, Options{Transport: transport, Connections: 3}, "http://h")
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				if err := c.Authorize(t.Context(), Repo{Host: "h", Path: strconv.Itoa(i)}, Credentials{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most != 3 || c.Stats().Hosts[0].Questions != 0 {
			t.Errorf("%d at once, %d are held", most, c.Stats().Hosts[0].Questions)
		}
	})
}
