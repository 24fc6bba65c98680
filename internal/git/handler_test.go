package git

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/packs"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

func TestTheCapabilitiesOfV2AreAnsweredWithoutAskingForRefsTwice(t *testing.T) {
	r := newStage(t, nil)
	want := lines("version 2", "agent=levee", "ls-refs=unborn", "fetch=shallow wait-for-done filter", "server-option", "object-format=sha1")
	for range 3 {
		resp := r.do(http.MethodGet, repoPath+"/info/refs?service=git-upload-pack", nil)
		if got := text(t, resp); resp.StatusCode != http.StatusOK || got != want || resp.Header.Get("Content-Type") != uploadPackAdvertisement {
			t.Fatalf("%s %q", resp.Status, got)
		}
	}
	if r.mu.asked != 1 {
		t.Errorf("refs were asked %d times, and once is enough to know the object format", r.mu.asked)
	}
}

func TestV0AndV1AdvertiseTheRefs(t *testing.T) {
	r := newStage(t, func(o *Options) { o.HideRefs = []string{"refs/pull"} })
	refs := lines(string(oidA)+" HEAD\x00"+capabilitiesV0+" symref=HEAD:refs/heads/main filter object-format=sha1 agent=levee",
		string(oidA)+" refs/heads/main", string(oidB)+" refs/tags/v1", string(oidA)+" refs/tags/v1^{}")
	for version, want := range map[string]string{
		"":          lines("# service=git-upload-pack") + refs,
		"version=1": lines("# service=git-upload-pack") + lines("version 1")[:14] + refs,
	} {
		resp := r.do(http.MethodGet, repoPath+"/info/refs?service=git-upload-pack", nil, "Git-Protocol", version)
		if got := text(t, resp); got != want {
			t.Errorf("%q:\n%q\nwant\n%q", version, got, want)
		}
	}
}

// A capability that is there twice has a git before 2.41 read it again and again, and take memory each time.
func TestV0TellsOfOneSymbolicRefAlone(t *testing.T) {
	r := newStage(t, nil)
	r.view = func() (*mirror.View, error) {
		return &mirror.View{Refs: &upstream.Refs{ObjectFormat: "sha1", List: []upstream.Ref{
			{Name: "HEAD", OID: string(oidA), Symref: "refs/heads/main"},
			{Name: "refs/heads/main", OID: string(oidA)},
			{Name: "refs/namespaces/ns/HEAD", OID: string(oidA), Symref: "refs/namespaces/ns/refs/heads/main"},
			{Name: "refs/remotes/origin/HEAD", OID: string(oidA), Symref: "refs/remotes/origin/main"},
		}}}, nil
	}
	for _, version := range []string{"", "version=1"} {
		got := text(t, r.do(http.MethodGet, repoPath+"/info/refs?service=git-upload-pack", nil, "Git-Protocol", version))
		if strings.Count(got, " symref=") != 1 || !strings.Contains(got, " symref=HEAD:refs/heads/main ") || !strings.Contains(got, " refs/remotes/origin/HEAD\n") {
			t.Errorf("%q: %q", version, got)
		}
	}
}

