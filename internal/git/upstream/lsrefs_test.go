package upstream

import (
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leveehq/levee/internal/git/pkt"
)

// listed are refs in the form of git ls-remote --symref.
func listed(r *Refs) string {
	var b strings.Builder
	for _, ref := range r.List {
		if ref.Symref != "" && ref.OID != "" {
			fmt.Fprintf(&b, "ref: %s\t%s\n", ref.Symref, ref.Name)
		}
		if ref.OID != "" {
			fmt.Fprintf(&b, "%s\t%s\n", ref.OID, ref.Name)
		}
		if ref.Peeled != "" {
			fmt.Fprintf(&b, "%s\t%s^{}\n", ref.Peeled, ref.Name)
		}
	}
	return b.String()
}

// G19
func TestRefsAreWhatGitLists(t *testing.T) {
	u := newGitUpstream(t)
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			bare, work := u.newRepo(t, "r-"+format+".git", format, 2)
			git(t, work, "tag", "-a", "-m", "annotated", "v1")
			git(t, work, "tag", "light")
			git(t, work, "notes", "add", "-m", "note")
			git(t, work, "push", "-q", "origin", "v1", "light", "main:refs/heads/other", "refs/notes/commits")
			git(t, bare, "symbolic-ref", "refs/heads/alias", "refs/heads/other")

			c := newClient(t, Options{}, u.URL)
			repo := repoAt(u.Server, "r-"+format+".git")
			refs, err := c.LsRefs(t.Context(), repo, Credentials{})
			if err != nil {
				t.Fatal(err)
			}
			if want := git(t, work, "ls-remote", "--symref", u.URL+"/r-"+format+".git"); listed(refs) != want || refs.ObjectFormat != format {
				t.Errorf("the refs of format %s are\n%swant\n%s", refs.ObjectFormat, listed(refs), want)
			}
			if refs.List[0].Name != "HEAD" {
				t.Errorf("the first one is %s", refs.List[0].Name)
			}
			if !c.allowed(c.hosts[repo.Host], repo, Credentials{}) {
				t.Error("it does not count as leave to read")
			}
		})
	}
}

func TestAnEmptyRepositoryHasAnUnbornHead(t *testing.T) {
	u := newGitUpstream(t)
	u.newRepo(t, "empty", "sha1", 0)
	refs, err := newClient(t, Options{}, u.URL).LsRefs(t.Context(), repoAt(u.Server, "empty"), Credentials{})
	if err != nil || !slices.Equal(refs.List, []Ref{{Name: "HEAD", Symref: "refs/heads/main"}}) {
		t.Errorf("it has %+v, %v", refs, err)
	}
}

