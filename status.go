package levee

import (
	"maps"
	"slices"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/governor"
)

// Status is a snapshot of everything an operator may ask for. It marshals to JSON with bytes as integers.
type Status struct {
	Version       string           `json:"version,omitempty"`
	Started       time.Time        `json:"started"` // when the Kernel was made
	UptimeSeconds float64          `json:"uptime_seconds"`
	Limit         int64            `json:"limit_bytes"`
	LimitSource   LimitSource      `json:"limit_source"`
	Level         governor.Level   `json:"level"`
	Pressure      governor.Reading `json:"pressure"` // the inputs that the level came from
	Warnings      []string         `json:"warnings"`
	Plan          Plan             `json:"plan"`
	Gates         []GateStatus     `json:"gates"`
	Services      map[string]any   `json:"services"`
}

// GateStatus is gate.Stats with names for JSON.
type GateStatus struct {
	Name              string                 `json:"name"`
	InUse             int64                  `json:"in_use"`
	Limit             int64                  `json:"limit"`
	Held              int                    `json:"held"`
	Queued            int                    `json:"queued"`
	QueueLimit        int                    `json:"queue_limit"`
	Keys              int                    `json:"keys"`
	Admitted          uint64                 `json:"admitted"`
	AdmittedAfterWait uint64                 `json:"admitted_after_wait"`
	HandedOn          uint64                 `json:"handed_on"`
	WaitSeconds       float64                `json:"wait_seconds"`
	WaitBuckets       []uint64               `json:"wait_buckets"` // cumulative, per gate.WaitBounds
	Canceled          uint64                 `json:"canceled"`
	Shed              map[gate.Reason]uint64 `json:"shed"`
}

func gateStatus(s gate.Stats) GateStatus {
	return GateStatus{
		Name: s.Name, InUse: s.InUse, Limit: s.Limit, Held: s.Held, Queued: s.Queued, QueueLimit: s.QueueLimit,
		Keys: s.Keys, Admitted: s.Admitted, AdmittedAfterWait: s.AdmittedAfterWait, HandedOn: s.HandedOn,
		WaitSeconds: s.WaitSeconds, WaitBuckets: s.WaitBuckets, Canceled: s.Canceled, Shed: s.Shed,
	}
}

// Status takes the snapshot. Its parts are taken one after the other, so figures of different parts need not agree to the
// byte.
func (k *Kernel) Status() Status {
	now := time.Now()
	k.mu.Lock()
	gates := slices.Clone(k.mu.gates)
	sections := maps.Clone(k.mu.sections)
	warnings := k.mu.warnings // only ever appended to
	k.mu.Unlock()

	s := Status{
		Version: k.opts.Version, Started: k.born, UptimeSeconds: now.Sub(k.born).Seconds(),
		Limit: k.limit.bytes, LimitSource: k.limit.source, Level: k.gov.Level(), Pressure: k.gov.Reading(),
		Warnings: append([]string{}, warnings...), Plan: k.Plan(), // never null in JSON
		Gates: make([]GateStatus, 0, len(gates)), Services: make(map[string]any, len(sections)),
	}
	for _, g := range gates {
		s.Gates = append(s.Gates, gateStatus(g.Stats()))
	}
	for name, f := range sections {
		s.Services[name] = f()
	}
	return s
}
