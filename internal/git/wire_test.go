package git

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
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

func TestTheWriteDeadlineBeginsWithTheAnswerAndMovesWithIt(t *testing.T) {
	const deadline = 100 * time.Millisecond
	r := newStage(t, func(o *Options) { o.Stall = deadline })
	r.pack = func(_ context.Context, _ *pkt.Request, out packs.Out) (packs.Result, error) {
		for range 3 { // longer than the deadline before the answer, and between its parts
			<-time.After(2 * deadline)
			if _, err := io.WriteString(out, strings.Repeat("x", 5000)); err != nil {
				return packs.Result{Began: true}, err
			}
		}
		return packs.Result{Outcome: packs.Generated, Began: true}, nil
	}
	server := httptest.NewUnstartedServer(r.s)
	server.Config.WriteTimeout = deadline // as the server that this is mounted in has one
	server.Start()
	t.Cleanup(server.Close)
	r.url = server.URL
	if got := text(t, r.fetch(oidA)); len(got) != 15000 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestAClientThatReadsNothingIsCut(t *testing.T) {
	r := newStage(t, func(o *Options) { o.Stall = 100 * time.Millisecond })
	ended := make(chan error, 1)
	r.pack = func(_ context.Context, _ *pkt.Request, out packs.Out) (packs.Result, error) {
		block := bytes.Repeat([]byte("x"), 1<<20)
		for {
			if _, err := out.Write(block); err != nil {
				ended <- err
				return packs.Result{Outcome: packs.Canceled, Began: true}, err
			}
		}
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := fetchBody(oidA)
	_, _ = io.WriteString(c, "POST "+repoPath+"/git-upload-pack HTTP/1.1\r\nHost: x\r\nGit-Protocol: version=2\r\nContent-Type: "+uploadPackRequest+
		"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ended by %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the client still holds its request")
	}
	eventually(t, "all is given back", func() bool { return r.inUse() == 0 })
}

func TestABodyThatStallsIsCut(t *testing.T) {
	r := newStage(t, func(o *Options) { o.Stall = 50 * time.Millisecond })
	pr, pw := io.Pipe()
	defer pw.Close()
	go func() { _, _ = io.WriteString(pw, "0014") }()
	req, _ := http.NewRequest(http.MethodPost, r.url+repoPath+"/git-upload-pack", pr)
	req.Header.Set("Git-Protocol", "version=2")
	req.Header.Set("Content-Type", uploadPackRequest)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := text(t, resp); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%s %s", resp.Status, got)
	}
	eventually(t, "all is given back", func() bool { return r.inUse() == 0 })
}

// A body of megabytes is on its way while the answer is no: the client must be able to read it.
func TestAnAnswerBeforeTheBodyWasReadReachesTheClient(t *testing.T) {
	r := newStage(t, nil)
	r.authorize = func(context.Context, upstream.Repo, string) error {
		return &upstream.Failure{Kind: upstream.Unauthorized, Status: 401, Err: errors.New("401")}
	}
	for _, chunked := range []bool{false, true} {
		var body io.Reader = strings.NewReader(strings.Repeat("x", 5<<20))
		if chunked {
			body = io.MultiReader(body)
		}
		if resp := r.do(http.MethodPost, repoPath+"/git-upload-pack", body); resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("chunked %v: %s", chunked, resp.Status)
		}
	}
}

func TestAFullDoorKeepsWaitersForAWhileAndThenShedsThem(t *testing.T) {
	r := newStage(t, func(o *Options) { o.SilentWait = 50 * time.Millisecond })
	p, err := r.s.gates.requests.Admit(t.Context(), "somebody else", r.s.gates.requests.Stats().Limit*7/8)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	q, err := r.s.gates.requests.Admit(t.Context(), "another", r.s.gates.requests.Stats().Limit/8)
	if err != nil {
		t.Fatal(err)
	}
	resp := r.do(http.MethodGet, repoPath+"/info/refs?service=git-upload-pack", nil)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	q.Release()
	if resp := r.do(http.MethodGet, repoPath+"/info/refs?service=git-upload-pack", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("with room: %s", resp.Status)
	}
}

func TestASideBandlessClientLearnsOfAFailureByTheCut(t *testing.T) {
	r := newStage(t, nil)
	r.pack = func(_ context.Context, _ *pkt.Request, out packs.Out) (packs.Result, error) {
		_, err := io.WriteString(out, "0008NAK\nPACK")
		return packs.Result{Outcome: packs.Failed, Began: true}, errors.Join(err, out.Flush(), &gate.Shed{Reason: gate.Timeout})
	}
	var b bytes.Buffer
	w := pkt.NewWriter(&b)
	w.Line("want ", string(oidA), " ofs-delta")
	w.Flush()
	w.Line("done")
	resp := r.do(http.MethodPost, repoPath+"/git-upload-pack", &b, "Git-Protocol", "")
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the answer looks whole: %q", got)
	}
}

// Such as that there are too many refs: the question was read by then.
func TestAQuestionForRefsThatOnlyUpstreamCanAnswerIsPassedOnWhole(t *testing.T) {
	r := newStage(t, nil)
	r.view = func() (*mirror.View, error) {
		return nil, &upstream.Failure{Kind: upstream.Unsupported, Err: errors.New("too many refs")}
	}
	var seen string
	r.forwards = func(w http.ResponseWriter, req *http.Request, _ upstream.Repo, rest string) error {
		body, err := io.ReadAll(req.Body)
		seen = rest + " " + req.Header.Get("Content-Encoding") + " " + string(body)
		w.WriteHeader(http.StatusOK)
		return err
	}
	body := lines("command=ls-refs", "", "peel")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, body)
	_ = z.Close()
	resp := r.do(http.MethodPost, repoPath+"/git-upload-pack", &zipped, "Content-Encoding", "gzip")
	if want := "git-upload-pack  " + body; resp.StatusCode != http.StatusOK || seen != want {
		t.Errorf("%s; upstream saw %q, want %q", resp.Status, seen, want)
	}
}

func FuzzNoBodyIsTheServersFault(f *testing.F) {
	f.Add(byte(2), false, []byte(lines("command=ls-refs", "", "peel")))
	f.Add(byte(2), true, []byte("\x1f\x8b\x08\x00"))
	f.Add(byte(0), false, []byte("0000"))
	f.Add(byte(2), false, []byte(fetchBody(oidA)))
	r := newStage(f, nil)
	r.pack = func(context.Context, *pkt.Request, packs.Out) (packs.Result, error) { return packs.Result{}, nil }
	f.Fuzz(func(t *testing.T, version byte, gzipped bool, body []byte) {
		for _, path := range []string{"/git-upload-pack", "/ensure-refs"} {
			req := httptest.NewRequest(http.MethodPost, repoPath+path, bytes.NewReader(body))
			req.Header.Set("Content-Type", uploadPackRequest)
			if gzipped {
				req.Header.Set("Content-Encoding", "gzip")
			}
			req.Header.Set("Git-Protocol", "version="+strconv.Itoa(int(version%3)))
			w := httptest.NewRecorder()
			r.s.ServeHTTP(w, req)
			if w.Code >= 500 {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		if n := r.inUse(); n != 0 {
			t.Errorf("%d in use", n)
		}
	})
}