func TestAnEmptyRepositoryAdvertisesItsCapabilities(t *testing.T) {
	r := newStage(t, nil)
	r.view = func() (*mirror.View, error) {
		return &mirror.View{Refs: &upstream.Refs{ObjectFormat: "sha1", List: []upstream.Ref{{Name: "HEAD", Symref: "refs/heads/trunk"}}}}, nil
	}
	got := text(t, r.do(http.MethodGet, repoPath+"/info/refs?service=git-upload-pack", nil, "Git-Protocol", ""))
	if !strings.Contains(got, strings.Repeat("0", 40)+" capabilities^{}\x00multi_ack") {
		t.Errorf("got %q", got)
	}
	body := lines("command=ls-refs", "", "peel", "symrefs", "unborn")
	if got, want := text(t, r.do(http.MethodPost, repoPath+"/git-upload-pack", strings.NewReader(body))),
		lines("unborn HEAD symref-target:refs/heads/trunk"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := text(t, r.do(http.MethodPost, repoPath+"/git-upload-pack", strings.NewReader(lines("command=ls-refs", "", "symrefs")))); got != "0000" {
		t.Errorf("without unborn: %q", got)
	}
}

func TestLsRefsShowsWhatIsAskedFor(t *testing.T) {
	r := newStage(t, func(o *Options) { o.HideRefs = []string{"refs/pull"} })
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"peel", "symrefs"}, lines(string(oidA)+" HEAD symref-target:refs/heads/main", string(oidA)+" refs/heads/main", string(oidB)+" refs/tags/v1 peeled:"+string(oidA))},
		{nil, lines(string(oidA)+" HEAD", string(oidA)+" refs/heads/main", string(oidB)+" refs/tags/v1")},
		{[]string{"ref-prefix refs/tags/", "ref-prefix HEAD"}, lines(string(oidA)+" HEAD", string(oidB)+" refs/tags/v1")},
		{[]string{"ref-prefix refs/pull/"}, "0000"},
	} {
		body := lines(append([]string{"command=ls-refs", "agent=git/2.39", "object-format=sha1", ""}, test.args...)...)
		resp := r.do(http.MethodPost, repoPath+"/git-upload-pack", strings.NewReader(body))
		if got := text(t, resp); got != test.want || resp.Header.Get("Content-Type") != uploadPackResult {
			t.Errorf("%v: %q, want %q", test.args, got, test.want)
		}
	}
}

func TestHiddenRefsFollowGitsRules(t *testing.T) {
	h := newHidden([]string{"refs/pull", "!refs/pull/7", "refs/internal/"})
	for ref, want := range map[string]bool{
		"refs/pull/1/head": true, "refs/pull": true, "refs/pullet": false, "refs/pull/7/head": false, "refs/pull/70/head": true,
		"refs/internal/x": true, "refs/heads/main": false, "HEAD": false, "refs/levee/wants/x": true,
	} {
		if h.hides(ref) != want {
			t.Errorf("hides(%s) = %v", ref, !want)
		}
	}
}

func TestPushesAreDeniedWithTheRemedyOrForwarded(t *testing.T) {
	r := newStage(t, nil)
	for _, resp := range []*http.Response{
		r.do(http.MethodGet, repoPath+"/info/refs?service=git-receive-pack", nil),
		r.do(http.MethodPost, repoPath+"/git-receive-pack", strings.NewReader("0000"), "Content-Type", "application/x-git-receive-pack-request"),
	} {
		if got := text(t, resp); resp.StatusCode != http.StatusForbidden || !strings.Contains(got, `url."https://git.example/".pushInsteadOf https://git.example/`) {
			t.Errorf("%s %s", resp.Status, got)
		}
	}
	if resp := r.do(http.MethodGet, repoPath+"/info/refs", nil); resp.StatusCode != http.StatusForbidden {
		t.Errorf("the dumb protocol: %s", resp.Status)
	}

	r = newStage(t, func(o *Options) { o.Push = ForwardPush })
	r.forwards = func(w http.ResponseWriter, req *http.Request, repo upstream.Repo, rest string) error {
		body, _ := io.ReadAll(req.Body)
		w.WriteHeader(http.StatusCreated)
		_, err := fmt.Fprintf(w, "%s %s %s", repo, rest, body)
		return err
	}
	resp := r.do(http.MethodPost, repoPath+"/git-receive-pack", strings.NewReader("a pack"), "Content-Type", "application/x-git-receive-pack-request")
	if got := text(t, resp); resp.StatusCode != http.StatusCreated || got != "git.example/org/repo git-receive-pack a pack" {
		t.Errorf("%s %s", resp.Status, got)
	}
	if a := r.s.Status().Answers; len(a) != 1 || a[0] != (Answer{"receive-pack", 201, "upstream", 1}) {
		t.Errorf("answers %+v", a)
	}
	if resp := r.do(http.MethodGet, repoPath+"/info/refs", nil); resp.StatusCode != http.StatusForbidden {
		t.Errorf("the dumb protocol, where pushes are forwarded: %s", resp.Status)
	}
}

