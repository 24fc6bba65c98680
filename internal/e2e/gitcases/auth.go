package gitcases

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/leveehq/levee/internal/e2e/rig"
)

const password = "s3cr3t-pass"

// as is a URL with a user in it, as people write it.
func as(address, user, password string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic("gitcases: " + err.Error()) // made by us
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// privateRepository: cached for one user, it is not served to others, nor to him when upstream would not any more.
func privateRepository(l *Lab) {
	tip := l.Up.R40("priv").Git("rev-parse", "main")
	l.Up.Restrict("priv", "a", password)
	s := l.serve()
	client := rig.NewGitClient(l)
	client.Clone(as(s.URL("priv"), "a", password))
	ask := rig.Ask{Wants: []string{tip}}
	mayNot := func(who, user, password string) {
		l.Helper()
		status, header, _ := l.get(refsURL(s.URL("priv")), user, password)
		if status != http.StatusUnauthorized && (status != http.StatusForbidden || user == "") {
			l.Errorf("%s asks for refs: %d", who, status)
		}
		if user == "" && !strings.Contains(header.Get("WWW-Authenticate"), "Basic") {
			l.Errorf("%s is not told how to authenticate: %q", who, header)
		}
		stranger := ask
		if user != "" {
			stranger.User = url.UserPassword(user, password)
		}
		p, err := stranger.Get(l.ctx(), s.URL("priv"))
		if err != nil || p.Status != http.StatusUnauthorized && p.Status != http.StatusForbidden {
			l.Errorf("%s posts: %+v, %v", who, p, err)
		}
	}
	mayNot("a caller without credentials", "", "")
	mayNot("a caller with wrong ones", "a", "wrong")
	mayNot("another caller", "b", password)
	ask.User = url.UserPassword("a", password)
	p, err := ask.Get(l.ctx(), s.URL("priv"))
	l.whole("the right caller's direct post", p, err)

	l.Up.Revoke("priv")
	l.until("the revoked user to be turned away", func() error {
		status, _, _ := l.get(refsURL(s.URL("priv")), "a", password)
		return no(status == http.StatusUnauthorized || status == http.StatusForbidden, "refs are answered %d", status)
	})
	l.until("the revoked user's direct post to be turned away", func() error {
		p, err := ask.Get(l.ctx(), s.URL("priv"))
		return firstOf(err, no(p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden, "it is answered %d", p.Status))
	})
	noCredentials(l, s)
}

// noCredentials: none in the log, on disk, in arguments or environments of children.
func noCredentials(l *Lab, s *rig.GitServer) {
	l.Helper()
	places := map[string]string{"the log": s.AllLog(), "a child's arguments or environment": s.Spy.Everything()}
	_, places["/metrics"], _, _ = s.Get("/metrics")
	_, places["/status"], _, _ = s.Get("/status")
	for _, path := range s.Files() {
		if text, err := os.ReadFile(path); err == nil {
			places[path] = string(text)
		}
	}
	secrets := []string{password, base64.StdEncoding.EncodeToString([]byte("a:" + password))}
	for place, text := range places {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				l.Errorf("%s has the credential %s", place, secret)
			}
		}
	}
}

// droppedCommit: after a forced push and upstream's own clean-up nobody gets the old commit by its hash.
func droppedCommit(l *Lab) {
	r := l.Up.R40("r")
	for _, tag := range strings.Fields(r.Git("tag")) {
		r.Git("tag", "-d", tag)
	}
	old := r.Commit("main", "secret", "never meant to be seen\n")
	blob := r.Git("rev-parse", "main:secret")
	s := l.serve()
	client := rig.NewGitClient(l)
	client.Clone(s.URL("r"), "--bare")
	fresh := r.Replace("main", "README", "rewritten\n")
	r.Git("gc", "--quiet", "--prune=now")
	if err := wholeOrNot(l, rig.Ask{Wants: []string{old}}, l.Up.URL("r")); err == nil {
		l.Fatal("void: upstream serves the old commit")
	}
	if got := client.In(client.Clone(s.URL("r"), "--bare"), "rev-parse", "HEAD"); got != fresh {
		l.Errorf("a clone has %s, upstream %s", got, fresh)
	}
	for what, oid := range map[string]string{"the old commit": old, "a blob of it": blob} {
		if err := wholeOrNot(l, rig.Ask{Wants: []string{oid}}, s.URL("r")); err == nil {
			l.Errorf("%s is served", what)
		} else if !strings.Contains(err.Error(), "not our ref") {
			l.Errorf("%s: %v", what, err)
		}
	}
}

// wholeOrNot is nil if a whole pack came.
func wholeOrNot(l *Lab, a rig.Ask, url string) error {
	p, err := a.Get(l.ctx(), url)
	if err != nil {
		return err
	}
	return p.Whole()
}
