package storm

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/leveehq/levee/internal/bytesize"
)

// Bench is one operation against one server.
type Bench struct {
	Operation string  `json:"operation"`
	Server    string  `json:"server"`
	Requests  uint64  `json:"requests"`
	Seconds   float64 `json:"seconds"`
	Latency   Latency `json:"latency"`

	// CPU seconds of the server with its children, and of PostgreSQL with its; 0 without process ids.
	CPU         float64 `json:"cpu_seconds"`
	PostgresCPU float64 `json:"postgres_cpu_seconds"`

	// RSS is the server's peak. PostgreSQL's is anonymous memory, since what its processes share would count many times.
	RSS          int64 `json:"rss_peak"`
	PostgresAnon int64 `json:"postgres_anonymous_peak"`
}

// PerSecond is requests a second.
func (b *Bench) PerSecond() float64 { return float64(b.Requests) / max(b.Seconds, 1e-9) }

// CPUPerRequest is seconds of the server's.
func (b *Bench) CPUPerRequest() float64 { return b.CPU / max(float64(b.Requests), 1) }

// PostgresPerRequest is seconds of PostgreSQL's.
func (b *Bench) PostgresPerRequest() float64 { return b.PostgresCPU / max(float64(b.Requests), 1) }

// Versus is how many times the requests a second of another server the first one serves.
type Versus struct {
	Operation string  `json:"operation"`
	Server    string  `json:"server"`
	Ratio     float64 `json:"ratio"`
}

func writeBench(b *strings.Builder, all []Bench, against []Versus) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "operation\tserver\trequests/s\tp50\tp99\tserver CPU-ms/request\tPostgreSQL CPU-ms/request\tpeak RSS\tPostgreSQL anonymous peak")
	for i := range all {
		m := &all[i]
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Operation, m.Server, m.PerSecond(), short(m.Latency.P50), short(m.Latency.P99),
			milliseconds(m.CPUPerRequest()), milliseconds(m.PostgresPerRequest()), sizeOrNone(m.RSS), sizeOrNone(m.PostgresAnon))
	}
	w.Flush()
	for _, v := range against {
		fmt.Fprintf(b, "%s against %s: %.2f times the requests a second\n", v.Operation, v.Server, v.Ratio)
	}
}

func milliseconds(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", seconds*1e3)
}

func sizeOrNone(n int64) string {
	if n == 0 {
		return "-"
	}
	return bytesize.Format(n)
}