func TestPathsThatAreNoneAreAnsweredByTheirKind(t *testing.T) {
	r := newStage(t, nil)
	for path, want := range map[string]int{
		"/git/other.example/org/repo/info/refs?service=git-upload-pack":     http.StatusForbidden,
		"/git/git.example/org/..%2fpriv/info/refs?service=git-upload-pack":  http.StatusBadRequest,
		"/git/git.example/org/%2e%2e/priv/info/refs":                        http.StatusBadRequest,
		"/git/git.example/org/repo":                                         http.StatusNotFound,
		"/git/git.example//priv/info/refs?service=git-upload-pack":          http.StatusBadRequest,
		"/git/git.example/org/repo/info/refs?service=git-upload-archive":    http.StatusForbidden,
		"/git/git.example/org/repo/git-upload-pack":                         http.StatusMethodNotAllowed,
		"/git/git.example/org/repo/info/refs?service=git-upload-pack&x=..;": http.StatusOK,
	} {
		if resp := r.do(http.MethodGet, path, nil); resp.StatusCode != want {
			t.Errorf("%s: %s %s", path, resp.Status, text(t, resp))
		}
	}
}

// CASES.md G3.
func TestGzippedBodiesAreUndoneBoundedAndCheckedForBeingWhole(t *testing.T) {
	r := newStage(t, func(o *Options) { o.MaxBody = 256 * kib })
	zip := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		return b.String()
	}
	args := []string{"command=ls-refs", ""}
	for i := range 40 {
		args = append(args, fmt.Sprintf("ref-prefix refs/tags/t%d", i))
	}
	long := append(args, "ref-prefix refs/tags/v1")
	for range 3000 {
		long = append(long, "ref-prefix refs/tags/none")
	}
	whole := zip(lines(args...))
	for _, test := range []struct {
		name, body, encoding string
		want                 int
	}{
		{"gzip", zip(lines(args...)), "gzip", 200},
		{"long gzip", zip(lines(long...)), "gzip", 200},
		{"long plain", lines(long...), "", 200},
		{"bomb", zip(strings.Repeat("0", 64*mib)), "gzip", 413},
		{"too long", strings.Repeat("0", 300*kib), "", 413},
		{"cut", whole[:len(whole)-9], "gzip", 400},
		{"no gzip", lines(args...), "gzip", 400},
		{"garbage behind", whole + "garbage", "gzip", 400},
		{"brotli", whole, "br", 415},
		{"no pkt-lines", "zzzz", "", 400},
	} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = strings.NewReader(test.body)
			if chunked {
				body = io.MultiReader(body) // of unknown length
			}
			resp := r.do(http.MethodPost, repoPath+"/git-upload-pack", body, "Content-Encoding", test.encoding)
			if got := text(t, resp); resp.StatusCode != test.want {
				t.Errorf("%s, chunked %v: %s %.200s", test.name, chunked, resp.Status, got)
			}
		}
	}
	eventually(t, "all permits are given back", func() bool { return r.inUse() == 0 })
}

func TestTheProbeAndWhatIsNotSupportedHaveTheirAnswers(t *testing.T) {
	r := newStage(t, nil)
	if resp := r.do(http.MethodPost, repoPath+"/git-upload-pack", strings.NewReader("0000")); resp.StatusCode != http.StatusOK || text(t, resp) != "" {
		t.Errorf("probe: %s", resp.Status)
	}
	resp := r.do(http.MethodPost, repoPath+"/git-upload-pack", strings.NewReader(lines("command=object-info", "", "size", "oid "+string(oidA))))
	if got := text(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(got, "ERR the command object-info is not supported here") {
		t.Errorf("object-info: %s %q", resp.Status, got)
	}
	if resp := r.do(http.MethodPost, repoPath+"/git-upload-pack", strings.NewReader("0000"), "Content-Type", "text/plain"); resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("text/plain: %s", resp.Status)
	}
}

