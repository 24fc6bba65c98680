package storm

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/bytesize"
)

// Exit statuses of a run.
const (
	ExitOK     = 0 // every promise was kept
	ExitBroken = 1 // a promise was broken, or the run could not be finished
	ExitUsage  = 2 // the options are wrong
)

// Report of a run: one section per scenario and group of clients.
type Report struct {
	Target   string    `json:"target"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Sections []Section `json:"sections"`
	Server   *Server   `json:"server,omitempty"`   // nil when neither admin nor a process id was given
	Accounts []Account `json:"accounts,omitempty"` // of scenario fill
	Broken   []string  `json:"broken"`             // promises of the whole run; each section has its own
}

// Section is what one group of like clients met with.
type Section struct {
	Name     string  `json:"name"`
	Seconds  float64 `json:"seconds"`
	Offered  uint64  `json:"offered"`  // calls begun, retries not counted
	Admitted uint64  `json:"admitted"` // ended OK
	Retries  uint64  `json:"retries"`

	// Shed counts answers, Failed whatever else was not OK; a call that is retried may be in them more than once.
	Shed   []Outcome `json:"shed"`
	Failed []Outcome `json:"failed"`

	Bytes          int64   `json:"bytes"` // of blobs that were stored, or that readers took
	BytesPerSecond float64 `json:"bytes_per_second"`
	Latency        Latency `json:"latency"`

	// TailSeconds is the time from the end of the last action to the end of the last upload (scenario tail).
	TailSeconds float64 `json:"tail_seconds,omitempty"`

	Verified uint64 `json:"verified"` // acknowledged blobs that were read back and were right
	Lost     uint64 `json:"lost"`     // acknowledged blobs that could not be read back
	Wrong    uint64 `json:"wrong"`    // bytes that were not the blob's

	Memory *Memory  `json:"memory,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	Broken []string `json:"broken"`
}

// Outcome is a number of answers with the same code and reason.
type Outcome struct {
	Code   string `json:"code"`
	Gate   string `json:"gate,omitempty"` // empty if no gate decided, or the answer does not say
	Reason string `json:"reason,omitempty"`
	Count  uint64 `json:"count"`
}

// Memory of the server while a section ran. Bytes.
type Memory struct {
	RSSBefore int64            `json:"rss_before"`
	RSSPeak   int64            `json:"rss_peak"`
	Accounts  map[string]int64 `json:"accounts_peak,omitempty"` // account of the plan to its peak use
}

// Server is what was observed of the server during the whole run.
type Server struct {
	RSSPeak int64 `json:"rss_peak"`
	Limit   int64 `json:"limit"` // the memory limit of its plan

	Readyz Latency          `json:"readyz"` // of each answered probe
	NotOK  uint64           `json:"readyz_not_ok"`
	Sheds  []GateShed       `json:"gate_sheds,omitempty"` // as the server itself counts them
	Plan   map[string]int64 `json:"accounts_plan,omitempty"`
}

// GateShed is one counter of the server's.
type GateShed struct {
	Gate   string `json:"gate"`
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// ExitStatus is ExitOK when no promise was broken, else ExitBroken.
func (r *Report) ExitStatus() int {
	if len(r.Problems()) > 0 {
		return ExitBroken
	}
	return ExitOK
}

// Problems lists all broken promises, each with the section it belongs to.
func (r *Report) Problems() []string {
	all := append([]string(nil), r.Broken...)
	for _, s := range r.Sections {
		for _, b := range s.Broken {
			all = append(all, s.Name+": "+b)
		}
	}
	return all
}

// WriteJSON writes the report as one indented JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report for a person.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for i := range r.Sections {
		r.Sections[i].writeText(&b)
	}
	if s := r.Server; s != nil {
		fmt.Fprintf(&b, "server\n")
		fmt.Fprintf(&b, "  peak RSS    %s of a limit of %s\n", bytesize.Format(s.RSSPeak), bytesize.Format(s.Limit))
		if s.Readyz.N > 0 {
			fmt.Fprintf(&b, "  readyz      %s; %d not ready\n", s.Readyz, s.NotOK)
		}
		for _, g := range s.Sheds {
			fmt.Fprintf(&b, "  shed        %s %s: %d\n", g.Gate, g.Reason, g.Count)
		}
	}
	writeAccounts(&b, r.Accounts)
	problems := r.Problems()
	if len(problems) == 0 {
		fmt.Fprintf(&b, "ok: every promise was kept, in %.1f s\n", r.Seconds)
	}
	for _, p := range problems {
		fmt.Fprintf(&b, "BROKEN: %s\n", p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Section) writeText(b *strings.Builder) {
	fmt.Fprintf(b, "%s (%.1f s)\n", s.Name, s.Seconds)
	fmt.Fprintf(b, "  offered     %d, admitted %d, retries %d\n", s.Offered, s.Admitted, s.Retries)
	writeOutcomes(b, "shed", s.Shed)
	writeOutcomes(b, "failed", s.Failed)
	if s.Bytes > 0 {
		fmt.Fprintf(b, "  bytes       %s, %s/s\n", bytesize.Format(s.Bytes), bytesize.Format(int64(s.BytesPerSecond)))
	}
	if s.Latency.N > 0 {
		fmt.Fprintf(b, "  latency     %s\n", s.Latency)
	}
	if s.TailSeconds > 0 {
		fmt.Fprintf(b, "  upload tail %.2f s\n", s.TailSeconds)
	}
	if s.Verified+s.Lost+s.Wrong > 0 {
		fmt.Fprintf(b, "  read back   %d right, %d lost, %d wrong\n", s.Verified, s.Lost, s.Wrong)
	}
	if m := s.Memory; m != nil {
		fmt.Fprintf(b, "  memory      RSS %s before, peak %s (%s more)\n", bytesize.Format(m.RSSBefore), bytesize.Format(m.RSSPeak), bytesize.Format(m.RSSPeak-m.RSSBefore))
		for _, name := range sortedKeys(m.Accounts) {
			fmt.Fprintf(b, "  account     %-12s peak %s\n", name, bytesize.Format(m.Accounts[name]))
		}
	}
	for _, n := range s.Notes {
		fmt.Fprintf(b, "  note        %s\n", n)
	}
}

func writeOutcomes(b *strings.Builder, title string, outcomes []Outcome) {
	for _, o := range outcomes {
		why := strings.TrimSpace(o.Gate + " " + o.Reason)
		if why == "" {
			why = "no reason given"
		}
		fmt.Fprintf(b, "  %-11s %s (%s): %d\n", title, o.Code, why, o.Count)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
