package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/packs"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

// coldStage has a mirror that is made for as long as it takes until the client was told of it.
func coldStage(t *testing.T) *stage {
	r := newStage(t, func(o *Options) { o.QueueNoticeAfter = 50 * time.Millisecond })
	r.leased = func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.told:
			return nil
		}
	}
	return r
}

const notice = "waiting for the first copy of git.example/org/repo from upstream\n"

func packet(band int, text string) string { return fmt.Sprintf("%04x%c%s", len(text)+5, band, text) }

// read reads as much of an answer as want has, and lets the mirror become ready then.
func (r *stage) readThenReady(resp *http.Response, want string) string {
	r.t.Helper()
	b := make([]byte, len(want))
	if n, err := io.ReadFull(resp.Body, b); err != nil {
		r.t.Fatalf("%v after %q", err, b[:n])
	}
	close(r.told)
	return string(b)
}

func TestAClientThatWaitsForAColdMirrorIsTold(t *testing.T) {
	r := coldStage(t)
	r.pack = func(_ context.Context, _ *pkt.Request, out packs.Out) (packs.Result, error) {
		_, err := io.WriteString(out, "000dpack")
		_, err2 := io.WriteString(out, "file\nthe pack")
		return packs.Result{Outcome: "generated", Began: true}, errors.Join(err, err2)
	}
	resp := r.fetch(oidA)
	want := "000dpackfile\n" + packet(2, notice)
	if got := r.readThenReady(resp, want); got != want {
		t.Errorf("got %q", got)
	}
	if rest := text(t, resp); rest != "the pack" {
		t.Errorf("then %q", rest)
	}
}

func TestAShedAfterTheClientWasToldIsAMessage(t *testing.T) {
	r := coldStage(t)
	r.pack = func(context.Context, *pkt.Request, packs.Out) (packs.Result, error) {
		return packs.Result{Outcome: "shed"}, &gate.Shed{Gate: "git_packs", Reason: gate.Timeout}
	}
	resp := r.fetch(oidA)
	r.readThenReady(resp, "000dpackfile\n"+packet(2, notice))
	if rest := text(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(rest, "\x03shed by gate git_packs: timeout") {
		t.Errorf("%s, then %q", resp.Status, rest)
	}
}

func TestAPackAboveAllMemoryIsForwardedBehindTheNotice(t *testing.T) {
	for status, want := range map[int]string{200: "upstream's pack", 503: packet(3, "upstream: git.example answers 503 Service Unavailable\n")} {
		r := coldStage(t)
		r.pack = func(context.Context, *pkt.Request, packs.Out) (packs.Result, error) {
			return packs.Result{}, &gate.Shed{Gate: "git_packs", Reason: gate.TooLarge}
		}
		r.forwards = func(w http.ResponseWriter, _ *http.Request, _ upstream.Repo, _ string) error {
			w.WriteHeader(status)
			_, err := io.WriteString(w, "000dpackfile\nupstream's pack")
			return err
		}
		resp := r.fetch(oidA)
		r.readThenReady(resp, "000dpackfile\n"+packet(2, notice))
		if rest := text(t, resp); rest != want {
			t.Errorf("%d: then %q", status, rest)
		}
	}
}

func TestAClientThatCannotBeToldWaitsInSilence(t *testing.T) {
	r := newStage(t, func(o *Options) {
		o.QueueNoticeAfter, o.Wait, o.SilentWait = time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	})
	r.leased = func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	body := lines("command=fetch", "", "deepen 1", "want "+string(oidA), "done")
	resp := r.do(http.MethodPost, repoPath+"/git-upload-pack", strings.NewReader(body))
	if got := text(t, resp); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(got, "git.wait") {
		t.Errorf("%s %q", resp.Status, got)
	}
}
