package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/governor"
)

// statusCollector turns one snapshot per scrape into the metrics of gates, plan and pressure. Its words are those of
// Status, in the same order.
type statusCollector struct{ status func() levee.Status }

var (
	gateInUse      = gauge("levee_gate_in_use", "Cost of the permits that are out, in the gate's unit.", "gate")
	gateLimit      = gauge("levee_gate_limit", "Cost that may be in use at once.", "gate")
	gatePermits    = gauge("levee_gate_permits", "Permits that are out.", "gate")
	gateQueue      = gauge("levee_gate_queue", "Callers that wait for a permit.", "gate")
	gateQueueLimit = gauge("levee_gate_queue_limit", "Callers that may wait.", "gate")
	gateKeys       = gauge("levee_gate_keys", "Keys that hold permits or wait; fairness is between these.", "gate")
	gateCanceled   = counter("levee_gate_canceled_total", "Callers that left the queue on their own.", "gate")
	gateShed       = counter("levee_gate_shed_total", "Callers turned away, by reason.", "gate", "reason")
	gateWait       = prometheus.NewDesc("levee_gate_wait_seconds",
		"Time that admitted callers waited; those admitted at once count as 0.", []string{"gate"}, nil)

	pressureLevel    = gauge("levee_pressure_level", "Pressure level: 0 normal, 1 evict, 2 shed.")
	pressureCause    = gauge("levee_pressure_cause", "1 for the input that holds the level above normal.", "cause")
	pressureShare    = gauge("levee_pressure_share", "The figure that the marks are held against: the greater of use and heap share.")
	pressureMark     = gauge("levee_pressure_mark", "Share from which the level begins.", "level")
	pressureUse      = gauge("levee_pressure_use_bytes", "Memory that cannot be reclaimed, by what it is.", "part")
	pressureUseShare = gauge("levee_pressure_use_share", "Memory that cannot be reclaimed, less the heap's slack, over the limit.")
	pressureHeap     = gauge("levee_pressure_heap_live_bytes", "Go heap found live by the last collection.")
	pressureShareGo  = gauge("levee_pressure_heap_share", "The greater of live heap and charged bytes, over GOMEMLIMIT.")
	pressureCharged  = gauge("levee_pressure_charged_bytes", "Bytes charged to accounts on the Go heap.")
	pressureGC       = gauge("levee_pressure_gc_cpu_share", "Share of all CPU that collections took of late.")
	pressureGCs      = counter("levee_pressure_collections_total", "Collections that the governor ran itself.")
	pressureError    = gauge("levee_pressure_meter_error", "1 while memory cannot be measured.")

	memoryLimit  = gauge("levee_memory_limit_bytes", "The memory limit that the plan is for.")
	goMemLimit   = gauge("levee_gomemlimit_bytes", "What the plan leaves for Go.")
	planBytes    = gauge("levee_plan_bytes", "Bytes that the plan sets aside for an account.", "account", "kind")
	accountInUse = gauge("levee_account_in_use_bytes", "Bytes charged to an account now; only of accounts that count.", "account")
	warnings     = gauge("levee_warnings", "Standing warnings; Status has their text.")
)

func (c statusCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- gateWait
	describe(ch, gateInUse, gateLimit, gatePermits, gateQueue, gateQueueLimit, gateKeys, gateCanceled, gateShed,
		pressureLevel, pressureCause, pressureShare, pressureMark, pressureUse, pressureUseShare, pressureHeap,
		pressureShareGo, pressureCharged, pressureGC, pressureGCs, pressureError,
		memoryLimit, goMemLimit, planBytes, accountInUse, warnings)
}

func (c statusCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.status()
	for _, g := range s.Gates {
		collectGate(ch, g)
	}
	collectPressure(ch, s.Level, s.Pressure)
	memoryLimit.send(ch, float64(s.Limit))
	goMemLimit.send(ch, float64(s.Plan.GoMemLimit))
	warnings.send(ch, float64(len(s.Warnings)))
	for _, l := range s.Plan.Lines {
		planBytes.send(ch, float64(l.Bytes), l.Account, string(l.Kind))
		if l.InUseBytes != nil {
			accountInUse.send(ch, float64(*l.InUseBytes), l.Account)
		}
	}
}

func collectGate(ch chan<- prometheus.Metric, g levee.GateStatus) {
	gateInUse.send(ch, float64(g.InUse), g.Name)
	gateLimit.send(ch, float64(g.Limit), g.Name)
	gatePermits.send(ch, float64(g.Held), g.Name)
	gateQueue.send(ch, float64(g.Queued), g.Name)
	gateQueueLimit.send(ch, float64(g.QueueLimit), g.Name)
	gateKeys.send(ch, float64(g.Keys), g.Name)
	gateCanceled.send(ch, float64(g.Canceled), g.Name)
	for reason, n := range g.Shed {
		gateShed.send(ch, float64(n), g.Name, string(reason))
	}
	buckets := make(map[float64]uint64, len(g.WaitBuckets))
	for i, n := range g.WaitBuckets {
		buckets[gate.WaitBounds[i]] = n
	}
	ch <- prometheus.MustNewConstHistogram(gateWait, g.Admitted, g.WaitSeconds, buckets, g.Name)
}

var causes = []governor.Cause{governor.CauseUse, governor.CauseHeap, governor.CauseBrink, governor.CauseLimiter, governor.CauseMeter}

func collectPressure(ch chan<- prometheus.Metric, level governor.Level, p governor.Reading) {
	pressureLevel.send(ch, float64(level))
	for _, cause := range causes {
		pressureCause.send(ch, oneIf(p.Cause == cause), string(cause))
	}
	pressureShare.send(ch, p.Share)
	pressureMark.send(ch, p.EvictMark, governor.Evict.String())
	pressureMark.send(ch, p.ShedMark, governor.Shed.String())
	u := p.Use
	for _, part := range []struct {
		name  string
		bytes int64
	}{
		{"anon", u.Anon}, {"shmem", u.Shmem}, {"unevictable", u.Unevictable}, {"kernel_stack", u.KernelStack},
		{"pagetables", u.PageTables}, {"sock", u.Sock}, {"slab_unreclaimable", u.Slab}, {"file_dirty", u.Dirty},
		{"file_writeback", u.Writeback}, {"charged_kernel", u.Charged},
	} {
		pressureUse.send(ch, float64(part.bytes), part.name)
	}
	pressureUseShare.send(ch, p.UseShare)
	pressureHeap.send(ch, float64(p.Heap.Live))
	pressureShareGo.send(ch, p.HeapShare)
	pressureCharged.send(ch, float64(p.ChargedGo))
	pressureGC.send(ch, p.GCShare)
	pressureGCs.send(ch, float64(p.OwnGCs))
	pressureError.send(ch, oneIf(p.Error != ""))
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
