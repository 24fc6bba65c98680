package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// rpcCollector uses the names and labels that gRPC servers in Go are known by, so that existing dashboards and alerts
// work. Started less handled is only an upper bound of the calls in flight: the two are read one after the other.
type rpcCollector struct{ rpc func() RPC }

var (
	rpcStarted = counter("grpc_server_started_total", "Calls begun.", "grpc_service", "grpc_method")
	rpcHandled = counter("grpc_server_handled_total", "Calls ended, by code.", "grpc_service", "grpc_method", "grpc_code")

	rpcConnections = gauge("levee_grpc_connections", "Open gRPC connections.")
	rpcStreams     = gauge("levee_grpc_streams", "Open gRPC streams.")
	rpcBuffered    = gauge("levee_grpc_buffered_bytes", "Bytes received that no handler has read yet.")
	rpcRefused     = counter("levee_grpc_refused_streams_total", "Streams above those announced per connection.")
	rpcCut         = counter("levee_grpc_cut_connections_total", "Connections that the server ended, by reason.", "reason")
)

func (c rpcCollector) Describe(ch chan<- *prometheus.Desc) {
	describe(ch, rpcStarted, rpcHandled, rpcConnections, rpcStreams, rpcBuffered, rpcRefused, rpcCut)
}

func (c rpcCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.rpc()
	for _, h := range s.Handled {
		service, method := splitMethod(h.Method)
		rpcHandled.send(ch, float64(h.Count), service, method, h.Code)
	}
	for full, n := range s.Started {
		service, method := splitMethod(full)
		rpcStarted.send(ch, float64(n), service, method)
	}
	rpcConnections.send(ch, float64(s.Connections))
	rpcStreams.send(ch, float64(s.Streams))
	rpcBuffered.send(ch, float64(s.BufferedBytes))
	rpcRefused.send(ch, float64(s.Refused))
	for reason, n := range s.Cut {
		rpcCut.send(ch, float64(n), reason)
	}
}

// splitMethod splits /pkg.Service/Method; what has no such form is a method without a service.
func splitMethod(full string) (service, method string) {
	service, method, ok := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	if !ok {
		return "", full
	}
	return service, method
}

type storeCollector struct{ store func() Store }

var (
	storeBytes    = gauge("levee_store_bytes", "Bytes on disk, each blob rounded up to 4 KiB, by what they are.", "part")
	storeMaxBytes = gauge("levee_store_max_bytes", "Bytes that all parts together may take.")
	storeBlobs    = gauge("levee_store_blobs", "Blobs stored.")
	storeMaxBlobs = gauge("levee_store_max_blobs", "Blobs that the store may hold.")
	storeUploads  = gauge("levee_store_uploads", "Unfinished uploads: active, or parked to be resumed.", "state")
	storeEvicted  = counter("levee_store_evicted_blobs_total", "Blobs evicted to make room.")
	storeEvictedB = counter("levee_store_evicted_bytes_total", "Bytes evicted to make room.")
	storeForgot   = counter("levee_store_forgotten_blobs_total", "Blobs whose files were found removed or damaged.")
	storeFree     = gauge("levee_store_disk_free_bytes", "Free bytes of the file system, when last asked.")
	storeMinFree  = gauge("levee_store_disk_min_free_bytes", "Free bytes below which writes are shed.")
	storeShedding = gauge("levee_store_shedding", "1 while writes are shed for this reason.", "reason")
)

// sheddingReasons is a closed set, so that each series is there from the start.
var sheddingReasons = []string{"disk_full", "min_free"}

func (c storeCollector) Describe(ch chan<- *prometheus.Desc) {
	describe(ch, storeBytes, storeMaxBytes, storeBlobs, storeMaxBlobs, storeUploads, storeEvicted, storeEvictedB,
		storeForgot, storeFree, storeMinFree, storeShedding)
}

func (c storeCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.store()
	storeBytes.send(ch, float64(s.Bytes), "blobs")
	storeBytes.send(ch, float64(s.UploadBytes), "uploads")
	storeBytes.send(ch, float64(s.UnlinkingBytes), "unlinking")
	storeMaxBytes.send(ch, float64(s.MaxBytes))
	storeBlobs.send(ch, float64(s.Blobs))
	storeMaxBlobs.send(ch, float64(s.MaxBlobs))
	storeUploads.send(ch, float64(s.ActiveUploads), "active")
	storeUploads.send(ch, float64(s.ParkedUploads), "parked")
	storeEvicted.send(ch, float64(s.EvictedBlobs))
	storeEvictedB.send(ch, float64(s.EvictedBytes))
	storeForgot.send(ch, float64(s.Forgotten))
	storeFree.send(ch, float64(s.FreeBytes))
	storeMinFree.send(ch, float64(s.MinFreeBytes))
	for _, reason := range sheddingReasons {
		storeShedding.send(ch, oneIf(s.Shedding == reason), reason)
	}
}

type cacheCollector struct{ cache func() Cache }

var (
	cacheHits   = counter("levee_bazel_hits_total", "Look-ups that found what they asked for.", "kind")
	cacheMisses = counter("levee_bazel_misses_total", "Look-ups that did not; sheds are not among them.", "kind")
)

func (c cacheCollector) Describe(ch chan<- *prometheus.Desc) { describe(ch, cacheHits, cacheMisses) }

func (c cacheCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.cache()
	for kind, n := range s.Hits {
		cacheHits.send(ch, float64(n), kind)
	}
	for kind, n := range s.Misses {
		cacheMisses.send(ch, float64(n), kind)
	}
}
