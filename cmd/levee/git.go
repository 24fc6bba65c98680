package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leveehq/levee/internal/bytesize"
)

type gitCmd struct {
	Ls    gitLsCmd    `cmd:"" help:"List the mirrors of a running server."`
	Warm  gitWarmCmd  `cmd:"" help:"Have a running server clone or refresh mirrors now, and wait for it."`
	Evict gitEvictCmd `cmd:"" help:"Have a running server remove mirrors; the next use clones them anew."`
}

// gitAdmin is where all of them ask.
type gitAdmin struct {
	adminFlag `embed:""`
}

type gitLsCmd struct {
	gitAdmin `embed:""`

	JSON bool `name:"json" help:"Print as JSON."`
}

type gitWarmCmd struct {
	gitAdmin `embed:""`

	Repos []string `arg:"" name:"repo" help:"Repositories as in their URL behind /git/: github.com/org/repo."`
}

type gitEvictCmd struct {
	gitAdmin `embed:""`

	Repos []string `arg:"" name:"repo" help:"Repositories as in their URL behind /git/: github.com/org/repo."`
}

// gitMirror is a mirror as the admin listener describes it.
type gitMirror struct {
	Repo       string    `json:"repo"`
	State      string    `json:"state"`
	Bytes      int64     `json:"bytes"`
	Packs      int       `json:"packs"`
	Generation uint64    `json:"generation"`
	LastUse    time.Time `json:"last_use"`
	LastAsked  time.Time `json:"last_asked"`
	Leases     int       `json:"leases"`
	Error      string    `json:"error,omitempty"`
}

func (c *gitLsCmd) Run(ctx context.Context, env environment) error {
	body, err := c.ask(ctx, http.MethodGet, "/git/mirrors", "")
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := fmt.Fprintln(env.out, strings.TrimSpace(string(body)))
		return err
	}
	var mirrors []gitMirror
	if err := json.Unmarshal(body, &mirrors); err != nil {
		return fmt.Errorf("git ls: the admin listener at %s did not answer with mirrors: %w", c.Admin, err)
	}
	return printMirrors(env.out, mirrors, time.Now())
}

func printMirrors(out io.Writer, mirrors []gitMirror, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "REPOSITORY\tSTATE\tSIZE\tPACKS\tIN USE\tLAST USE\tUPSTREAM ASKED\tERROR")
	for _, m := range mirrors {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", m.Repo, m.State, bytesize.Format(m.Bytes), m.Packs, m.Leases,
			ago(m.LastUse, now), ago(m.LastAsked, now), m.Error)
	}
	return w.Flush()
}

func ago(then, now time.Time) string {
	if then.IsZero() {
		return "never"
	}
	return max(now.Sub(then), 0).Round(time.Second).String() + " ago"
}

func (c *gitWarmCmd) Run(ctx context.Context, env environment) error {
	return c.each(ctx, env, "/git/warm", c.Repos, func(body []byte) (string, error) {
		var m gitMirror
		err := json.Unmarshal(body, &m)
		return fmt.Sprintf("%s, %s", m.State, bytesize.Format(m.Bytes)), err
	})
}

func (c *gitEvictCmd) Run(ctx context.Context, env environment) error {
	return c.each(ctx, env, "/git/evict", c.Repos, func([]byte) (string, error) {
		return "removed, or is as soon as nobody uses it", nil
	})
}

// each asks for one repository after the other, so that a long list is no storm, and goes on behind one that fails. say makes
// words of an answer.
func (c *gitAdmin) each(ctx context.Context, env environment, path string, repos []string, say func([]byte) (string, error)) error {
	failed := false
	for _, repo := range repos {
		var said string
		body, err := c.ask(ctx, http.MethodPost, path, repo)
		if err == nil {
			said, err = say(body)
		}
		if err != nil {
			failed = true
			fmt.Fprintf(env.errors, "levee: error: %s: %v\n", repo, err)
			continue
		}
		fmt.Fprintf(env.out, "%s: %s\n", repo, said)
	}
	if failed {
		return errSilent
	}
	return nil
}

// unschemed is a repository's name where its URL was given, which is what people have at hand.
func unschemed(repo string) string {
	if _, name, ok := strings.Cut(repo, "://"); ok {
		return name
	}
	return repo
}

func (c *gitAdmin) ask(ctx context.Context, method, path, repo string) ([]byte, error) {
	query := url.Values{}
	if repo != "" {
		query.Set("repo", unschemed(repo))
	}
	return c.adminFlag.ask(ctx, method, path, query, "its Git cache off: name a host, as in levee serve --git-host github.com")
}
