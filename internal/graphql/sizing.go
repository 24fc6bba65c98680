package graphql

import (
	"fmt"
	"sort"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/bytesize"
	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/graphql/pgpool"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// What is counted by number, in bytes; tests hold these figures.
const (
	// perRequest is what a request takes besides its connection: a body of usual size, its variables, a small answer.
	perRequest = 64 * kib

	// perToken is what a token of the worst document takes while that is parsed, checked and compiled.
	perToken = 840

	// perConnection is a connection to PostgreSQL: the buffers of both directions and what is known of its statements.
	perConnection = 96 * kib

	// perConnectionKernel is what the kernel buffers of it, as its defaults begin.
	perConnectionKernel = 512 * kib

	// leastInstances is what must fit beside one build.
	leastInstances = 4 * mib

	// buildPeak is the first guess at one build's peak; larger instances raise it.
	buildPeak = 4 * mib

	// answerFactor is how many times its length an answer takes: as it came from PostgreSQL, and as JSON.
	answerFactor = 3
)

// perCompile is what the worst document with so many tokens takes. One is compiled at a time: what comes again and again finds its
// plan, and what does not would otherwise multiply.
func perCompile(tokens int) int64 { return max(int64(tokens)*perToken, mib) }

// shares is how graphql.memory is divided, in bytes but for requests.
type shares struct {
	requests  int64 // at once, of usual size
	bodies    int64 // large requests that are being read
	variables int64 // what large requests have become
	answers   int64 // large answers, all requests together
	tokens    int64 // verified tokens
	instances int64 // the residency cache, one build included
}

// leastShare is what the residency cache needs.
const leastShare = leastInstances + buildPeak

// divide makes lines out of graphql.memory.
func (o *Options) divide() (shares, error) {
	asked := *o
	s := o.share()
	if s.instances >= leastShare {
		return s, nil
	}
	return s, fmt.Errorf("graphql.memory (%s) leaves %s for instances, which need %s at least: raise graphql.memory to %s, or lower graphql.connections (%d), graphql.max_tokens (%d) or graphql.max_response (%s)",
		bytesize.Format(o.Memory), bytesize.Format(max(s.instances, 0)), bytesize.Format(leastShare), bytesize.Format(asked.enough()), o.Connections, o.Limits.Tokens, bytesize.Format(o.MaxResponse))
}

// share sizes the lines. Live Go memory takes 1/0.55 of its size, and a twentieth of everything is the margin.
func (o *Options) share() (s shares) {
	m := o.Memory
	s.requests = clamp(m/(2*mib), 32, 512)
	s.tokens = clamp(m/256, 256*kib, 4*mib)
	kernel := s.requests*o.Connection.Kernel + int64(o.Connections)*perConnectionKernel
	live := (m-m/20-kernel)*11/20 - s.requests*(perRequest+o.Connection.Live) - s.tokens - int64(o.Connections)*perConnection - perCompile(o.Limits.Tokens)
	set(&o.MaxResponse, clamp(m/16, mib, 64*mib))
	s.bodies = max(o.MaxBody*bodyFactor, live/32)
	s.variables = max(2*o.MaxBody+mib, live/24)
	s.answers = max(o.MaxResponse*answerFactor, live/8)
	s.instances = live - s.answers - s.bodies - s.variables
	return s
}

// enough is the least graphql.memory, in whole MiB, that would do: not all of what is added is for instances, for other shares grow too.
func (o Options) enough() int64 {
	return mib * int64(sort.Search(1<<30, func(m int) bool {
		with := o
		with.Memory = int64(m) * mib
		return with.share().instances >= leastShare
	}))
}

type gates struct{ requests, bodies, variables, answers, compile *gate.Gate }

// queue bounds those who wait at the door. They have a connection each, of which there are fewer, and a small body.
const queue = 1024

func (o *Options) makeGates(k *levee.Kernel, s shares) (g gates, err error) {
	mk := func(dst **gate.Gate, opt gate.Options) {
		if err == nil {
			*dst, err = k.NewGate(opt, false)
		}
	}
	mk(&g.requests, gate.Options{Name: "graphql_requests", Limit: s.requests, PerKeyContended: max(1, s.requests/2), Queue: queue, QueuePerKey: queue / 2, Wait: o.Wait})
	mk(&g.bodies, gate.Options{Name: "graphql_bodies", Limit: s.bodies, PerKeyContended: max(1, s.bodies/2), Queue: queue, QueuePerKey: queue / 2, Wait: o.Wait})
	mk(&g.variables, gate.Options{Name: "graphql_variables", Limit: s.variables, Queue: queue, QueuePerKey: queue / 2, Wait: o.Wait})
	mk(&g.answers, gate.Options{Name: "graphql_answers", Limit: s.answers, MaxCost: s.answers, Queue: queue, Wait: o.Wait})
	mk(&g.compile, gate.Options{Name: "graphql_compile", Limit: 1, Queue: queue, QueuePerKey: queue / 2, Wait: o.Wait})
	return g, err
}

func (s *Service) addLines() {
	k, o, sh := s.kernel, &s.opt, s.shares
	line := func(account string, kind levee.Kind, n int64, unit string, per int64, setting, note string, inUse func() int64) {
		k.AddLine(levee.Line{Account: account, Kind: kind, Units: n, Unit: unit, PerUnit: per, Setting: setting, Note: note, InUse: inUse})
	}
	of := func(g *gate.Gate, per int64) func() int64 { return func() int64 { return g.Stats().InUse * per } }
	pool := func(per int64) func() int64 { return func() int64 { return int64(s.pool.Stats().Open) * per } }
	line("graphql_requests", levee.KindGo, sh.requests, "request", perRequest, "graphql.memory", "Requests in flight: bodies, variables, small answers.", of(s.gates.requests, perRequest))
	line("graphql_bodies", levee.KindGo, sh.bodies, "byte", 1, "graphql.max_body", "Large requests that are being read.", of(s.gates.bodies, 1))
	line("graphql_variables", levee.KindGo, sh.variables, "byte", 1, "graphql.memory", "Texts and variables of large requests, taken apart.", of(s.gates.variables, 1))
	line("graphql_answers", levee.KindGo, sh.answers, "byte", 1, "graphql.max_response", "Large answers, as rows and as JSON.", of(s.gates.answers, 1))
	line("graphql_compile", levee.KindGo, 1, "document", perCompile(o.Limits.Tokens), "graphql.max_tokens", "Documents being parsed, checked and compiled.", of(s.gates.compile, perCompile(o.Limits.Tokens)))
	line("graphql_tokens", levee.KindGo, sh.tokens, "byte", 1, "graphql.memory", "Tokens that were verified.", nil)
	line("graphql_instances", levee.KindGo, sh.instances, "byte", 1, "graphql.memory", "Tenants' catalogs, schemas and compiled operations, and one build.", func() int64 { return s.cache.Stats().Charged })
	line("graphql_connections", levee.KindGo, int64(o.Connections), "connection", perConnection, "graphql.connections", "Connections to PostgreSQL.", pool(perConnection))
	line("graphql_sockets", levee.KindKernel, int64(o.Connections), "connection", perConnectionKernel, "graphql.connections", "Kernel buffers of connections to PostgreSQL.", pool(perConnectionKernel))
	k.AddDescriptors(int64(o.Connections)+sh.requests, "graphql")
}

func clamp(n, lo, hi int64) int64 { return max(lo, min(n, hi)) }

func (o *Options) poolOptions(k *levee.Kernel) pgpool.Options {
	return pgpool.Options{
		Budget: o.Connections, PerDatabase: o.ConnectionsPerDatabase, Wait: o.Wait, Queue: queue, Pooler: o.Pooler,
		MaxMessage: o.MaxResponse, Logger: o.Logger, NewID: newID,
		NewGate: func(g gate.Options) (*gate.Gate, error) { return k.NewGate(g, false) },
	}
}

// tokenCache shares the memory of verified tokens between verifiers.
func (s *Service) tokenCache(a auth.Options) auth.Options {
	a.CacheBytes = int(s.shares.tokens / max(1, int64(s.verifiersPlanned())))
	if a.Logger == nil {
		a.Logger = s.logger
	}
	return a
}
