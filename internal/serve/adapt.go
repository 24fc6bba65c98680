package serve

import (
	"github.com/leveehq/levee/internal/bazel"
	"github.com/leveehq/levee/internal/metrics"
	"github.com/leveehq/levee/internal/rpc"
)

// The metrics know no service, and the services know no metrics; here their words are put side by side.

func rpcMetrics(s rpc.Stats) metrics.RPC {
	out := metrics.RPC{
		Connections: s.Connections, Streams: s.Streams, BufferedBytes: s.BufferedBytes,
		Started: s.Started, Refused: s.Refused, Cut: s.Cut,
	}
	for call, n := range s.Handled {
		out.Handled = append(out.Handled, metrics.Handled{Method: call.Method, Code: call.Code, Count: n})
	}
	return out
}

func bazelMetrics(c bazel.Counters, http []bazel.HTTPCount) metrics.Bazel {
	out := metrics.Bazel{
		ACHits: uint64(c.ACHits), ACMisses: uint64(c.ACMisses), ACIncomplete: uint64(c.ACIncomplete), ACMissesShed: uint64(c.ACMissesShed),
		CASHits: uint64(c.ReadHits), CASMisses: uint64(c.ReadMisses),
		FindMissing: uint64(c.FindMissingDigests), FindMissingAbsent: uint64(c.FindMissingAbsent),
		WritesPresent: uint64(c.WritesPresent), WritesResumed: uint64(c.WritesResumed),
		BytesIn: uint64(c.BytesIn), BytesOut: uint64(c.BytesOut),
	}
	for _, h := range http {
		out.HTTP = append(out.HTTP, metrics.HTTPCount{Method: h.Method, Kind: h.Kind, Code: h.Code, Count: h.N})
	}
	return out
}
