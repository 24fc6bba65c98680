// Package accesslog writes one record per call, sampled, and one per shed, rate-bounded.
//
// It refuses to count for anybody: exact numbers are in the metrics. It drops records rather than slow a call down, and
// says in the next record how many it dropped. A storm of sheds and a storm of errors have separate bounds, so that
// neither hides the other.
package accesslog

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leveehq/levee/gate"
)

// Options of a Log. Zero values are right but for Logger.
type Options struct {
	// Logger receives the records. Its handler decides the form; nil is slog's default logger.
	Logger *slog.Logger

	// SampleOK: of the calls that went as they should, one in SampleOK is logged; 1 is all of them, 0 is the default of
	// 100. A miss is such a call: a cold build makes thousands; so is one that its client canceled. Too low and logging becomes the load; too high and a
	// quiet server says nothing for hours. Failed calls and sheds are never sampled.
	SampleOK int

	// MaxPerSecond bounds the records a second, half of them for sheds; 0 is the default of 50, and at least one of each
	// half is let through. What was left out is counted in the next record as "suppressed".
	MaxPerSecond int

	// Level tells the pressure level for shed records; nil leaves it "unknown".
	Level func() string
}

// Log is safe for concurrent use.
type Log struct {
	logger *slog.Logger
	sample uint64
	level  func() string

	ordinary atomic.Uint64 // calls that were candidates for sampling
	sheds    budget
	others   budget
}

// New returns a Log. It starts nothing.
func New(o Options) *Log {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.SampleOK <= 0 {
		o.SampleOK = 100
	}
	if o.MaxPerSecond <= 0 {
		o.MaxPerSecond = 50
	}
	if o.Level == nil {
		o.Level = func() string { return "unknown" }
	}
	l := &Log{logger: o.Logger, sample: uint64(o.SampleOK), level: o.Level}
	l.sheds.perSecond = max(1, o.MaxPerSecond/2)
	l.others.perSecond = max(1, o.MaxPerSecond-o.MaxPerSecond/2)
	return l
}

// Record of a finished call.
type Record struct {
	Proto    string // grpc, http, git
	Method   string // "/google.bytestream.ByteStream/Write", "PUT cas"
	Code     string // as the protocol writes it
	Key      string // fairness key: principal or peer
	Instance string
	Bytes    int64 // of payload, read or written
	Took     time.Duration
	Waited   time.Duration // of Took, in gates' queues
	Miss     bool          // nothing failed: what was asked for is not there
	Err      error         // nil if all went well; a *gate.Shed or an error with ShedReason() in it makes this a shed record

	// Of git alone; what is empty is left out.

	Repository string // host and path
	Outcome    string // what became of a request for a pack: hit, coalesced, generated, shed, …
	Agent      string // the client's User-Agent
	Stale      bool   // answered while upstream could not be asked
}

// canceled tells whether the client has left: a build that was stopped cancels all its calls at once, and nothing failed.
func (r *Record) canceled() bool { return r.Code == "Canceled" || errors.Is(r.Err, context.Canceled) }

// Call logs r, or does not: see Options. A call that sampling leaves out costs one atomic addition.
func (l *Log) Call(ctx context.Context, r Record) {
	if r.Err == nil || !isShed(r.Err) && (r.Miss || r.canceled()) {
		if (l.ordinary.Add(1)-1)%l.sample == 0 && l.others.take(time.Now()) {
			l.write(ctx, slog.LevelInfo, "call", l.attrs(r))
		}
		return
	}
	if isShed(r.Err) {
		if l.sheds.take(time.Now()) {
			l.write(ctx, slog.LevelWarn, shedMessage(r), l.shedAttrs(r))
		}
		return
	}
	if l.others.take(time.Now()) {
		l.write(ctx, slog.LevelWarn, "call failed", append(l.attrs(r), slog.String("error", r.Err.Error())))
	}
}

