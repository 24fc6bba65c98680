package storm

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/leveehq/levee/internal/bytesize"
)

// GitReport is a Report and what the scenarios cost the server.
type GitReport struct {
	Report
	Costs  []Cost  `json:"costs,omitempty"`  // of each scenario; without a process id only its counters
	Ratios []Ratio `json:"ratios,omitempty"` // of scenario compare
}

// Cost of one scenario to a server: its process and all children. CPU seconds are differences, numbers and bytes of memory
// peaks.
type Cost struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`

	Measured bool    `json:"measured"` // there was a process id
	CPU      float64 `json:"cpu_seconds"`
	GitCPU   float64 `json:"git_cpu_seconds"` // of the children alone
	Anon     int64   `json:"anonymous_peak"`
	GitAnon  int64   `json:"git_anonymous_peak"`
	Children int     `json:"children_peak"`
	Packing  int     `json:"pack_objects_peak"`

	Bytes int64 `json:"bytes"` // of packs that clients got

	Packs *PackCounts `json:"packs,omitempty"` // nil if the server does not tell
}

// PackCounts is how packs came to be while a scenario ran, as the server counts.
type PackCounts struct {
	Generations uint64 `json:"generations"`
	Hits        uint64 `json:"hits"`
	Coalesced   uint64 `json:"coalesced"`
}

// PerGB is CPU seconds for 10^9 bytes of packs; 0 if there were none.
func (c *Cost) PerGB() float64 {
	if c.Bytes <= 0 {
		return 0
	}
	return c.CPU / (float64(c.Bytes) / 1e9)
}

// Ratio compares the server's whole tree with the Git processes of git http-backend alone: what stands in front of them, a
// web server, is a gift to them.
type Ratio struct {
	Against string  `json:"against"`
	CPU     float64 `json:"cpu"`    // theirs over ours
	Memory  float64 `json:"memory"` // theirs over ours, anonymous peaks; 0 where it was not the question
}

// ratio leaves out memory where both send from a cache.
func ratio(ours, theirs *Cost, memory bool) Ratio {
	r := Ratio{Against: theirs.Name}
	if ours.CPU > 0 && ours.Bytes > 0 && theirs.Bytes > 0 {
		r.CPU = theirs.GitCPU / float64(theirs.Bytes) / (ours.CPU / float64(ours.Bytes))
	}
	if memory && ours.Anon > 0 {
		r.Memory = float64(theirs.GitAnon) / float64(ours.Anon)
	}
	return r
}

// WriteJSON writes the report as one indented JSON document.
func (r *GitReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report for a person, its verdict last.
func (r *GitReport) WriteText(w io.Writer) error {
	var b strings.Builder
	writeCosts(&b, r.Costs)
	for _, ratio := range r.Ratios {
		fmt.Fprintf(&b, "against %s: %.1f times less CPU", ratio.Against, ratio.CPU)
		if ratio.Memory > 0 {
			fmt.Fprintf(&b, ", %.1f times less anonymous memory at the peak", ratio.Memory)
		}
		b.WriteByte('\n')
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return r.Report.WriteText(w)
}

func writeCosts(b *strings.Builder, costs []Cost) {
	if len(costs) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenario\tseconds\tCPU-s\tof Git\tCPU-s/GB\tanonymous peak\tof Git\tchildren\tpack-objects\tgenerations\thits\tcoalesced")
	for _, c := range costs {
		fmt.Fprintf(w, "%s\t%.1f\t%s\t%s\n", c.Name, c.Seconds, c.measured(), c.Packs)
	}
	w.Flush()
}

func (c *Cost) measured() string {
	if !c.Measured {
		return "-\t-\t-\t-\t-\t-\t-"
	}
	return fmt.Sprintf("%.2f\t%.2f\t%.2f\t%s\t%s\t%d\t%d", c.CPU, c.GitCPU, c.PerGB(), bytesize.Format(c.Anon), bytesize.Format(c.GitAnon), c.Children, c.Packing)
}

func (p *PackCounts) String() string {
	if p == nil {
		return "-\t-\t-"
	}
	return fmt.Sprintf("%d\t%d\t%d", p.Generations, p.Hits, p.Coalesced)
}

// judgeCosts holds the tree to the plan: what all processes held to the memory limit, the children to their lines.
func judgeCosts(costs []Cost, st *serverStatus) (broken []string) {
	var children int64
	for _, l := range st.Plan.Lines {
		if l.Kind == "children" {
			children += l.Bytes
		}
	}
	for _, c := range costs {
		if !c.Measured || c.foreign() {
			continue
		}
		if limit := st.Plan.Limit; limit > 0 && c.Anon > limit {
			broken = append(broken, fmt.Sprintf("%s: the server and its children held %s of anonymous memory, above the limit of %s", c.Name, bytesize.Format(c.Anon), bytesize.Format(limit)))
		}
		if children > 0 && c.GitAnon > children {
			broken = append(broken, fmt.Sprintf("%s: the children held %s of anonymous memory, above their lines of %s", c.Name, bytesize.Format(c.GitAnon), bytesize.Format(children)))
		}
	}
	return broken
}

// foreign tells whether a cost is of what the server is compared with.
func (c *Cost) foreign() bool { return strings.HasPrefix(c.Name, "http-backend") }
