package pkt

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// clients are the versions that a stock client can be told to speak.
var clients = map[string]int{"v0": 0, "v1": 1, "v2": 2}

func eachVersion(t *testing.T, test func(t *testing.T, o *origin, git func(args ...string), version int)) {
	for name, version := range clients {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			git := func(args ...string) {
				t.Helper()
				o.git(o.tmp, append([]string{"-c", fmt.Sprintf("protocol.version=%d", version)}, args...)...)
			}
			test(t, o, git, version)
		})
	}
}

func TestAStockClonesRequestIsUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		git("clone", "-q", o.url, "plain")
		r := one(t, o.asked())
		if r.Version != version || !r.Done || len(r.Haves) > 0 || len(r.Wants) < 30 || !strings.HasPrefix(r.Agent, "git/") || !r.has("ofs-delta") {
			t.Errorf("%s", show(r))
		}
		git("clone", "--progress", o.url, "loud")
		if loud := one(t, o.asked()); loud.Canonical() != r.Canonical() || !loud.Progress() || r.Progress() {
			t.Errorf("a clone with progress is another: %s", show(loud))
		}
		git("clone", "-q", "--mirror", o.url, "mirror")
		if r := one(t, o.asked()); len(r.Wants) < 30 || !r.Done {
			t.Errorf("%s", show(r))
		}
		git("clone", "-q", "--single-branch", "-b", "side", o.url, "single")
		if r := one(t, o.asked()); !r.Done || version == 2 && len(r.Wants) > 6 {
			t.Errorf("%s", show(r))
		}
	})
}

// show leaves out what only makes it long.
func show(r *Request) string {
	short := *r
	short.Body, short.rest = nil, ""
	return fmt.Sprintf("%.2000s", fmt.Sprintf("%+v", short))
}

func one(t *testing.T, all []*Request) *Request {
	t.Helper()
	if len(all) != 1 {
		t.Fatalf("%d fetches, want 1", len(all))
	}
	return all[0]
}

func TestAStockShallowClonesRequestsAreUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		last := func() (r *Request) { // behind it may come a fetch of tags
			t.Helper()
			for _, x := range o.asked() {
				if x.Depth > 0 || x.DeepenSince != "" || len(x.DeepenNot) > 0 {
					r = x
				}
			}
			return r
		}
		git("clone", "-q", "--depth", "1", o.url, "shallow")
		if r := last(); r.Depth != 1 || !r.Done || r.DeepenRelative {
			t.Errorf("%s", show(r))
		}
		git("-C", "shallow", "fetch", "-q", o.url, "side")
		for _, r := range o.asked() {
			if len(r.Shallows) != 1 || r.Depth > 0 {
				t.Errorf("%s", show(r))
			}
		}
		git("-C", "shallow", "fetch", "-q", "--deepen", "2")
		if r := last(); r.Depth != 2 || !r.DeepenRelative || len(r.Shallows) != 1 {
			t.Errorf("%s", show(r))
		}
		git("-C", "shallow", "fetch", "-q", "--depth", "5")
		if r := last(); r.Depth != 5 || r.DeepenRelative || len(r.Shallows) != 1 {
			t.Errorf("%s", show(r))
		}
		git("-C", "shallow", "fetch", "-q", "--unshallow")
		if r := last(); r.Depth != 1<<31-1 || len(r.Shallows) != 1 {
			t.Errorf("%s", show(r))
		}
		git("clone", "-q", "--shallow-since", "2023-12-10", o.url, "since")
		if r := last(); r.DeepenSince == "" || r.Depth != 0 {
			t.Errorf("%s", show(r))
		}
		git("clone", "-q", "--shallow-exclude", "v1", "--shallow-exclude", "v0", o.url, "not")
		if r := last(); strings.Join(r.DeepenNot, " ") != "v0 v1" {
			t.Errorf("%s", show(r))
		}
	})
}

func TestAStockPartialClonesRequestsAreUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		git("clone", "-q", "--no-checkout", "--filter", "blob:none", o.url, "partial")
		if r := one(t, o.asked()); r.Filter != "blob:none" || !r.Done {
			t.Errorf("%s", show(r))
		}
		git("-C", "partial", "checkout", "-q", "side")
		if r := one(t, o.asked()); len(r.Wants) != 7 || !r.Done || len(r.Haves) > 0 || r.Filter != "blob:none" && version == 2 {
			t.Errorf("%s", show(r))
		}
		git("clone", "-q", "--no-checkout", "--filter", "combine:blob:limit=1024+tree:3", o.url, "combined")
		if r := one(t, o.asked()); r.Filter != "combine:blob:limit=1024+tree:3" {
			t.Errorf("%s", show(r))
		}
	})
}

func TestAStockFetchOfAHashIsUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		hash := o.git(o.dir, "rev-parse", "main~7")
		git("init", "-q", "--bare", "empty.git")
		git("-C", "empty.git", "fetch", "-q", o.url, hash)
		if r := one(t, o.asked()); len(r.Wants) != 1 || string(r.Wants[0]) != hash || !r.Done {
			t.Errorf("%s", show(r))
		}
	})
}

// An incremental fetch negotiates; one of histories that share nothing gives up after many rounds.
func TestAStockNegotiationsRoundsAreUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		git("clone", "-q", "--single-branch", "-b", "topic/25", o.url, "behind")
		o.asked()
		git("-C", "behind", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "ours")
		git("-C", "behind", "fetch", "-q", o.url, "main")
		rounds := o.asked()
		if r := rounds[0]; len(r.Haves) == 0 || !r.has("thin-pack") {
			t.Errorf("%s", show(r))
		}
		git("init", "-q", "stranger")
		var history strings.Builder
		for n := range 400 {
			fmt.Fprintf(&history, "commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata 1\nx\n", 1_500_000_000+n)
		}
		o.gitWith(filepath.Join(o.tmp, "stranger"), strings.NewReader(history.String()), "fast-import", "--quiet")
		git("-C", "stranger", "fetch", "-q", o.url, "main")
		rounds = o.asked()
		if last := rounds[len(rounds)-1]; len(rounds) < 4 || !last.Done || rounds[0].Done || rounds[0].EndsInPack() {
			t.Errorf("%d rounds, the last is %s", len(rounds), show(last))
		}
	})
}

func TestAStockClientsNegotiationAloneAndRefsByNameAreUnderstood(t *testing.T) {
	o := newOrigin(t)
	git := func(args ...string) { t.Helper(); o.git(o.tmp, args...) }
	git("clone", "-q", o.url, "all")
	o.asked()
	git("-C", "all", "fetch", "-q", "--negotiate-only", "--negotiation-tip=HEAD", "origin")
	if r := o.asked()[0]; !r.WaitForDone || len(r.Wants) > 0 || r.EndsInPack() {
		t.Errorf("%s", show(r))
	}
	o.git(o.dir, "config", "uploadpack.allowRefInWant", "true")
	git("init", "-q", "named")
	git("-C", "named", "fetch", "-q", o.url, "refs/heads/side:refs/heads/side")
	if r := one(t, o.asked()); len(r.WantRefs) != 1 || r.Tellable() || !r.EndsInPack() {
		t.Errorf("%s", show(r))
	}
}

func TestAStockClientsRefsAreUnderstood(t *testing.T) {
	o := newOrigin(t)
	o.git(o.tmp, "ls-remote", "--symref", "-o", "an option", o.url, "main", "v*")
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.mu.seen) != 1 {
		t.Fatalf("%d POSTs, want 1", len(o.mu.seen))
	}
	if r := o.parse(o.mu.seen[0]); r.Command != "ls-refs" || !r.Peel || !r.Symrefs || !r.has("server-option=an option") {
		t.Errorf("%s", show(r))
	}
}

// A body above http.postBuffer comes in chunks, after a probe.
func TestAStockClientsProbeIsUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		var many strings.Builder
		for n := range 1500 {
			fmt.Fprintf(&many, "commit refs/heads/many/%d\ncommitter A <a@example.org> %d +0000\ndata 1\nx\n", n, n)
		}
		o.gitWith(o.dir, strings.NewReader(many.String()), "fast-import", "--quiet")
		git("-c", "http.postBuffer=65536", "clone", "-q", "--mirror", o.url, "mirror")
		o.mu.Lock()
		probe := o.parse(o.mu.seen[len(o.mu.seen)-2])
		o.mu.Unlock()
		if probe.Command != "" || len(probe.Body) != 4 {
			t.Errorf("before the fetch comes %q and no probe", probe.Body)
		}
		one(t, o.asked())
	})
}
