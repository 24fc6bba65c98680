package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestTheGitBlockTakesListsAndPairs(t *testing.T) {
	c, err := Parse([]byte(`git {
  hosts      = ["github.com", "http://127.0.0.1:8081"]
  tokens     = { "github.com" = "env:GITHUB_TOKEN" }
  hide_refs  = ["refs/pull", "!refs/pull/7"]
  total      = 4
  push       = "forward"
}`), "levee.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	g := c.Git
	if !slices.Equal(g.Hosts, []string{"github.com", "http://127.0.0.1:8081"}) || !slices.Equal(g.HideRefs, []string{"refs/pull", "!refs/pull/7"}) ||
		!maps.Equal(g.Tokens, map[string]string{"github.com": "env:GITHUB_TOKEN"}) || g.Total != 4 || g.Push != "forward" {
		t.Errorf("got %+v", g)
	}
	if got := c.Value("git.tokens"); got != "github.com=env:GITHUB_TOKEN" {
		t.Errorf("git.tokens = %s", got)
	}
}

func TestAFlagOfAListMayCarrySeveralHosts(t *testing.T) {
	c, err := Load(Sources{Flags: map[string]string{"git-host": "github.com,gitlab.com", "git-tokens": "gitlab.com=file:/run/token"}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Git.Hosts, []string{"github.com", "gitlab.com"}) || c.Git.Tokens["gitlab.com"] != "file:/run/token" {
		t.Errorf("got %+v", c.Git)
	}
}

func TestGitSettingsThatContradictEachOtherNameBoth(t *testing.T) {
	for _, test := range []struct {
		flags map[string]string
		want  string
	}{
		{map[string]string{"git-total": "2", "git-per-repository": "3"}, "git.per_repository = 3 (--git-per-repository) is above git.total = 2"},
		{map[string]string{"git-memory": "2GiB", "memory-limit": "1GiB"}, "git.memory = 2GiB (--git-memory) is above memory_limit = 1GiB"},
		{map[string]string{"git-silent-wait": "11m"}, "git.silent_wait = 11m0s (--git-silent-wait) is above git.wait = 10m0s (default)"},
		{map[string]string{"git-queue-notice-after": "1m", "git-wait": "55s"}, "git.queue_notice_after = 1m0s (--git-queue-notice-after) is not below git.wait = 55s"},
		{map[string]string{"git-host": "github.com", "git-tokens": "gitlab.com=env:T"}, "has the host gitlab.com, which is not in git.hosts = github.com"},
		{map[string]string{"git-host": "github.com", "git-tokens": "github.com=ghp_secret"}, "must say where the token of github.com is, as env:VARIABLE or file:PATH"},
		{map[string]string{"git-host": "https://git.internal", "git-private-hosts": "other.internal"}, "has the host other.internal, which is not in git.hosts"},
	} {
		_, err := Load(Sources{Flags: test.flags})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %s", test.flags, err, test.want)
		} else if strings.Contains(err.Error(), "ghp_") {
			t.Errorf("a token is shown: %v", err)
		}
	}
}

func TestAHostIsNamedWithOrWithoutItsScheme(t *testing.T) {
	hosts := []string{"github.com", "http://127.0.0.1:8081/"}
	for _, host := range []string{"GitHub.com", "https://github.com", "127.0.0.1:8081", "http://127.0.0.1:8081"} {
		if !NamesHost(hosts, host) {
			t.Errorf("%s is not found", host)
		}
	}
	if NamesHost(hosts, "127.0.0.1") {
		t.Error("a host of another port is found")
	}
}
