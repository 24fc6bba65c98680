package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// indexed gives a pack to git index-pack in repo.
func indexed(t *testing.T, repo string, pack []byte, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", repo, "index-pack", "--stdin", "--fix-thin"}, args...)...)
	cmd.Stdin = bytes.NewReader(pack)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("index-pack: %v\n%s", err, out)
	}
}

func TestAPackIsFetchedWholeThenWhatIsNew(t *testing.T) {
	u := newGitUpstream(t)
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			_, work := u.newRepo(t, "r-"+format, format, 3)
			c, repo := newClient(t, Options{}, u.URL), repoAt(u.Server, "r-"+format)
			mirror := filepath.Join(t.TempDir(), "m")
			git(t, "/", "init", "-q", "--bare", "--object-format="+format, mirror)

			head := strings.TrimSpace(git(t, work, "rev-parse", "HEAD"))
			var pack bytes.Buffer
			var told []string
			err := c.Fetch(t.Context(), repo, Credentials{}, Fetch{Wants: []string{head}, Pack: &pack, Progress: func(l string) { told = append(told, l) }})
			if err != nil {
				t.Fatal(err)
			}
			indexed(t, mirror, pack.Bytes())
			git(t, mirror, "update-ref", "refs/heads/main", head)
			git(t, mirror, "fsck", "--full", "--strict")
			if len(told) == 0 || !strings.Contains(strings.Join(told, "|"), "Enumerating objects") {
				t.Errorf("progress is %q", told)
			}

			next := u.commit(t, work)
			git(t, work, "push", "-q", "origin", "main")
			whole := pack.Len()
			pack.Reset()
			if err := c.Fetch(t.Context(), repo, Credentials{}, Fetch{Wants: []string{next}, Haves: []string{head}, Pack: &pack}); err != nil {
				t.Fatal(err)
			}
			if pack.Len() >= whole {
				t.Errorf("what is new is %d bytes, all is %d", pack.Len(), whole)
			}
			indexed(t, mirror, pack.Bytes())
			git(t, mirror, "update-ref", "refs/heads/main", next)
			git(t, mirror, "fsck", "--full", "--strict")
			if hs := c.Stats().Hosts[0]; hs.Requests != 3 || hs.Fetches != 0 {
				t.Errorf("two fetches were %d requests, %d slots are held", hs.Requests, hs.Fetches)
			}
		})
	}
}

func TestDepthAndFilterAreAskedFor(t *testing.T) {
	u := newGitUpstream(t)
	_, work := u.newRepo(t, "r", "sha1", 3)
	c, repo := newClient(t, Options{}, u.URL), repoAt(u.Server, "r")
	mirror := filepath.Join(t.TempDir(), "m")
	git(t, "/", "init", "-q", "--bare", mirror)
	head := strings.TrimSpace(git(t, work, "rev-parse", "HEAD"))
	var pack bytes.Buffer
	if err := c.Fetch(t.Context(), repo, Credentials{}, Fetch{Wants: []string{head}, Depth: 1, Filter: "tree:0", Pack: &pack}); err != nil {
		t.Fatal(err)
	}
	indexed(t, mirror, pack.Bytes())
	if out := git(t, mirror, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"); out != head+" commit\n" {
		t.Errorf("the pack has\n%s", out)
	}
}

func TestAnObjectThatUpstreamDoesNotHaveIsNamed(t *testing.T) {
	u := newGitUpstream(t)
	u.newRepo(t, "r", "sha1", 1)
	c := newClient(t, Options{}, u.URL)
	err := c.Fetch(t.Context(), repoAt(u.Server, "r"), Credentials{}, Fetch{Wants: []string{oidA}, Pack: io.Discard})
	if f := wantKind(t, err, NotOurRef); f.OID != oidA {
		t.Errorf("it names %q: %v", f.OID, f)
	}
}

func TestNotOurRefIsRecognisedAsHostsSayIt(t *testing.T) {
	for message, want := range map[string]string{
		"upload-pack: not our ref " + oidA: oidA, "upload-pack: not our ref " + oidA + " unavailable": oidA, "not our ref": "", "want " + oidB + " not valid": oidB,
		"remote: want " + oidB + " not valid": oidB, "access denied": "-", "we do not want our refs": "-", "want not": "-", "not our": "-",
	} {
		oid, ok := notOurRef(message)
		if !ok {
			oid = "-"
		}
		if oid != want {
			t.Errorf("%q names %q, want %q", message, oid, want)
		}
	}
}

