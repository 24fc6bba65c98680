package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leveehq/levee/gate"
)

// Git counts what the Git cache has done. Names of repositories come for the busiest ones alone: the service bounds them.
type Git struct {
	Answers     []GitAnswer
	Results     map[string]uint64 // of requests for a pack: admitted, shed, too_large, cancelled, failed
	Waits       GitWaits
	Generations uint64
	Hits        uint64
	Coalesced   uint64
	Rounds      uint64
	Detached    uint64
	Generating  int

	SpoolBytes, MaxSpoolBytes   int64
	Mirrors                     map[string]int // by state
	MirrorBytes, MaxMirrorBytes int64

	UpstreamRequests uint64
	UpstreamFailures map[string]uint64 // by kind

	Stale                         uint64
	ClonesServed, ClonesAttempted uint64
	Busiest                       []GitRepository
}

// GitAnswer counts requests that were answered alike. All labels come from closed sets.
type GitAnswer struct {
	Method, Origin string
	Code           int
	Count          uint64
}

// GitWaits is a histogram of what admitted requests waited, by gate.WaitBounds.
type GitWaits struct {
	Count   uint64
	Seconds float64
	Buckets []uint64 // cumulative
}

// GitRepository is one of the busiest.
type GitRepository struct {
	Name   string
	Served uint64
}

type gitCollector struct{ git func() Git }

var (
	gitResponses = counter("levee_git_responses_total", "Answers of the Git cache, by what was asked, HTTP status (499: the client left) and whose answer it is.", "method", "status", "origin")
	gitResults   = counter("levee_git_packs_total", "Requests for a pack, by what became of them.", "result")
	gitWait      = prometheus.NewDesc("levee_git_wait_seconds", "Time that admitted requests for a pack waited; those admitted at once count as 0.", nil, nil)

	gitGenerations = counter("levee_git_generations_total", "Packs made by git pack-objects.")
	gitHits        = counter("levee_git_pack_hits_total", "Requests answered with a pack that was there.")
	gitCoalesced   = counter("levee_git_pack_coalesced_total", "Requests answered with a pack that was being made for another.")
	gitRounds      = counter("levee_git_rounds_total", "Negotiation rounds answered by git upload-pack.")
	gitDetached    = counter("levee_git_detached_total", "Clients too slow for the spool of a pack that is not kept.")
	gitGenerating  = gauge("levee_git_generating", "Packs being made.")
	gitSpool       = gauge("levee_git_spool_bytes", "Bytes of packs on disk.")
	gitSpoolMax    = gauge("levee_git_spool_max_bytes", "Bytes of packs that may be on disk.")

	gitMirrors   = gauge("levee_git_mirrors", "Mirrors, by state.", "state")
	gitMirror    = gauge("levee_git_mirror_bytes", "Bytes of mirrors on disk.")
	gitMirrorMax = gauge("levee_git_mirror_max_bytes", "Bytes of mirrors that may be on disk.")

	gitUpstream = counter("levee_git_upstream_requests_total", "Requests sent to upstream hosts.")
	gitFailures = counter("levee_git_upstream_failures_total", "Failures of upstream hosts, by kind.", "kind")
	gitStale    = counter("levee_git_stale_total", "Answers given while upstream could not be asked.")

	gitClones    = counter("levee_git_clones_total", "Clones that got their pack.")
	gitAttempts  = counter("levee_git_clone_attempts_total", "Clones asked for, whatever became of them.")
	gitByRepo    = counter("levee_git_repository_packs_total", "Packs served, of the busiest repositories; one that was not always among them may count a little high.", "repository")
	gitCollected = []metric{
		gitResponses, gitResults, gitGenerations, gitHits, gitCoalesced, gitRounds, gitDetached, gitGenerating, gitSpool, gitSpoolMax,
		gitMirrors, gitMirror, gitMirrorMax, gitUpstream, gitFailures, gitStale, gitClones, gitAttempts, gitByRepo,
	}
)

func (c gitCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- gitWait
	describe(ch, gitCollected...)
}

func (c gitCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.git()
	for _, a := range s.Answers {
		gitResponses.send(ch, float64(a.Count), a.Method, strconv.Itoa(a.Code), a.Origin)
	}
	for result, n := range s.Results {
		gitResults.send(ch, float64(n), result)
	}
	buckets := make(map[float64]uint64, len(s.Waits.Buckets))
	for i, n := range s.Waits.Buckets {
		buckets[gate.WaitBounds[i]] = n
	}
	ch <- prometheus.MustNewConstHistogram(gitWait, s.Waits.Count, s.Waits.Seconds, buckets)
	for _, m := range []struct {
		metric metric
		n      float64
	}{
		{gitGenerations, float64(s.Generations)}, {gitHits, float64(s.Hits)}, {gitCoalesced, float64(s.Coalesced)},
		{gitRounds, float64(s.Rounds)}, {gitDetached, float64(s.Detached)}, {gitGenerating, float64(s.Generating)},
		{gitSpool, float64(s.SpoolBytes)}, {gitSpoolMax, float64(s.MaxSpoolBytes)},
		{gitMirror, float64(s.MirrorBytes)}, {gitMirrorMax, float64(s.MaxMirrorBytes)},
		{gitUpstream, float64(s.UpstreamRequests)}, {gitStale, float64(s.Stale)},
		{gitClones, float64(s.ClonesServed)}, {gitAttempts, float64(s.ClonesAttempted)},
	} {
		m.metric.send(ch, m.n)
	}
	for state, n := range s.Mirrors {
		gitMirrors.send(ch, float64(n), state)
	}
	for kind, n := range s.UpstreamFailures {
		gitFailures.send(ch, float64(n), kind)
	}
	for _, r := range s.Busiest {
		gitByRepo.send(ch, float64(r.Served), r.Name)
	}
}
