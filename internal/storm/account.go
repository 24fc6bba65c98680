package storm

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/leveehq/levee/internal/bytesize"
)

// Account is one line of the plan and the worst that its adversaries made of it. Bytes.
type Account struct {
	Name      string `json:"account"`
	Adversary string `json:"adversary,omitempty"` // the one with the highest real peak
	Plan      int64  `json:"plan"`
	Charged   int64  `json:"charged_peak"` // as the server counts
	Real      int64  `json:"real_peak"`    // as measured
	Note      string `json:"note,omitempty"`
}

// Ratio of the plan to what is real; 0 if nothing was measured.
func (a *Account) Ratio() float64 {
	if a.Real <= 0 {
		return 0
	}
	return float64(a.Plan) / float64(a.Real)
}

// blur is what a look may be off by: what is allocated while the collection runs, stacks that have not shrunk yet. It matters
// for accounts of a few megabytes only.
const blur = 512 * kib

// Short tells whether more was really held than the line has.
func (a *Account) Short() bool { return a.Real > a.Plan+blur }

// Loose tells whether the line is more than half as large again as what fills it.
func (a *Account) Loose() bool { return a.Plan > (a.Real+blur)*3/2 }

// writeAccounts prints the comparison.
func writeAccounts(b *strings.Builder, rows []Account) {
	if len(rows) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "account\tplan\tcharged peak\treal peak\tplan/real\tadversary")
	for _, a := range rows {
		charged, real, ratio := "-", "-", "-"
		if a.Charged > 0 {
			charged = bytesize.Format(a.Charged)
		}
		if a.Real > 0 {
			real, ratio = bytesize.Format(a.Real), fmt.Sprintf("%.2f", a.Ratio())
		}
		says := a.Adversary
		if a.Note != "" {
			says = strings.TrimPrefix(says+"; "+a.Note, "; ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, bytesize.Format(a.Plan), charged, real, ratio, says)
	}
	w.Flush()
}

// judgeAccounts says which accounts are not honest: those that really take more than their line.
func judgeAccounts(rows []Account) (broken []string) {
	for _, a := range rows {
		if a.Short() && a.Name != "dirty_pages" { // which are told of the whole machine only
			broken = append(broken, fmt.Sprintf("account %s really took %s with %s, above its line of %s", a.Name, bytesize.Format(a.Real), a.Adversary, bytesize.Format(a.Plan)))
		}
	}
	return broken
}