func band(n byte, s string) string { return string(n) + s }

func TestEachWayThatAFetchFailsHasItsKind(t *testing.T) {
	whole := lines("packfile", band(2, "counting"), band(1, "PACKdata"), "0000")
	for name, tt := range map[string]struct {
		body string
		want Kind
	}{
		"nothing": {"", Truncated}, "no pack": {lines("acknowledgments", "NAK", "0000"), Malformed}, "cut in a packet": {whole[:len(whole)-10], Truncated},
		"no flush": {lines("packfile", band(1, "PACKdata")), Truncated}, "band 3": {lines("packfile", band(1, "PACK"), band(3, "out of memory")), Unavailable},
		"ERR": {lines("ERR internal error"), Unavailable}, "not our ref": {lines("ERR upload-pack: not our ref " + oidA), NotOurRef},
		"not our ref on band 3": {lines("packfile", band(3, "want "+oidA+" not valid")), NotOurRef},
		"another band":          {lines("packfile", band(7, "x")), Malformed}, "an empty pack": {lines("packfile", "0000"), Malformed}, "no packet": {"<htm", Malformed},
		"a shallow repository":    {lines("shallow-info", "shallow "+oidB, "0001", "packfile", band(1, "PACK"), "0000"), Unsupported},
		"a delimiter in the pack": {lines("packfile", band(1, "PACK"), "0001"), Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stub{post: func(r *http.Request) *http.Response { return result(r, tt.body) }}
			c := newClient(t, Options{Transport: s}, "http://h")
			wantKind(t, c.Fetch(t.Context(), repoH, Credentials{}, Fetch{Wants: []string{oidA}, Pack: io.Discard}), tt.want)
			if hs := c.Stats().Hosts[0]; hs.Fetches != 0 || c.Stats().Failures[tt.want] != 1 {
				t.Errorf("%d slots are held, counted %v", hs.Fetches, c.Stats().Failures)
			}
		})
	}
}

func TestWhatComesBeforeThePackIsLeftOut(t *testing.T) {
	body := lines("shallow-info", "shallow "+oidA, "0001", "packfile", band(1, "PACK")[:2], band(1, "ACK"), "0000")
	s := &stub{post: func(r *http.Request) *http.Response { return result(r, body) }}
	c := newClient(t, Options{Transport: s}, "http://h")
	var pack strings.Builder
	// lines ends each packet with a line feed, which is the pack's here.
	if err := c.Fetch(t.Context(), repoH, Credentials{}, Fetch{Wants: []string{oidA}, Depth: 1, Pack: &pack}); err != nil || pack.String() != "P\nACK\n" {
		t.Errorf("the pack is %q, %v", pack.String(), err)
	}
}

func TestWhatUpstreamDoesNotKnowIsUnsupported(t *testing.T) {
	s := &stub{get: func(r *http.Request) *http.Response {
		return reply(r, 200, lines("version 2", "ls-refs", "fetch", "0000"), "Content-Type", advertType)
	}}
	c := newClient(t, Options{Transport: s}, "http://h")
	for _, f := range []Fetch{{Filter: "blob:none"}, {Depth: 1}} {
		wantKind(t, c.Fetch(t.Context(), repoH, Credentials{}, f), Unsupported)
	}
}

func TestWhatIsNoObjectIsNotSent(t *testing.T) {
	s := &stub{}
	c := newClient(t, Options{Transport: s}, "http://h")
	for _, oid := range []string{"", "HEAD", oidA[1:], strings.ToUpper(oidA), oidA + "\n0000"} {
		if err := c.Fetch(t.Context(), repoH, Credentials{}, Fetch{Wants: []string{oid}}); err == nil || s.count() > 1 {
			t.Errorf("%q is sent: %v", oid, err)
		}
	}
}