func TestTheSecondQuestionAboutRefsIsOneRequest(t *testing.T) {
	s := &stub{post: func(r *http.Request) *http.Response { return result(r, lines(oidA+" refs/heads/main", "0000")) }}
	c := newClient(t, Options{Transport: s}, "http://h")
	for range 2 {
		if _, err := c.LsRefs(t.Context(), repoH, Credentials{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"GET /r/info/refs", "POST /r/git-upload-pack", "POST /r/git-upload-pack"}; !slices.Equal(s.seen, want) {
		t.Errorf("sent %q, want %q", s.seen, want)
	}
}

func TestCapabilitiesThatNoLongerHoldAreAskedForAgain(t *testing.T) {
	gone := false
	s := &stub{post: func(r *http.Request) *http.Response {
		if gone {
			gone = false
			return reply(r, 404, "")
		}
		return result(r, lines(oidA+" refs/heads/main", "0000"))
	}}
	c := newClient(t, Options{Transport: s}, "http://h")
	for _, gone = range []bool{false, true} {
		if _, err := c.LsRefs(t.Context(), repoH, Credentials{}); err != nil {
			t.Error(err)
		}
	}
	if s.count() != 5 {
		t.Errorf("sent %q", s.seen)
	}
}

func TestAHostWithoutProtocolV2IsUnsupportedAndMayBeRead(t *testing.T) {
	u := newGitUpstream(t)
	u.newRepo(t, "r", "sha1", 1)
	u.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Git-Protocol")
		return false
	})
	c := newClient(t, Options{}, u.URL)
	repo := repoAt(u.Server, "r")
	_, err := c.LsRefs(t.Context(), repo, Credentials{})
	wantKind(t, err, Unsupported)
	wantKind(t, c.Fetch(t.Context(), repo, Credentials{}, Fetch{}), Unsupported)
	if err := c.Authorize(t.Context(), repo, Credentials{}); err != nil {
		t.Error(err)
	}
	if n := len(u.seen()); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestEachWayThatAnAdvertisementFailsHasItsKind(t *testing.T) {
	smart := func(body string) func(*http.Request) *http.Response {
		return func(r *http.Request) *http.Response { return reply(r, 200, body, "Content-Type", advertType) }
	}
	status := func(code int, fields ...string) func(*http.Request) *http.Response {
		return func(r *http.Request) *http.Response { return reply(r, code, "<html>", fields...) }
	}
	for name, tt := range map[string]struct {
		get  func(*http.Request) *http.Response
		want Kind
	}{
		"401": {status(401), Unauthorized}, "403": {status(403), Unauthorized}, "404": {status(404), NotFound}, "410": {status(410), NotFound},
		"429": {status(429), RateLimited}, "500": {status(500), Unavailable}, "503": {status(503), Unavailable}, "400": {status(400), Malformed},
		"204": {status(204), Malformed}, "a page": {status(200, "Content-Type", "text/html"), Malformed},
		"a dumb server":                {status(200, "Content-Type", "text/plain"), Malformed},
		"another host":                 {status(301, "Location", "http://evil.example/r/info/refs?service=git-upload-pack"), Redirected},
		"another port":                 {status(302, "Location", "http://h:81/r/info/refs?service=git-upload-pack"), Redirected},
		"another scheme":               {status(302, "Location", "https://h/r/info/refs?service=git-upload-pack"), Redirected},
		"a page to sign in at":         {status(302, "Location", "/users/sign_in"), Redirected},
		"another service":              {status(302, "Location", "/r/info/refs?service=git-receive-pack"), Redirected},
		"a way around":                 {status(302, "Location", "/a/%2e%2e/r/info/refs?service=git-upload-pack"), Redirected},
		"a user in it":                 {status(302, "Location", "http://u:p@h/r/info/refs?service=git-upload-pack"), Redirected},
		"no location":                  {status(302), Redirected},
		"a loop":                       {status(302, "Location", "/r/info/refs?service=git-upload-pack"), Redirected},
		"nothing":                      {smart(""), Truncated},
		"half a line":                  {smart("000eversi"), Truncated},
		"no flush":                     {smart(lines("version 2", "ls-refs")), Truncated},
		"no packet":                    {smart("<html></html>"), Malformed},
		"another line":                 {smart(lines("version 3")), Malformed},
		"an empty one":                 {smart("0000"), Malformed},
		"no flush behind the service":  {smart(lines("# service=git-upload-pack", "version 2", "0000")), Malformed},
		"a delimiter":                  {smart(lines("version 2", "0001")), Malformed},
		"an error":                     {smart(lines("ERR no such thing")), Unavailable},
		"endless capabilities":         {smart(lines("version 2") + strings.Repeat(lines("x"), 1000) + "0000"), Malformed},
		"v2 without ls-refs":           {smart(lines("version 2", "fetch", "0000")), Unsupported},
		"an object format of tomorrow": {smart(lines("version 2", "ls-refs", "object-format=sha3", "0000")), Unsupported},
		"v1":                           {smart(lines("# service=git-upload-pack", "0000", "version 1", oidA+" HEAD\x00ofs-delta", "0000")), Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, Options{Transport: &stub{get: tt.get}}, "http://h")
			_, err := c.LsRefs(t.Context(), repoH, Credentials{})
			f := wantKind(t, err, tt.want)
			if !strings.HasPrefix(f.Error(), "h ") {
				t.Errorf("the error does not name the host: %v", f)
			}
			if n := c.Stats().Failures[tt.want]; n != 1 && tt.want != Unsupported {
				t.Errorf("it counts %d times", n)
			}
		})
	}
}

func TestEachWayThatRefsFailHasItsKind(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want Kind
	}{
		"nothing": {"", Truncated}, "no flush": {lines(oidA + " refs/heads/a"), Truncated}, "half a line": {lines(oidA + " refs/heads/a")[:30], Truncated},
		"an error": {lines("ERR out of order"), Unavailable}, "no ref": {lines("hello", "0000"), Malformed}, "another format": {lines(oidA[:39] + " HEAD"), Malformed},
		"no peeled": {lines(oidA + " refs/tags/a peeled:x"), Malformed}, "a delimiter": {lines("0001"), Malformed}, "no packet": {"zzzz", Malformed},
		"too many": {strings.Repeat(lines(oidA+" refs/heads/a"), 30) + "0000", Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stub{post: func(r *http.Request) *http.Response { return result(r, tt.body) }}
			c := newClient(t, Options{Transport: s, MaxRefs: 1000}, "http://h")
			_, err := c.LsRefs(t.Context(), repoH, Credentials{})
			wantKind(t, err, tt.want)
			if hs := c.Stats().Hosts[0]; hs.Questions != 0 {
				t.Errorf("%d slots are held", hs.Questions)
			}
		})
	}
}

