// Package metrics shows Status snapshots and a few counters of services as Prometheus metrics.
//
// It refuses to count anything itself and to let a client choose a label: every figure is read from a snapshot at the
// moment of a scrape, so that a metric, Status and a log record cannot disagree, and every label value comes from code
// or from configuration, so that the number of series is known before the first request. The exceptions, names of Git
// repositories and of GraphQL's tenants, come for a bounded number of the busiest.
package metrics

import (
	"bytes"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/buildinfo"
)

// Sources are asked at every scrape, from any goroutine. A nil one leaves its metrics out.
type Sources struct {
	Status  func() levee.Status
	RPC     func() RPC
	Store   func() Store
	Bazel   func() Bazel
	Git     func() Git
	GraphQL func() GraphQL
	Build   buildinfo.Info
}

// RPC is the state of the gRPC listener. Methods that the server does not have must come folded into one.
type RPC struct {
	Connections, Streams int
	BufferedBytes        int64             // received, not yet read by handlers
	Started              map[string]uint64 // by full method: /google.bytestream.ByteStream/Write
	Handled              []Handled
	Refused              uint64            // streams above those announced per connection
	Cut                  map[string]uint64 // connections that the server ended, by reason
}

// Handled counts the calls of a method that ended with a code.
type Handled struct {
	Method, Code string
	Count        uint64
}

// Store is the state of the blob store. Bytes, UploadBytes and UnlinkingBytes together stay below MaxBytes.
type Store struct {
	Bytes, UploadBytes, UnlinkingBytes, MaxBytes int64
	Blobs, MaxBlobs                              int64
	ActiveUploads, ParkedUploads                 int64
	EvictedBlobs, EvictedBytes, Forgotten        uint64
	FreeBytes, MinFreeBytes                      int64
	Shedding                                     string // why writes are shed: "", "disk_full", "min_free"
}

// Bazel counts what both front ends of the cache have done.
type Bazel struct {
	ACHits, ACMisses, ACIncomplete, ACMissesShed uint64
	CASHits, CASMisses                           uint64
	FindMissing, FindMissingAbsent               uint64 // digests
	WritesPresent, WritesResumed                 uint64
	BytesIn, BytesOut                            uint64
	HTTP                                         []HTTPCount
}

// HTTPCount counts requests that were answered alike. All three labels come from closed sets.
type HTTPCount struct {
	Method, Kind string
	Code         int
	Count        uint64
}

// Registry holds the collectors.
type Registry struct{ *prometheus.Registry }

// New registers every collector.
func New(s Sources) Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(s.Build),
	)
	if s.Status != nil {
		r.MustRegister(statusCollector{s.Status})
	}
	if s.RPC != nil {
		r.MustRegister(rpcCollector{s.RPC})
	}
	if s.Store != nil {
		r.MustRegister(storeCollector{s.Store})
	}
	if s.Bazel != nil {
		r.MustRegister(bazelCollector{s.Bazel})
	}
	if s.Git != nil {
		r.MustRegister(gitCollector{s.Git})
	}
	if s.GraphQL != nil {
		r.MustRegister(graphqlCollector{s.GraphQL})
	}
	return Registry{r}
}

// Handler serves the metrics. It does not compress: a scrape is a few tens of kilobytes over a near line, and a
// compressor's window is more memory than the whole answer.
//
// What is gathered is several times the text, so one scrape at a time gathers; then it holds the text alone, and one that is
// read slowly keeps nobody from the metrics.
func (r Registry) Handler() http.Handler {
	gather := promhttp.HandlerFor(r.Registry, promhttp.HandlerOpts{DisableCompression: true})
	turn := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case turn <- struct{}{}:
		case <-req.Context().Done():
			return
		}
		p := page{header: w.Header(), status: http.StatusOK}
		func() {
			defer func() { <-turn }()
			gather.ServeHTTP(&p, req)
		}()
		text := bytes.Clone(p.text.Bytes()) // a buffer that has grown is up to twice as large
		p.text = bytes.Buffer{}
		w.WriteHeader(p.status)
		_, _ = w.Write(text)
	})
}

// page is a response that is kept.
type page struct {
	header http.Header
	status int
	text   bytes.Buffer
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) WriteHeader(status int)      { p.status = status }
func (p *page) Write(b []byte) (int, error) { return p.text.Write(b) }

func buildInfo(b buildinfo.Info) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "levee_build_info",
		Help:        "What this binary was built from; the value is always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
	})
	g.Set(1)
	return g
}

// metric is a description with a shorter way to make samples of it.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

func (m metric) send(ch chan<- prometheus.Metric, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

func describe(ch chan<- *prometheus.Desc, all ...metric) {
	for _, m := range all {
		ch <- m.desc
	}
}
