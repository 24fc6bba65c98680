package gitcases

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// failedFetch: the mirror cannot be brought up to date, while upstream answers everything else.
func failedFetch(l *Lab) {
	r := l.Up.R40("r40")
	s := l.serve()
	client := rig.NewGitClient(l)
	client.Clone(s.URL("r40"), "--bare")
	r.Commit("main", "more", "more\n")
	r.Tag("t41", "main", true)
	lift := l.Up.Break(rig.Fault{Match: func(c rig.Call) bool { return len(c.Haves) > 0 }, Status: http.StatusInternalServerError})
	for range 2 {
		out, err := client.Run(l.ctx(), "ls-remote", s.URL("r40"))
		if err == nil && !strings.Contains(out, "refs/tags/t41") {
			l.Errorf("ls-remote hides t41:\n%s", out)
		}
		if out, err := client.Run(l.ctx(), "clone", "-b", "t41", s.URL("r40"), client.Dir()); err != nil && !clearly(out) {
			l.Errorf("a clone of t41: %v\n%s", err, out)
		}
		prefix := rig.Packets([]string{"command=ls-refs", "object-format=sha1"}, []string{"ref-prefix refs/tags/t41"})
		if status, answer := l.post(s.URL("r40"), prefix); status == http.StatusOK && !strings.Contains(answer, "refs/tags/t41") || status != http.StatusOK && status < 500 {
			l.Errorf("a lone ls-refs: %d %s", status, answer)
		}
	}
	lift()
	client.Clone(s.URL("r40"), "-b", "t41")
	freshness(l, r)
}

// clearly tells an error that says that something went wrong from one that says that there is no such tag.
func clearly(out string) bool {
	return !strings.Contains(out, "not found") && (strings.Contains(out, "50") || strings.Contains(out, "remote error") || strings.Contains(out, "remote:"))
}

// freshness: a push is seen at once, and with a staleness allowed, after that.
func freshness(l *Lab, r *rig.Repo) {
	const staleness = 2 * time.Second
	client := rig.NewGitClient(l)
	for _, allowed := range []time.Duration{0, staleness} {
		s := l.serve("--git-max-staleness", allowed.String())
		client.Git("ls-remote", s.URL("r40"))
		l.Up.Forget()
		branch := fmt.Sprint("fresh-", allowed)
		tip := r.Commit(branch, "f", branch)
		began := time.Now()
		sees := func() error {
			out := client.Git("ls-remote", s.URL("r40"), branch)
			return no(strings.HasPrefix(out, tip), "it has %q", out)
		}
		if allowed == 0 {
			if err := sees(); err != nil {
				l.Errorf("a push is not seen at once: %v", err)
			}
			continue
		}
		asked := len(l.Up.Calls())
		l.until("a push to be seen", sees)
		if took := time.Since(began); took > allowed+2*time.Second {
			l.Errorf("a push was seen after %s, %s were allowed", took, allowed)
		}
		l.Logf("within a staleness of %s upstream was asked %d times", allowed, len(l.Up.Calls())-asked)
	}
}

