package git

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/leveehq/levee/internal/git/pkt"
)

// wanted is the body of POST …/ensure-refs.
type wanted struct {
	Refs    []string `json:"refs"`    // full names: refs/heads/main
	Commits []string `json:"commits"` // full object ids
}

// ensured is its answer: 200 if nothing is missing, else 404.
type ensured struct {
	Present found  `json:"present"`
	Missing wanted `json:"missing"`
}

type found struct {
	Refs    map[string]string `json:"refs"` // name to object id
	Commits []string          `json:"commits"`
}

const (
	mostEnsured  = 1000
	ensureMethod = http.MethodPost
)

// ensureRefs has refs and commits made present, or says which upstream does not have. It is for those who are about to start
// many jobs on one commit.
func (c *call) ensureRefs() error {
	if err := c.allow(ensureMethod); err != nil {
		return err
	}
	if err := c.authorize(); err != nil {
		return err
	}
	want, err := c.readWanted()
	if err != nil {
		return err
	}
	v, err := c.refs() // not what was seen lately: a commit was pushed a moment ago
	if err != nil {
		return err
	}
	got := ensured{Present: found{Refs: map[string]string{}, Commits: []string{}}, Missing: wanted{Refs: []string{}, Commits: []string{}}}
	names := map[string]string{}
	for _, r := range v.Refs.List {
		if r.OID != "" && !c.hidden.hides(r.Name) {
			names[r.Name] = r.OID
		}
	}
	for _, name := range want.Refs {
		if oid, ok := names[name]; ok {
			got.Present.Refs[name] = oid
		} else {
			got.Missing.Refs = append(got.Missing.Refs, name)
		}
	}
	if err := c.ensureCommits(want.Commits, &got); err != nil {
		return err
	}
	code := http.StatusOK
	if len(got.Missing.Refs)+len(got.Missing.Commits) > 0 {
		code = http.StatusNotFound
	}
	body, err := json.Marshal(got)
	if err != nil {
		return err
	}
	return c.whole(code, "application/json", append(body, '\n'))
}

func (c *call) ensureCommits(commits []string, got *ensured) error {
	le, _, err := c.lease(nil)
	if err != nil {
		return err
	}
	defer le.Release()
	oids := make([]pkt.OID, len(commits))
	for i, id := range commits {
		oids[i] = pkt.OID(strings.ToLower(id))
	}
	missing, err := le.Ensure(c.r.Context(), c.cred, oids)
	if err != nil {
		return err
	}
	absent := map[pkt.OID]bool{}
	for _, oid := range missing {
		absent[oid] = true
	}
	for _, oid := range oids {
		if absent[oid] {
			got.Missing.Commits = append(got.Missing.Commits, string(oid))
		} else {
			got.Present.Commits = append(got.Present.Commits, string(oid))
		}
	}
	return nil
}

func (c *call) readWanted() (w wanted, err error) {
	c.bodyBegun = true
	bad := func(format string, a ...any) (wanted, error) {
		return wanted{}, &httpError{http.StatusBadRequest, fmt.Sprintf(format, a...)}
	}
	text, err := io.ReadAll(io.LimitReader(&wireBody{call: c}, smallBody*4+1))
	switch {
	case err != nil:
		return w, c.broken(err)
	case len(text) > smallBody*4:
		return w, &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes", smallBody*4)}
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return bad(`the body must be JSON such as {"refs":["refs/heads/main"],"commits":["…40 digits…"]}: %v`, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad("there is more behind the JSON object")
	}
	if len(w.Refs)+len(w.Commits) > mostEnsured {
		return bad("%d refs and commits are asked for, and at most %d are looked up at once", len(w.Refs)+len(w.Commits), mostEnsured)
	}
	for _, id := range w.Commits {
		if !isObjectID(strings.ToLower(id)) {
			return bad("%q is no object id: write all 40 (or 64) hexadecimal digits", clip(id, 80))
		}
	}
	return w, nil
}

func isObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
