package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leveehq/levee/internal/git/child"
)

// checkGit looks at what the Git cache needs besides. Whether waits are long enough is for experience to say, and that is in
// the Status of a server that runs: no file keeps it, since what packs took before a restart says little of the packs after.
func (a *App) checkGit() []Finding {
	if a.git == nil {
		return nil
	}
	const what = "git"
	out := []Finding{a.checkGitDirectory()}
	if _, err := child.New(child.Options{}); err != nil {
		out = append(out, Finding{Failure, what, err.Error()})
	}
	for _, h := range gitHosts(a.cfg.Git) {
		if _, err := a.gitToken(h.URL); err != nil {
			out = append(out, Finding{Failure, what, fmt.Sprintf("the token of %s: %v", h.URL, err)})
		}
	}
	return append(out, a.checkGitWaits())
}

func (a *App) checkGitDirectory() Finding {
	path := gitPath(a.cfg)
	base, err := existing(path)
	if err == nil {
		err = unix.Access(base, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return Finding{Failure, "git", fmt.Sprintf("git.path = %s: %v", path, err)}
	}
	return Finding{OK, "git", fmt.Sprintf("%s will hold mirrors and packs", path)}
}

// checkGitWaits holds the waits against what the server that runs with this configuration has measured.
func (a *App) checkGitWaits() Finding {
	const what = "git"
	median, n, err := medianGeneration(a.cfg.Listen.Admin)
	g := a.cfg.Git
	switch {
	case err != nil:
		return Finding{OK, what, fmt.Sprintf("no server that runs could be asked how long packs take (%v), so git.wait is not held against it", err)}
	case n == 0:
		return Finding{OK, what, "the server that runs has made no pack yet, so git.wait is not held against what one takes"}
	case g.Wait < median:
		return Finding{Warning, what, fmt.Sprintf("%s is shorter than the median of %d generations of packs (%v): who waits for one is turned away before it ends; raise it",
			a.cfg.Describe("git.wait"), n, median)}
	case g.SilentWait < median:
		return Finding{Warning, what, fmt.Sprintf("%s is shorter than the median of %d generations of packs (%v): clients that cannot be told of the queue are turned away before one ends; raise it, if what is between has the patience",
			a.cfg.Describe("git.silent_wait"), n, median)}
	}
	return Finding{OK, what, fmt.Sprintf("git.wait and git.silent_wait are above the median of %d generations of packs (%v)", n, median)}
}

// medianGeneration asks the admin listener at addr for Status.
func medianGeneration(addr string) (median time.Duration, n uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/status", nil)
	if err != nil {
		return 0, 0, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	var status struct {
		Services struct {
			Git *struct {
				Median      float64 `json:"median_generation_seconds"`
				Generations uint64  `json:"generations_measured"`
			} `json:"git"`
		} `json:"services"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return 0, 0, err
	}
	if status.Services.Git == nil {
		return 0, 0, fmt.Errorf("the server at %s has no Git cache", addr)
	}
	return time.Duration(status.Services.Git.Median * float64(time.Second)), status.Services.Git.Generations, nil
}