// rateLimited: upstream answers 429 for a while. Its caller waits for it with one request and repeats none.
func rateLimited(l *Lab) {
	const wait = 2 // seconds
	l.Up.R40("warm")
	l.Up.R40("cold")
	s := l.serve()
	rig.NewGitClient(l).Clone(s.URL("warm"), "--bare")
	l.Up.Forget()
	limit := rig.Fault{Status: http.StatusTooManyRequests, RetryAfter: strconv.Itoa(wait)}
	lift := l.Up.Break(limit)
	crowd(l.Size.Crowd, func(int) { rig.NewGitClient(l).Clone(s.URL("warm"), "--bare") })
	calls := l.Up.Calls()
	if n := len(calls); n > 3 {
		l.Errorf("a warm repository in a time of 429: upstream was asked %d times by %d clones", n, l.Size.Crowd)
	}
	status, header, _ := l.get(refsURL(s.URL("warm")), "", "")
	if status != http.StatusOK {
		l.Errorf("refs served within grace: %d", status)
	}
	l.Logf("within grace the header says: %v", header)
	lift()

	// The host's time is over when a new call gets through; then a cold one, from the start.
	l.until("upstream to be asked again", func() error {
		before := len(l.Up.Calls())
		rig.NewGitClient(l).Git("ls-remote", s.URL("warm"))
		return no(len(l.Up.Calls()) > before, "it is not")
	})
	l.Up.Forget()
	lift = l.Up.Break(limit)
	began := time.Now()
	time.AfterFunc(wait*time.Second, lift)
	crowd(l.Size.Crowd, func(i int) { coldAndLimited(l, s, i, began.Add(wait*time.Second)) })
	if n := len(l.Up.Calls()); n > 3+2 { // the limited one, then info/refs, ls-refs and fetch: and 3 limited ones at most
		l.Errorf("a cold repository in a time of 429: upstream was asked %d times", n)
		for _, c := range l.Up.Calls() {
			l.Logf("%s %s %s %d after %s", c.Method, c.Path, c.Kind, c.Status, c.At.Sub(began))
		}
	}
}

// coldAndLimited asks once: it waits and succeeds, or is told when to come again.
func coldAndLimited(l *Lab, s *rig.GitServer, i int, free time.Time) {
	status, header, text := l.get(refsURL(s.URL("cold")), "", "")
	if status == http.StatusOK {
		return
	}
	left := time.Until(free)
	after, err := strconv.Atoi(header.Get("Retry-After"))
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable || err != nil || time.Duration(after)*time.Second < left {
		l.Errorf("client %d: %d, Retry-After %q (%s are left) %s", i, status, header.Get("Retry-After"), left, text)
	}
}

// badUpstream: a pack that is cut, one that ends early, one that stalls; first clones by several at once.
func badUpstream(l *Lab) {
	s := l.serve()
	for name, fault := range map[string]rig.Fault{
		"cut":     {CutAfter: l.Size.Big / 3},
		"ended":   {EndAfter: l.Size.Big / 3},
		"refused": {Status: http.StatusServiceUnavailable},
	} {
		r := l.Up.Big(name, l.Size.Big)
		fault.Match = func(c rig.Call) bool { return c.Repo == name && c.Transfer() }
		l.Up.Break(fault)
		crowd(4, func(i int) {
			client := rig.NewGitClient(l)
			if out, err := client.Run(l.ctx(), "clone", "--bare", s.URL(name), client.Dir()); err == nil {
				l.Errorf("%s: client %d has cloned what upstream did not give:\n%s", name, i, out)
			} else if i == 0 {
				l.Logf("%s: %s", name, strings.TrimSpace(out))
			}
		})
		l.Up.Mend()
		l.Up.Forget()
		l.until("a clone after upstream was mended", func() error {
			client := rig.NewGitClient(l)
			dir := client.Dir()
			out, err := client.Run(l.ctx(), "clone", "--quiet", "--bare", s.URL(name), dir)
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return no(client.In(dir, "rev-parse", "HEAD") == r.Git("rev-parse", "main"), "another HEAD")
		})
	}
	stalledUpstream(l, s)
	l.idle(s)
}

// stalledUpstream: the followers of a transfer that stalls and goes on all have it.
func stalledUpstream(l *Lab, s *rig.GitServer) {
	tip := l.Up.Big("stalled", l.Size.Big).Git("rev-parse", "main")
	l.Up.Break(rig.Fault{Match: func(c rig.Call) bool { return c.Repo == "stalled" && c.Transfer() }, StallAfter: l.Size.Big / 3})
	time.AfterFunc(time.Second, l.Up.Mend)
	crowd(4, func(i int) {
		p, err := rig.Ask{Wants: []string{tip}}.Get(l.ctx(), s.URL("stalled"))
		l.whole(fmt.Sprint("client ", i), p, err)
	})
	if n := l.Up.Count(func(c rig.Call) bool { return c.Repo == "stalled" && c.Transfer() }); n != 1 {
		l.Errorf("it was transferred %d times", n)
	}
}
