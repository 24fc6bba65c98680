package metrics

import (
	"strconv"
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

type bazelCollector struct{ bazel func() Bazel }

var (
	bazelHits       = counter("levee_bazel_hits_total", "Look-ups that found what they asked for: ac, or cas by reading.", "kind")
	bazelMisses     = counter("levee_bazel_misses_total", "Look-ups that did not; those answered so for want of room are not among them.", "kind")
	bazelIncomplete = counter("levee_bazel_ac_incomplete_total", "Misses of action results that were there and referred to something that was not.")
	bazelMissShed   = counter("levee_bazel_ac_shed_misses_total", "Action results answered as a miss because their queue was full.")
	bazelFind       = counter("levee_bazel_find_missing_digests_total", "Digests asked about, by whether they were there.", "answer")
	bazelPresent    = counter("levee_bazel_writes_present_total", "Writes answered early because the blob was there.")
	bazelResumed    = counter("levee_bazel_writes_resumed_total", "Writes that went on where an earlier one had ended.")
	bazelIn         = counter("levee_bazel_received_bytes_total", "Bytes of blobs stored, as they came.")
	bazelOut        = counter("levee_bazel_sent_bytes_total", "Bytes of blobs sent.")
	httpRequests    = counter("levee_http_requests_total", "Requests of the HTTP cache, by method, kind and status; 499: the client left.", "method", "kind", "code")
)

func (c bazelCollector) Describe(ch chan<- *prometheus.Desc) {
	describe(ch, bazelHits, bazelMisses, bazelIncomplete, bazelMissShed, bazelFind, bazelPresent, bazelResumed, bazelIn, bazelOut, httpRequests)
}

func (c bazelCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.bazel()
	bazelHits.send(ch, float64(s.ACHits), "ac")
	bazelHits.send(ch, float64(s.CASHits), "cas")
	bazelMisses.send(ch, float64(s.ACMisses), "ac")
	bazelMisses.send(ch, float64(s.CASMisses), "cas")
	bazelIncomplete.send(ch, float64(s.ACIncomplete))
	bazelMissShed.send(ch, float64(s.ACMissesShed))
	bazelFind.send(ch, float64(s.FindMissing-min(s.FindMissing, s.FindMissingAbsent)), "present")
	bazelFind.send(ch, float64(s.FindMissingAbsent), "absent")
	bazelPresent.send(ch, float64(s.WritesPresent))
	bazelResumed.send(ch, float64(s.WritesResumed))
	bazelIn.send(ch, float64(s.BytesIn))
	bazelOut.send(ch, float64(s.BytesOut))
	for _, h := range s.HTTP {
		httpRequests.send(ch, float64(h.Count), h.Method, h.Kind, strconv.Itoa(h.Code))
	}
}