func TestAFetchGoesThroughLeaseAndMissingWants(t *testing.T) {
	r := newStage(t, nil)
	r.ensure = func(oids []pkt.OID) (missing []pkt.OID, err error) {
		for _, oid := range oids {
			if oid == oidC {
				missing = append(missing, oid)
			}
		}
		return missing, nil
	}
	r.pack = func(_ context.Context, q *pkt.Request, out packs.Out) (packs.Result, error) {
		out.Progress()
		_, err := io.WriteString(out, "a pack for "+string(q.Wants[0]))
		return packs.Result{Outcome: "generated", Began: true}, errors.Join(err, out.Flush())
	}
	if got := text(t, r.fetch(oidA)); got != "a pack for "+string(oidA) {
		t.Errorf("got %q", got)
	}
	if got := text(t, r.fetch(oidC)); got != lines("ERR upload-pack: not our ref "+string(oidC)) {
		t.Errorf("got %q", got)
	}
	st := r.s.Status()
	if st.ClonesServed != 1 || st.ClonesAttempted != 1 || st.Results[admitted] != 1 || len(st.Busiest) != 1 || st.Busiest[0].Name != "git.example/org/repo" {
		t.Errorf("status %+v", st)
	}
	if r.mu.released != 2 || r.mu.asked != 1 {
		t.Errorf("%d leases released, refs asked %d times", r.mu.released, r.mu.asked)
	}
	if !strings.Contains(r.log.String(), "repository=git.example/org/repo outcome=generated user_agent=Go-http-client") {
		t.Errorf("log: %s", &r.log)
	}
}

func TestASwampedServerShedsWithAStatusOrAMessage(t *testing.T) {
	shed := &gate.Shed{Gate: "git_packs", Reason: gate.Timeout, RetryAfter: 3 * time.Second}
	for _, as := range []ShedAs{ShedHTTP, ShedErr} {
		r := newStage(t, func(o *Options) { o.ShedAs = as })
		r.pack = func(context.Context, *pkt.Request, packs.Out) (packs.Result, error) {
			return packs.Result{Outcome: "shed"}, shed
		}
		resp := r.fetch(oidA)
		got := text(t, resp)
		switch as {
		case ShedHTTP:
			if n, _ := strconv.Atoi(resp.Header.Get("Retry-After")); resp.StatusCode != http.StatusTooManyRequests || n < 3 || !strings.Contains(got, "git.total") {
				t.Errorf("%s, Retry-After %d: %s", resp.Status, n, got)
			}
		case ShedErr:
			if resp.StatusCode != http.StatusOK || !strings.Contains(got, "ERR shed by gate git_packs: timeout") {
				t.Errorf("%s: %q", resp.Status, got)
			}
		}
		if !strings.Contains(r.log.String(), "GIT FETCH SHED") || r.s.Status().Results["shed"] != 1 {
			t.Errorf("log: %s", &r.log)
		}
	}
}

func TestAPackAboveAllMemoryIsForwardedOrRefused(t *testing.T) {
	for _, what := range []TooLarge{ForwardTooLarge, RefuseTooLarge} {
		r := newStage(t, func(o *Options) { o.TooLarge = what })
		r.pack = func(context.Context, *pkt.Request, packs.Out) (packs.Result, error) {
			return packs.Result{Outcome: "shed"}, &gate.Shed{Gate: "git_packs", Reason: gate.TooLarge}
		}
		r.forwards = func(w http.ResponseWriter, req *http.Request, _ upstream.Repo, _ string) error {
			_, err := io.Copy(w, req.Body)
			return err
		}
		resp := r.fetch(oidA)
		got := text(t, resp)
		if what == ForwardTooLarge && (resp.StatusCode != http.StatusOK || got != fetchBody(oidA)) {
			t.Errorf("forward: %s %q", resp.Status, got)
		}
		if what == RefuseTooLarge && (resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(got, "too_large")) {
			t.Errorf("refuse: %s %q", resp.Status, got)
		}
	}
}

