package serve

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/leveehq/levee/internal/bazel"
	"github.com/leveehq/levee/internal/config"
	"github.com/leveehq/levee/internal/git"
	"github.com/leveehq/levee/internal/git/upstream"
	"github.com/leveehq/levee/internal/metrics"
)

// buildGit makes the Git cache if a host is named. Without one there is nothing of it: no line, no gate, no goroutine.
func (a *App) buildGit() (err error) {
	if len(a.cfg.Git.Hosts) == 0 {
		return nil
	}
	o := gitOptions(a.cfg)
	if o.Memory == 0 && a.cfg.GraphQL.On() {
		o.Memory = a.kernel.Limit() * 3 / 10 // in place of its own default: three services are to fit a small machine
	}
	live, kernel := bazel.HTTPConnection()
	o.Connection = git.Connection{Live: live, Kernel: kernel}
	o.Kernel, o.Log, o.Logger, o.Token = a.kernel, a.access, a.log, a.gitToken
	a.git, err = git.New(o)
	return err
}

// openGit makes ready what the Git cache has on disk. Its errors name the setting.
func (a *App) openGit() error {
	if a.git == nil {
		return nil
	}
	if err := a.git.Open(); err != nil {
		return fmt.Errorf("git cache in %s: %w", gitPath(a.cfg), err)
	}
	return nil
}

func gitOptions(c *config.Config) git.Options {
	g := c.Git
	return git.Options{
		Hosts: gitHosts(g), Dir: gitPath(c),
		MaxSize: int64(g.MaxSize), SpoolSize: int64(g.SpoolSize),
		Memory: int64(g.Memory), Total: g.Total, PerRepository: g.PerRepository,
		MaxStaleness: g.MaxStaleness, Grace: g.Grace,
		QueueNoticeAfter: min(g.QueueNoticeAfter, g.Wait), Wait: g.Wait, SilentWait: min(g.SilentWait, g.Wait), Stall: c.Bazel.ReadStall,
		Push: git.Push(g.Push), ShedAs: git.ShedAs(g.ShedAs), TooLarge: git.TooLarge(g.TooLarge),
		HideRefs: g.HideRefs, MaxBody: int64(g.MaxBody),
	}
}

func gitHosts(g config.Git) []upstream.Host {
	var hosts []upstream.Host
	for _, text := range g.Hosts {
		h := git.ParseHost(text)
		h.AllowPrivate = config.NamesHost(g.PrivateHosts, text)
		hosts = append(hosts, h)
	}
	return hosts
}

func gitPath(c *config.Config) string {
	if c.Git.Path != "" {
		return c.Git.Path
	}
	return filepath.Join(c.Store.Path, "git")
}

// gitToken finds the token of a host, written as scheme and authority. Its errors name where it was looked for, and never show
// it.
func (a *App) gitToken(host string) (string, error) {
	for name, where := range a.cfg.Git.Tokens {
		if config.NamesHost([]string{name}, host) {
			return readSecret(where, a.env)
		}
	}
	return "", nil
}

func readSecret(where string, env []string) (string, error) {
	kind, name, _ := strings.Cut(where, ":")
	text := ""
	switch kind {
	case "file":
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		text = string(b)
	case "env":
		for _, pair := range env {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				text = value
			}
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("%s is empty, or not there", where)
	}
	return text, nil
}

func gitIsOff(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "the Git cache is off, because no host is named that it may ask; name one, as in: levee serve --git-host github.com (setting git.hosts)", http.StatusNotFound)
}

func (a *App) announceGit(w io.Writer, addr string) {
	if a.git == nil {
		return
	}
	fmt.Fprintf(w, "A Git cache, with mirrors in %s:\n\n", gitPath(a.cfg))
	for _, h := range gitHosts(a.cfg.Git) {
		_, name, _ := strings.Cut(h.URL, "://")
		fmt.Fprintf(w, "  git config --global url.\"http://%s%s%s/\".insteadOf %s/\n", addr, git.Prefix, name, h.URL)
	}
	fmt.Fprintln(w)
}

func gitMetrics(s git.Status) metrics.Git {
	out := metrics.Git{
		Results: s.Results, Waits: metrics.GitWaits(s.Waits),
		Generations: s.Packs.Generations, Hits: s.Packs.Hits, Coalesced: s.Packs.Coalesced, Rounds: s.Packs.Rounds,
		Detached: s.Packs.Detached, Generating: s.Packs.Generating,
		SpoolBytes: s.Packs.SpoolBytes, MaxSpoolBytes: s.Packs.MaxBytes,
		Mirrors: map[string]int{}, MirrorBytes: s.MirrorBytes, MaxMirrorBytes: s.MirrorMax,
		UpstreamRequests: s.UpstreamRequests, UpstreamFailures: map[string]uint64{},
		Stale: s.Stale, ClonesServed: s.ClonesServed, ClonesAttempted: s.ClonesAttempted,
	}
	for _, a := range s.Answers {
		out.Answers = append(out.Answers, metrics.GitAnswer{Method: a.Method, Code: a.Code, Origin: a.Origin, Count: a.Count})
	}
	for state, n := range s.MirrorStates {
		out.Mirrors[string(state)] = n
	}
	for kind, n := range s.UpstreamFailures {
		out.UpstreamFailures[string(kind)] = n
	}
	for _, r := range s.Busiest {
		out.Busiest = append(out.Busiest, metrics.GitRepository(r))
	}
	return out
}
