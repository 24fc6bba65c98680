package graphql

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/metrics"
	"time"
)

// sampleLine is what is written at each interval, one JSON object a line.
type sampleLine struct {
	Time      time.Time         `json:"time"`
	HeapBytes uint64            `json:"heap_bytes"` // live objects, as the collector last saw them, and what came since
	Level     string            `json:"level"`
	Pauses    uint64            `json:"gc_pauses"`            // stops of the world by the collector since the start
	PauseMost float64           `json:"gc_pause_max_seconds"` // the longest of them, as its histogram tells
	Cycles    uint64            `json:"gc_cycles"`
	Open      int               `json:"connections_open"`
	Instances InstanceStatus    `json:"instances"`
	Sheds     map[string]uint64 `json:"sheds"`
}

// sample appends to the file until ctx ends. A file that cannot be written is reported once, and sampling ends: it is for people
// who look at it.
func (s *Service) sample(ctx context.Context) error {
	f, err := os.OpenFile(s.opt.SampleFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("graphql.sample_file: %w", err)
	}
	defer f.Close()
	tick := time.NewTicker(s.opt.SampleEvery)
	defer tick.Stop()
	out := json.NewEncoder(f)
	for {
		if err := out.Encode(s.sampleNow()); err != nil {
			s.logger.Error("graphql sampling ends", "file", s.opt.SampleFile, "error", err.Error())
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Service) sampleNow() sampleLine {
	read := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}, {Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(read)
	line := sampleLine{Time: time.Now().UTC(), HeapBytes: read[0].Value.Uint64(), Cycles: read[1].Value.Uint64(), Level: s.kernel.Level().String()}
	pauses := read[2].Value.Float64Histogram()
	for i, n := range pauses.Counts {
		line.Pauses += n
		if n > 0 {
			line.PauseMost = pauses.Buckets[i] // the bucket's lower bound: the last may have no upper one
		}
	}
	var st Status
	s.count.into(&st)
	line.Open, line.Instances, line.Sheds = s.pool.Stats().Open, instanceStatus(s.cache.Stats()), st.Sheds
	return line
}
