package storm

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// GraphQLReport is a Report and what is told of GraphQL servers alone.
type GraphQLReport struct {
	Report
	Foreign     uint64   `json:"foreign_rows"` // answers with another tenant's rows
	Checked     uint64   `json:"checked"`      // answers whose rows were looked at
	Connections int      `json:"connections_peak,omitempty"`
	Counts      []Count  `json:"counts,omitempty"` // of the server's counters
	Bench       []Bench  `json:"bench,omitempty"`
	Against     []Versus `json:"against,omitempty"`
}

// add closes the books of a scenario.
func (r *GraphQLReport) add(tallies []*tally, memory *Memory) {
	for i, t := range tallies {
		if p95 := t.latency.quantile(0.95); p95 > 0 {
			t.note("p95 " + short(p95))
		}
		section := t.section()
		if i == 0 {
			section.Memory = memory
		}
		r.Sections = append(r.Sections, section)
		r.Foreign += section.Wrong
		r.Checked += section.Verified + section.Lost + section.Wrong
	}
}

// WriteJSON writes the report as one indented JSON document.
func (r *GraphQLReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report for a person, its verdict last.
func (r *GraphQLReport) WriteText(w io.Writer) error {
	var b strings.Builder
	if len(r.Bench) > 0 {
		writeBench(&b, r.Bench, r.Against)
	} else {
		fmt.Fprintf(&b, "foreign rows  %d in %d answers checked\n", r.Foreign, r.Checked)
	}
	if r.Connections > 0 {
		fmt.Fprintf(&b, "connections   %d at the peak\n", r.Connections)
	}
	for _, c := range r.Counts {
		fmt.Fprintf(&b, "counted       %s: %.10g\n", c.Series, c.Rise)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return r.Report.WriteText(w)
}
