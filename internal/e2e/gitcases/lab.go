package gitcases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// Lab is what a case works with: an upstream, and the servers in front of it.
type Lab struct {
	*testing.T
	Size Size
	Up   *rig.Upstream

	flags []string
}

func newLab(t *testing.T, size Size, flags []string) *Lab {
	return &Lab{T: t, Size: size, Up: rig.NewUpstream(t), flags: flags}
}

// serve starts a server; of a flag that is given twice the last one counts.
func (l *Lab) serve(flags ...string) *rig.GitServer {
	l.Helper()
	return rig.StartGit(l.T, l.Up, slices.Concat([]string{"--memory-limit", "1GiB"}, flags, l.flags)...)
}

const (
	patience = time.Minute
	moment   = 10 * time.Millisecond
)

// until polls until the condition holds.
func (l *Lab) until(what string, condition func() error) {
	l.Helper()
	l.within(patience, what, condition)
}

func (l *Lab) within(limit time.Duration, what string, condition func() error) {
	l.Helper()
	var last error
	for end := time.Now().Add(limit); time.Now().Before(end); <-time.After(moment) {
		if last = condition(); last == nil {
			return
		}
	}
	l.Fatal(errors.Join(fmt.Errorf("waited %s for %s", limit, what), last))
}

// no is an error of what is not so yet.
func no(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// idle waits until the server has nothing to do for Git: no permit given, no child, nothing unfinished on disk.
func (l *Lab) idle(s *rig.GitServer) {
	l.Helper()
	for _, gate := range []string{"git_packs", "git_quick", "git_rounds", "git_mirrors", "git_bodies", "git_requests"} {
		l.until("gate "+gate+" to be empty", func() error {
			n, err := s.InUse(gate)
			return errors.Join(err, no(n == 0, "%v in use", n))
		})
	}
	l.until("no child to be left", func() error {
		below := rig.Below(s.PID())
		return no(len(below) == 0, "left: %v", below)
	})
	l.until("no temporary file to be left", func() error {
		left := s.Unfinished()
		return no(len(left) == 0, "left: %v", left)
	})
}

// whole fails the case unless a pack came and is whole.
func (l *Lab) whole(who string, p *rig.Pack, err error) bool {
	l.Helper()
	if err == nil {
		err = p.Whole()
	}
	if err != nil {
		l.Errorf("%s: %v", who, err)
	}
	return err == nil
}

// crowd runs n of the same at once and waits for them.
func crowd(n int, run func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { run(i) })
	}
	wg.Wait()
}

// ctx ends with the case, or when that has taken far too long.
func (l *Lab) ctx() context.Context {
	ctx, cancel := context.WithTimeout(l.Context(), 5*time.Minute)
	l.Cleanup(cancel)
	return ctx
}

// commits of a branch, the newest first.
func commits(r *rig.Repo, branch string) []string {
	return strings.Fields(r.Git("rev-list", branch))
}

// get is a GET, with Basic authentication unless user is empty.
func (l *Lab) get(url, user, password string) (status int, header http.Header, body string) {
	l.Helper()
	r, err := http.NewRequestWithContext(l.ctx(), http.MethodGet, url, nil)
	if err != nil {
		l.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	return l.do(r)
}

// refsURL is what a client asks first.
func refsURL(repo string) string { return repo + "/info/refs?service=git-upload-pack" }

func (l *Lab) do(r *http.Request) (status int, header http.Header, body string) {
	l.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		l.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		l.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// post is one to git-upload-pack.
func (l *Lab) post(repo string, body []byte, header ...string) (status int, answer string) {
	l.Helper()
	r, err := rig.NewPost(l.ctx(), repo, body, false)
	if err != nil {
		l.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	status, _, answer = l.do(r)
	return status, answer
}

// quantile of some times.
func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(int(q*float64(len(took))), len(took)-1)]
}
