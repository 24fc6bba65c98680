package bazel

import (
	"fmt"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/shedcode"
)

// Service is both front ends over one store. It owns no goroutine.
type Service struct {
	opt    Options // filled
	kernel *levee.Kernel
	store  blobstore.Store
	codes  shedcode.Codes
	log    *accesslog.Log
	gates  gates
	zstd   *zstdPool
	count  counters
}

type gates struct {
	streams, exempt              *gate.Gate // the door; exempt is its reserve
	connections, httpConnections *gate.Gate
	write, read                  *gate.Gate
	batchUpdate, batchRead       *gate.Gate
	ac, findMissing              *gate.Gate
	cpu                          *gate.Gate
}

// New checks o, makes the gates, and registers the plan's lines. It starts nothing. An error names the settings that
// contradict each other; a plan that does not fit is found by Kernel.Start.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	set(&o.Memory, o.Kernel.Limit())
	o.fill(o.Memory)
	if err := o.contradictions(); err != nil {
		return nil, err
	}
	g, err := o.makeGates(o.Kernel)
	if err != nil {
		return nil, fmt.Errorf("bazel: %w", err)
	}
	z, err := newZstdPool(o.Compressors)
	if err != nil {
		return nil, fmt.Errorf("bazel: %w", err)
	}
	o.addLines(o.Kernel, g)
	if o.Codes.Settings == nil {
		o.Codes.Settings = shedSettings
	}
	s := &Service{opt: o, kernel: o.Kernel, store: o.Store, codes: o.Codes, log: o.Log, gates: g, zstd: z}
	o.Kernel.AddStatus("bazel", func() any { return s.Counters() })
	return s, nil
}

// key is what fairness is between for a call of an instance by a principal.
func (s *Service) key(principal, instance string) string {
	if s.opt.FairBy == FairByInstance {
		return "instance:" + instance
	}
	return principal
}