func TestABodyOfManyObjectsIsMadeWhileItIsSent(t *testing.T) {
	oids := make([]string, 5000)
	for i := range oids {
		oids[i] = fmt.Sprintf("%040x", i)
	}
	b := newBody([]byte("head")).objects("want ", oids[:1]).objects("have ", oids).objects("have ", nil).bytes([]byte("tail"))
	want := "head" + lines("want "+oids[0])
	for _, oid := range oids {
		want += lines("have " + oid)
	}
	want += "tail"
	for range 2 { // a retry sends it again
		got, err := io.ReadAll(b.reader())
		if err != nil || string(got) != want || b.length != int64(len(want)) {
			t.Errorf("the body is %d bytes, said to be %d, want %d, %v", len(got), b.length, len(want), err)
		}
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

func TestAnErrorOfTheWriterIsNoFailureOfUpstream(t *testing.T) {
	s := &stub{post: func(r *http.Request) *http.Response { return result(r, lines("packfile", band(1, "PACK"), "0000")) }}
	c := newClient(t, Options{Transport: s}, "http://h")
	full := errors.New("disk full")
	if err := c.Fetch(t.Context(), repoH, Credentials{}, Fetch{Wants: []string{oidA}, Pack: failingWriter{full}}); err != full {
		t.Errorf("the error is %v", err)
	}
	if n := c.Stats().Failures[Truncated]; n != 0 {
		t.Error("it counts")
	}
}

// piped is an answer whose body the test writes.
func piped(r *http.Request) (*http.Response, *io.PipeWriter) {
	pr, pw := io.Pipe()
	resp := reply(r, 200, "", "Content-Type", resultType)
	resp.Body, resp.ContentLength = pr, -1
	context.AfterFunc(r.Context(), func() { pw.CloseWithError(r.Context().Err()) })
	return resp, pw
}

// slowWriter takes its time for each packet.
type slowWriter struct{ d time.Duration }

func (s slowWriter) Write(p []byte) (int, error) { time.Sleep(s.d); return len(p), nil }

func TestOnlyAnUpstreamThatIsWaitedForStalls(t *testing.T) {
	for name, tt := range map[string]struct {
		pauses []time.Duration // of upstream, before each packet
		writer slowWriter
		stalls bool
	}{
		"a slow upstream": {[]time.Duration{50 * time.Second, 50 * time.Second, 50 * time.Second}, slowWriter{}, false},
		"a dead upstream": {[]time.Duration{time.Second, 90 * time.Second}, slowWriter{}, true},
		"a slow disk":     {[]time.Duration{time.Second, time.Second}, slowWriter{5 * time.Minute}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var wg sync.WaitGroup
				s := &stub{post: func(r *http.Request) *http.Response {
					resp, pw := piped(r)
					wg.Go(func() {
						_, _ = io.WriteString(pw, lines("packfile"))
						for _, d := range tt.pauses {
							time.Sleep(d)
							if _, err := io.WriteString(pw, lines(band(1, "PACK"))); err != nil {
								return
							}
						}
						_, _ = io.WriteString(pw, "0000")
						_ = pw.Close()
					})
					return resp
				}}
				c := newClient(t, Options{Transport: s}, "http://h")
				err := c.Fetch(t.Context(), repoH, Credentials{}, Fetch{Wants: []string{oidA}, Pack: tt.writer})
				if tt.stalls != isKind(err, Stalled) || !tt.stalls && err != nil {
					t.Errorf("the error is %v", err)
				}
				wg.Wait()
			})
		})
	}
}

func TestACallerThatLeavesEndsItsFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{post: func(r *http.Request) *http.Response {
			resp, _ := piped(r)
			return resp
		}}
		c := newClient(t, Options{Transport: s}, "http://h")
		left := errors.New("left")
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(left) })
		if err := c.Fetch(ctx, repoH, Credentials{}, Fetch{Wants: []string{oidA}, Pack: io.Discard}); err != left {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestAConnectionThatIsCutIsTruncated(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", advertType)
			_, _ = io.WriteString(w, v2Advert)
			return
		}
		w.Header().Set("Content-Type", resultType)
		_, _ = io.WriteString(w, lines("packfile", band(1, strings.Repeat("x", 1000))))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	c := newClient(t, Options{}, s.URL)
	var pack bytes.Buffer
	wantKind(t, c.Fetch(t.Context(), repoAt(s, "r"), Credentials{}, Fetch{Wants: []string{oidA}, Pack: &pack}), Truncated)
	if pack.Len() == 0 {
		t.Error("what came was not written")
	}
}

func TestAnUpstreamThatIsNotThereIsUnavailable(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	c, repo := newClient(t, Options{}, s.URL), repoAt(s, "r")
	s.Close()
	if f := wantKind(t, c.Authorize(t.Context(), repo, Credentials{}), Unavailable); !f.Outage() {
		t.Error("it is no outage")
	}
}