// write adds what was left out since the last record of any kind: after a storm of sheds the next quiet call tells.
func (l *Log) write(ctx context.Context, level slog.Level, msg string, attrs []slog.Attr) {
	sheds, others := l.sheds.left.Swap(0), l.others.left.Swap(0)
	if sheds+others > 0 {
		attrs = append(attrs, slog.Uint64("suppressed", sheds+others), slog.Uint64("suppressed_sheds", sheds))
	}
	l.logger.LogAttrs(ctx, level, msg, attrs...)
}

func (l *Log) attrs(r Record) []slog.Attr {
	a := make([]slog.Attr, 0, 20)
	a = append(a,
		slog.String("proto", r.Proto),
		slog.String("method", r.Method),
		slog.String("code", r.Code),
		slog.String("key", r.Key),
		slog.Int64("bytes", r.Bytes),
		slog.Float64("took_ms", milliseconds(r.Took)),
	)
	if r.Instance != "" {
		a = append(a, slog.String("instance", r.Instance))
	}
	if r.Waited > 0 {
		a = append(a, slog.Float64("waited_ms", milliseconds(r.Waited)))
	}
	for _, text := range []struct{ name, value string }{
		{"repository", r.Repository}, {"outcome", r.Outcome}, {"user_agent", r.Agent},
	} {
		if text.value != "" {
			a = append(a, slog.String(text.name, text.value))
		}
	}
	if r.Stale {
		a = append(a, slog.Bool("stale", true))
	}
	return a
}

// shedAttrs answer "why was I turned away" without a second look anywhere. The pressure level is not called "level":
// slog's handlers write the severity under that name, and a JSON object with one key twice is read differently by each
// collector.
func (l *Log) shedAttrs(r Record) []slog.Attr {
	var g *gate.Shed
	if !errors.As(r.Err, &g) {
		// No gate: there is no queue and no limit that could be quoted, the error says what is short.
		var s shedReasoner
		errors.As(r.Err, &s)
		by := "store"
		if other, ok := s.(interface{ ShedBy() string }); ok {
			by = other.ShedBy()
		}
		return append(l.attrs(r), slog.String("gate", by), slog.String("reason", s.ShedReason()),
			slog.String("pressure_level", l.level()), slog.String("error", s.Error()))
	}
	if r.Key == "" {
		r.Key = g.Key
	}
	if r.Waited == 0 {
		r.Waited = g.Waited
	}
	return append(l.attrs(r),
		slog.String("gate", g.Gate),
		slog.String("reason", string(g.Reason)),
		slog.Int64("cost", g.Cost),
		slog.Int64("in_use", g.InUse),
		slog.Int64("limit", g.Limit),
		slog.Int("queue", g.Queued),
		slog.String("pressure_level", l.level()),
	)
}

// shedReasoner is a shed that no gate decided. It was the store, unless a method ShedBy says otherwise.
type shedReasoner interface {
	error
	ShedReason() string
}

func isShed(err error) bool {
	if errors.Is(err, gate.ErrShed) {
		return true
	}
	var s shedReasoner
	return errors.As(err, &s)
}

// shedMessage is a fixed string per method, for alerts that match on text: "GRPC BYTESTREAM WRITE SHED" for
// /google.bytestream.ByteStream/Write, "HTTP PUT CAS SHED" for "PUT cas".
func shedMessage(r Record) string {
	m := strings.TrimPrefix(r.Method, "/")
	if service, method, ok := strings.Cut(m, "/"); ok {
		m = service[strings.LastIndexByte(service, '.')+1:] + " " + method
	}
	return strings.ToUpper(r.Proto + " " + m + " SHED")
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}

// budget lets through so many records in each second, and counts the rest.
type budget struct {
	perSecond int
	left      atomic.Uint64 // left out since the last record written
	mu        struct {
		sync.Mutex
		second time.Time // when the current one began
		used   int
	}
}

func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.mu.second) >= time.Second {
		b.mu.second, b.mu.used = now, 0
	}
	if b.mu.used >= b.perSecond {
		b.left.Add(1)
		return false
	}
	b.mu.used++
	return true
}
