package upstream

import (
	"errors"
	"time"
)

const (
	// slow is how long a question must have failed for, that those who ask next do not wait as long.
	slow = time.Second
	// silenceTTL is how long they do not: longer, and a host that is back would be held for dead.
	silenceTTL = 10 * time.Second
)

// unlessSilent asks a question about a repository, unless one of a moment ago was answered by nothing at all. A host that is down
// without saying so would else be waited for by each request in turn, while there is a mirror that may be served.
func unlessSilent[T any](c *Client, h *host, repo Repo, question func() (T, error)) (T, error) {
	if known, ok := c.silent.get(repo, silenceTTL); ok {
		h.spared.Add(1)
		again := *known
		again.local = true
		var none T
		return none, &again
	}
	start := time.Now()
	answer, err := question()
	var f *Failure
	if errors.As(err, &f) && f.Outage() && f.Status == 0 && !f.local && time.Since(start) >= slow {
		c.silent.put(repo, f, time.Now())
	}
	return answer, err
}
