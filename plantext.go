package levee

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leveehq/levee/internal/bytesize"
)

// String is the plan as a table for people.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory limit %s (%s), GOMEMLIMIT %s, live Go memory %s of at most %s\n\n",
		bytesize.Format(p.Limit), p.Source, bytesize.Format(p.GoMemLimit),
		bytesize.Format(p.GoLive), bytesize.Format(p.GoLiveMost))
	t := table{right: []bool{false, false, true, false, true, true}}
	t.row("account", "kind", "units", "", "per unit", "bytes", "setting", "note")
	for _, l := range p.Lines {
		t.row(l.Account, string(l.Kind), l.units(l.Units), l.unitName(), bytesize.Format(l.PerUnit),
			bytesize.Format(l.Bytes), l.Setting, l.Note)
	}
	t.write(&b)
	return b.String()
}

// units writes n units: as a size if the unit is a byte, else as a number.
func (l Line) units(n int64) string {
	if l.Unit == "byte" {
		return bytesize.Format(n)
	}
	return strconv.FormatInt(n, 10)
}

func (l Line) unitName() string {
	if l.Unit == "byte" {
		return "×"
	}
	return l.Unit + " ×"
}

// table lines columns up. Package tabwriter aligns all columns one way, and figures want the right.
type table struct {
	right []bool
	rows  [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(b *strings.Builder) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < len(t.right) && t.right[i] {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// PlanError is the error of a plan that does not fit its limit.
type PlanError struct{ Plan Plan }

// Error says what does not fit, names the largest lines with their settings and how far each would have to be lowered if
// it alone were, and the limit that would hold all.
func (e *PlanError) Error() string {
	p := e.Plan
	var b strings.Builder
	fmt.Fprintf(&b, "the memory plan does not fit into %s (%s): ", bytesize.Format(p.Limit), p.Source)
	if p.GoMemLimit <= 0 {
		fmt.Fprintf(&b, "what is not Go takes %s, which leaves nothing for Go", bytesize.Format(p.Limit-p.GoMemLimit))
	} else {
		fmt.Fprintf(&b, "live Go memory is %s and may be %s at most, 0.55 of GOMEMLIMIT (%s)",
			bytesize.Format(p.GoLive), bytesize.Format(p.GoLiveMost), bytesize.Format(p.GoMemLimit))
	}
	b.WriteString("; lower one of these, or several in part:\n")
	var t table
	for _, l := range p.largest(5) {
		t.row("  "+l.Account, bytesize.Format(l.Bytes), p.remedy(l))
	}
	t.write(&b)
	fmt.Fprintf(&b, "or raise the memory limit to %s", bytesize.Format(p.needed()))
	return b.String()
}

// largest are the n largest lines that a setting can lower.
func (p Plan) largest(n int) []PlannedLine {
	var lines []PlannedLine
	for _, l := range p.Lines {
		if l.Setting != "" && l.Bytes > 0 {
			lines = append(lines, l)
		}
	}
	slices.SortStableFunc(lines, func(a, b PlannedLine) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return lines[:min(n, len(lines))]
}

// remedy says how far the line's setting would have to be lowered if it alone were.
func (p Plan) remedy(l PlannedLine) string {
	less := p.surplus(l.Line)
	if less >= l.Units {
		return fmt.Sprintf("%s = %s, not enough alone", l.Setting, l.units(l.Units))
	}
	left := l.Units - less
	if l.Unit == "byte" && left >= bytesize.MiB {
		// Rounded down, so that the figure as printed can be written into the configuration and fits.
		left /= bytesize.MiB
		return fmt.Sprintf("%s = %s, lower it by %s to %dMiB", l.Setting, l.units(l.Units), l.units(less), left)
	}
	return fmt.Sprintf("%s = %d, lower it by %d to %d", l.Setting, l.Units, less, left)
}

// surplus is how many units of the line are too many, if no other line is lowered. It may be more than there are.
func (p Plan) surplus(l Line) int64 {
	// A byte less of live Go memory is a byte less; a byte less of anything else is a byte more of GOMEMLIMIT, of which
	// 0.55 may be live.
	excess := float64(p.GoLive) - liveShare*float64(p.GoMemLimit) + 1 // GoLiveMost is cut to whole bytes
	if l.Kind != KindGo {
		excess /= liveShare
	}
	return int64(min(math.Ceil(excess/float64(l.PerUnit)), math.MaxInt64/2))
}

// needed is the least limit that holds the plan, rounded up to a whole MiB: Needed, or else what would do if no line grew
// with the limit.
func (p Plan) needed() int64 {
	if p.Needed > 0 {
		return p.Needed
	}
	fixed := float64(p.Limit-p.GoMemLimit) - float64(p.Limit/marginParts)
	least := (float64(p.GoLive)/liveShare + fixed) / (1 - 1.0/marginParts)
	mib := math.Ceil(least/float64(bytesize.MiB)) + 1
	if mib >= float64(math.MaxInt64/bytesize.MiB) {
		return math.MaxInt64
	}
	return int64(mib) * bytesize.MiB
}