func TestRedirectsOnTheSameHostAreFollowedWithCredentials(t *testing.T) {
	s := &stub{
		get: func(r *http.Request) *http.Response {
			if r.URL.Path == "/r/info/refs" {
				return reply(r, 301, "", "Location", "/new/name.git/info/refs?service=git-upload-pack")
			}
			if r.Header.Get("Authorization") != "x" {
				return reply(r, 401, "")
			}
			return reply(r, 200, v2Advert, "Content-Type", advertType)
		},
		post: func(r *http.Request) *http.Response { return result(r, lines(oidA+" HEAD", "0000")) },
	}
	c := newClient(t, Options{Transport: s}, "http://h")
	_, err := c.LsRefs(t.Context(), repoH, CredentialsOf(http.Header{"Authorization": {"x"}}))
	if want := []string{"GET /r/info/refs", "GET /new/name.git/info/refs", "POST /new/name.git/git-upload-pack"}; err != nil || !slices.Equal(s.seen, want) {
		t.Errorf("%v, sent %q, want %q", err, s.seen, want)
	}
}

func TestAnUpstreamThatSaysNothingStallsAndIsNotWaitedForByEachInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		c := newClient(t, Options{Transport: transport}, "http://h")
		for i, want := range []time.Duration{defaultStall, 0, defaultStall} {
			start := time.Now()
			wantKind(t, c.Authorize(t.Context(), repoH, Credentials{}), Stalled)
			if took := time.Since(start); took != want {
				t.Errorf("question %d took %v, want %v", i, took, want)
			}
			time.Sleep(silenceTTL / 2)
		}
		if s := c.Stats(); s.Requests != 2 || s.Failures[Stalled] != 2 || s.Hosts[0].Spared != 1 {
			t.Errorf("counted %+v", s)
		}
	})
}

func TestNamesThatGitWouldNotTakeAreLeftOut(t *testing.T) {
	names := []string{"HEAD", "refs/heads/main", "refs/heads/a/b", "refs/heads/ümlaut", "refs/heads/-x", "refs/x", "refs/heads/@", "refs/pull/1/head",
		"", "refs/", "refs/heads/", "main", "FETCH_HEAD", "refs/heads/a..b", "refs/heads/.a", "refs/heads/a.lock", "refs/a.lock/b", "refs/heads/a~1", "refs/heads/a^",
		"refs/heads/a:b", "refs/heads/a?", "refs/heads/a*", "refs/heads/a[", "refs/heads/a\\b", "refs/heads/a\x7f", "refs/heads/a\nb", "refs/heads//a", "refs/heads/a@{0}",
		"refs/heads/a.", "refs/heads/a b", "refs/heads/a\x00"}
	for _, name := range names {
		git := false
		if !strings.Contains(name, "\x00") {
			git = exec.Command("git", "check-ref-format", name).Run() == nil
		}
		if want := git && strings.HasPrefix(name, "refs/") || name == "HEAD"; isRefName(name) != want {
			t.Errorf("%q is taken: %v", name, !want)
		}
	}
	r, err := readRefs(pkt.NewReader(strings.NewReader(lines(oidA+" refs/heads/a..b", oidB+" refs/heads/ok", "0000"))), "sha1", 1000)
	if err != nil || len(r.List) != 1 || r.List[0].Name != "refs/heads/ok" {
		t.Errorf("refs are %+v, %v", r, err)
	}
}

func FuzzAdvert(f *testing.F) {
	f.Add([]byte(v2Advert))
	f.Add([]byte(lines("# service=git-upload-pack", "0000", "version 2", "ls-refs=unborn", "0000")))
	f.Add([]byte(lines("# service=git-upload-pack", "0000", oidA+" HEAD\x00multi_ack", "0000")))
	f.Fuzz(func(t *testing.T, b []byte) {
		ad, err := readAdvert(pkt.NewReader(strings.NewReader(string(b))))
		if (ad == nil) == (err == nil) || ad != nil && len(ad.caps) > maxCapabilities {
			t.Fatalf("%+v, %v", ad, err)
		}
	})
}

func FuzzRefs(f *testing.F) {
	f.Add([]byte(lines("unborn HEAD symref-target:refs/heads/main", "0000")))
	f.Add([]byte(lines(oidA+" HEAD symref-target:refs/heads/main", oidA+" refs/heads/main", oidA+" refs/tags/v1 peeled:"+oidB, "0000")))
	f.Fuzz(func(t *testing.T, b []byte) {
		refs, err := readRefs(pkt.NewReader(strings.NewReader(string(b))), "sha1", 10000)
		if err != nil {
			return
		}
		for _, r := range refs.List {
			if !isRefName(r.Name) || r.Symref != "" && !isRefName(r.Symref) || r.OID != "" && !isOID(r.OID) || r.Peeled != "" && !isOID(r.Peeled) {
				t.Fatalf("%+v", r)
			}
		}
	})
}
