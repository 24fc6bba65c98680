package storm

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
