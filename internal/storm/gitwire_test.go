package storm

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnswersAreBookedAsWhatTheyAre(t *testing.T) {
	sideband := func(band byte, text string) string { return fmt.Sprintf("%04x%c%s", len(text)+5, band, text) }
	var packfile gitRequest
	packfile.line("packfile")
	for name, c := range map[string]struct {
		answer   http.HandlerFunc
		code     string
		gate     string
		reason   string
		shed     bool
		complain string // part of the promise broken; "" for none
	}{
		"a shed before anything": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				http.Error(w, "shed by gate git_packs: queue_full (cost 1)", http.StatusTooManyRequests)
			},
			code: "429", gate: "git_packs", reason: "queue_full", shed: true,
		},
		"a shed without a hint": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "shed by gate git_packs: timeout", http.StatusTooManyRequests)
			},
			code: "429", gate: "git_packs", reason: "timeout", shed: true, complain: "no Retry-After",
		},
		"a shed that ejects the server": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				http.Error(w, "shed by gate git_packs: timeout", http.StatusServiceUnavailable)
			},
			code: "503", gate: "git_packs", reason: "timeout", shed: true, complain: "outlier ejection",
		},
		"a shed inside the protocol": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				var b gitRequest
				b.line("ERR shed by gate git_packs: timeout")
				w.Write(b.Bytes())
			},
			code: "ERR packet", gate: "git_packs", reason: "timeout", shed: true,
		},
		"a shed after the queue was told of": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, packfile.String(), sideband(2, "queued, position 4\n"), sideband(3, "shed by gate git_packs: timeout"))
			},
			code: "band 3", gate: "git_packs", reason: "timeout", shed: true,
		},
		"a shed after bytes of the pack": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, packfile.String(), sideband(1, "PACK"), sideband(3, "shed by gate git_packs: timeout"))
			},
			code: "band 3", gate: "git_packs", reason: "timeout", shed: true, complain: "after bytes of its pack",
		},
		"trouble": {
			answer: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "disk", http.StatusInternalServerError) },
			code:   "500", reason: "disk", complain: "failed without being shed",
		},
		"a cut": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, packfile.String(), sideband(1, "PACK"))
			},
			code: "no answer", reason: "unexpected EOF", complain: "unexpected EOF",
		},
		"a wrong pack": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, packfile.String(), sideband(1, "PACK"+strings.Repeat("x", 40)), gitFlush)
			},
			code: "no answer", reason: "the pack's bytes do not have the checksum at", complain: "checksum",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.answer)
			defer s.Close()
			client, books := newGitHTTP(0), newTally("t")
			defer client.close()
			(&gitRun{}).oneFetch(t.Context(), client, books, s.URL, gitFetch{}.request())
			section := books.section()
			got, other := section.Failed, section.Shed
			if c.shed {
				got, other = other, got
			}
			reason := c.reason[:min(len(c.reason), 40)]
			if len(got) != 1 || len(other) != 0 || got[0] != (Outcome{Code: c.code, Gate: c.gate, Reason: reason, Count: 1}) {
				t.Errorf("booked %+v and %+v", got, other)
			}
			broken := strings.Join(section.Broken, "\n")
			if (c.complain == "") != (broken == "") || !strings.Contains(broken, c.complain) {
				t.Errorf("broken promises %q, want %q", broken, c.complain)
			}
		})
	}
}

func FuzzGitAnswer(f *testing.F) {
	f.Add([]byte("000dpackfile\n0009\x01PACK0000"))
	f.Add([]byte("0008ERR x0000"))
	f.Add([]byte("0010acknowledgments\n0001000dpackfile\n0006\x02x0000"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if _, err := readRefs(bytes.NewReader(answer)); err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
		a, err := readPack(bytes.NewReader(answer))
		if a == nil || a.bytes > int64(len(answer)) {
			t.Errorf("%+v of %d bytes, %v", a, len(answer), err)
		}
	})
}

func FuzzProcStat(f *testing.F) {
	f.Add([]byte("1 (a) b) S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if st, err := parseStat(text); err == nil && !bytes.Contains(text, []byte(")")) {
			t.Errorf("%+v of %q", st, text)
		}
	})
}
