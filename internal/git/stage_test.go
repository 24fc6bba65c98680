package git

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/packs"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	oidA = pkt.OID("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	oidB = pkt.OID("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	oidC = pkt.OID("cccccccccccccccccccccccccccccccccccccccc")
)

// stage is a service whose parts below are played by functions.
type stage struct {
	t   testing.TB
	s   *Service
	url string
	log syncBuffer

	*upstream.Client // for Resolve
	authorize        func(ctx context.Context, repo upstream.Repo, authorization string) error
	forwards         func(w http.ResponseWriter, r *http.Request, repo upstream.Repo, rest string) error
	view             func() (*mirror.View, error)
	leased           func(ctx context.Context) error
	ensure           func(oids []pkt.OID) ([]pkt.OID, error)
	pack             func(ctx context.Context, q *pkt.Request, out packs.Out) (packs.Result, error)

	told chan struct{} // closed when a client has read that it waits

	mu struct {
		sync.Mutex
		asked, released int
	}
}

func newStage(t testing.TB, change func(*Options)) *stage {
	t.Helper()
	r := &stage{t: t, told: make(chan struct{})}
	k, err := levee.New(levee.Options{MemoryLimit: 1 << 30, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Kernel: k, Hosts: []upstream.Host{{URL: "https://git.example"}, {URL: "https://github.com"}}, Dir: t.TempDir(),
		Log: accesslog.New(accesslog.Options{Logger: slog.New(slog.NewTextHandler(&r.log, nil)), SampleOK: 1, MaxPerSecond: 1000}),
	}
	if change != nil {
		change(&o)
	}
	if r.s, err = New(o); err != nil {
		t.Fatal(err)
	}
	if r.Client, err = upstream.New(r.s.upstreamOptions()); err != nil {
		t.Fatal(err)
	}
	r.s.upstream, r.s.mirrors, r.s.packs = r, r, r
	server := httptest.NewServer(r.s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	r.url = server.URL
	return r
}

func (r *stage) Authorize(ctx context.Context, repo upstream.Repo, _ upstream.Credentials) error {
	if r.authorize == nil {
		return nil
	}
	return r.authorize(ctx, repo, "")
}

func (r *stage) Forward(w http.ResponseWriter, req *http.Request, repo upstream.Repo, rest string) error {
	return r.forwards(w, req, repo, rest)
}

func (r *stage) Refs(context.Context, upstream.Repo, upstream.Credentials) (*mirror.View, error) {
	r.mu.Lock()
	r.mu.asked++
	r.mu.Unlock()
	if r.view == nil {
		return twoRefs(), nil
	}
	return r.view()
}

func (r *stage) Lease(ctx context.Context, _ upstream.Repo, _ upstream.Credentials, _ *mirror.View, _ func(string)) (lease, error) {
	if r.leased != nil {
		if err := r.leased(ctx); err != nil {
			return nil, err
		}
	}
	return fakeLease{r}, nil
}

func (r *stage) Serve(ctx context.Context, j packs.Job, out packs.Out) (packs.Result, error) {
	return r.pack(ctx, j.Request, out)
}

type fakeLease struct{ r *stage }

func (l fakeLease) Ensure(_ context.Context, _ upstream.Credentials, oids []pkt.OID) ([]pkt.OID, error) {
	if l.r.ensure == nil {
		return nil, nil
	}
	return l.r.ensure(oids)
}

func (l fakeLease) Release() {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.r.mu.released++
}

func twoRefs() *mirror.View {
	return &mirror.View{Refs: &upstream.Refs{ObjectFormat: "sha1", List: []upstream.Ref{
		{Name: "HEAD", OID: string(oidA), Symref: "refs/heads/main"},
		{Name: "refs/heads/main", OID: string(oidA)},
		{Name: "refs/pull/1/head", OID: string(oidC)},
		{Name: "refs/tags/v1", OID: string(oidB), Peeled: string(oidA)},
	}}}
}

// do sends a request of protocol v2, as git does.
func (r *stage) do(method, path string, body io.Reader, headers ...string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Git-Protocol", "version=2")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", uploadPackRequest)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v after %q", err, b)
	}
	return string(b)
}

// lines makes a body of pkt-lines; "" is a delimiter packet, and a flush packet ends it.
func lines(texts ...string) string {
	var b bytes.Buffer
	w := pkt.NewWriter(&b)
	for _, l := range texts {
		if l == "" {
			w.Delim()
			continue
		}
		w.Line(l)
	}
	w.Flush()
	return b.String()
}

func fetchBody(wants ...pkt.OID) string {
	l := []string{"command=fetch", "agent=git/2.39", "object-format=sha1", "", "thin-pack", "ofs-delta"}
	for _, w := range wants {
		l = append(l, "want "+string(w))
	}
	return lines(append(l, "done")...)
}

const repoPath = "/git/git.example/org/repo"

func (r *stage) fetch(wants ...pkt.OID) *http.Response {
	r.t.Helper()
	return r.do(http.MethodPost, repoPath+"/git-upload-pack", strings.NewReader(fetchBody(wants...)))
}

func (r *stage) inUse() (n int64) {
	for _, g := range r.s.kernel.Status().Gates {
		n += g.InUse
	}
	return n
}

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("not within 10 s: " + what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