func TestAnUpstreamThatCannotBeMirroredIsForwardedEntirely(t *testing.T) {
	r := newStage(t, nil)
	r.authorize = func(context.Context, upstream.Repo, string) error {
		return &upstream.Failure{Kind: upstream.Unsupported, Err: errors.New("no v2")}
	}
	var seen []string
	r.forwards = func(w http.ResponseWriter, req *http.Request, _ upstream.Repo, rest string) error {
		body, err := io.ReadAll(req.Body)
		seen = append(seen, rest+" "+req.Header.Get("Content-Encoding")+" "+string(body))
		w.WriteHeader(http.StatusOK)
		return err
	}
	r.do(http.MethodGet, repoPath+"/info/refs?service=git-upload-pack", nil)
	r.do(http.MethodPost, repoPath+"/git-upload-pack", strings.NewReader("as it came"), "Content-Encoding", "gzip")
	r.do(http.MethodPost, repoPath+"/info/lfs/objects/batch", strings.NewReader("{}"), "Content-Type", "application/vnd.git-lfs+json")
	want := []string{"info/refs  ", "git-upload-pack gzip as it came", "info/lfs/objects/batch  {}"}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("upstream saw %q", seen)
	}
}

func TestEnsureRefsSaysWhatIsThere(t *testing.T) {
	r := newStage(t, func(o *Options) { o.HideRefs = []string{"refs/pull"} })
	r.ensure = func(oids []pkt.OID) (missing []pkt.OID, err error) {
		for _, oid := range oids {
			if oid == oidC {
				missing = append(missing, oid)
			}
		}
		return missing, nil
	}
	ask := func(body string) (int, string) {
		resp := r.do(http.MethodPost, repoPath+"/ensure-refs", strings.NewReader(body), "Content-Type", "application/json")
		return resp.StatusCode, text(t, resp)
	}
	code, got := ask(`{"refs":["refs/heads/main"],"commits":["` + strings.ToUpper(string(oidB)) + `"]}`)
	want := `{"present":{"refs":{"refs/heads/main":"` + string(oidA) + `"},"commits":["` + string(oidB) + `"]},"missing":{"refs":[],"commits":[]}}` + "\n"
	if code != http.StatusOK || got != want {
		t.Errorf("%d %s", code, got)
	}
	code, got = ask(`{"refs":["refs/heads/none","refs/pull/1/head"],"commits":["` + string(oidC) + `"]}`)
	want = `{"present":{"refs":{},"commits":[]},"missing":{"refs":["refs/heads/none","refs/pull/1/head"],"commits":["` + string(oidC) + `"]}}` + "\n"
	if code != http.StatusNotFound || got != want {
		t.Errorf("%d %s", code, got)
	}
	for _, body := range []string{``, `[]`, `{"ref":[]}`, `{"commits":["HEAD"]}`, `{} {}`, `{"commits":["` + string(oidA) + `"],"x":1}`} {
		if code, got := ask(body); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, code, got)
		}
	}
}

func TestAClientThatLeavesGivesEverythingBack(t *testing.T) {
	r := newStage(t, nil)
	began := make(chan struct{})
	r.pack = func(ctx context.Context, _ *pkt.Request, _ packs.Out) (packs.Result, error) {
		close(began)
		<-ctx.Done()
		return packs.Result{}, context.Cause(ctx)
	}
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, r.url+repoPath+"/git-upload-pack", strings.NewReader(fetchBody(oidA)))
	req.Header.Set("Git-Protocol", "version=2")
	req.Header.Set("Content-Type", uploadPackRequest)
	go func() {
		<-began
		leave()
	}()
	if _, err := http.DefaultClient.Do(req); err == nil {
		t.Error("there was an answer")
	}
	eventually(t, "the request ends", func() bool { return r.s.Status().Results[cancelled] == 1 && r.inUse() == 0 })
	eventually(t, "its lease is released", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.mu.released == 1 })
	if a := r.s.Status().Answers; len(a) != 1 || a[0].Code != statusClientGone {
		t.Errorf("answers %+v", a)
	}
}
