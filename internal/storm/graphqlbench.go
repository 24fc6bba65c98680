package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/bytesize"
)

// GraphQLBench compares servers of one schema, the forum's, operation by operation and turn by turn: each is loaded alone, in
// short slices that alternate, so that what else the machine does falls on all.
type GraphQLBench struct {
	GraphQLOptions

	Against    map[string]string `help:"Another server to compare with, as NAME=URL; may be repeated." placeholder:"NAME=URL" mapsep:"none"`
	AgainstPID map[string]int    `name:"against-pid" help:"Process id of another server, as NAME=PID; may be repeated." placeholder:"NAME=PID" mapsep:"none"`

	PostgresPID int `name:"postgres-pid" help:"Process id of PostgreSQL's postmaster, to measure it and its children." placeholder:"PID"`

	Operations []string      `help:"Operations to run: ${enum}." default:"lookup,list,nested" enum:"lookup,list,nested"`
	Clients    int           `help:"Clients, each of which sends one request after the other." default:"16"`
	Rounds     int           `help:"Slices of each operation and server." default:"3"`
	Slice      time.Duration `help:"Time of one slice." default:"5s"`
	Warmup     time.Duration `help:"Time before the first slice of each operation and server, which does not count." default:"3s"`

	Want        map[string]float64 `help:"Least ratio of requests a second, as OPERATION/NAME=RATIO; may be repeated." placeholder:"OPERATION/NAME=RATIO" mapsep:"none"`
	PostgresCPU []string           `name:"postgres-cpu-within" help:"Server whose PostgreSQL CPU per request may not be passed; may be repeated." placeholder:"NAME"`
}

func (s *GraphQLBench) name() string            { return "bench" }
func (s *GraphQLBench) common() *GraphQLOptions { return &s.GraphQLOptions }

func (s *GraphQLBench) validate() error {
	errs := []error{
		numberRange{"clients", s.Clients, 1, maxGraphQLClients}.check(),
		numberRange{"rounds", s.Rounds, 1, 1000}.check(),
		numberRange{"postgres-pid", s.PostgresPID, 0, 1 << 31}.check(),
		checkDuration("slice", s.Slice), checkDuration("warmup", s.Warmup),
	}
	for _, name := range sortedKeys(s.Against) {
		u := s.Against[name]
		errs = append(errs, graphqlURL("against "+name, &u, s.Remote))
		s.Against[name] = u
	}
	for _, name := range append(sortedKeys(s.AgainstPID), s.PostgresCPU...) {
		if s.Against[name] == "" {
			errs = append(errs, fmt.Errorf("there is no --against %s=URL", name))
		}
	}
	if len(s.PostgresCPU) > 0 && s.PostgresPID == 0 {
		errs = append(errs, errors.New("postgres-cpu-within needs a --postgres-pid to measure"))
	}
	for _, key := range sortedKeys(s.Want) {
		operation, name, _ := strings.Cut(key, "/")
		if s.Against[name] == "" || !slices.Contains(s.Operations, operation) {
			errs = append(errs, fmt.Errorf("want %s is not OPERATION/NAME of an operation that runs and a server that is compared with", key))
		}
	}
	servers := time.Duration(1 + len(s.Against))
	total := time.Duration(len(s.Operations)) * servers * (s.Warmup + time.Duration(s.Rounds)*s.Slice)
	errs = append(errs, checkDuration("the time of all slices", total))
	s.Duration = max(s.Duration, total+time.Minute)
	return errors.Join(errs...)
}

// operation is one of the forum's, with variables drawn anew for each request.
type operation struct {
	text      string
	variables func(rng *rand.Rand) map[string]any
}

// forumOperations have names that a server without a compiler can choose by.
var forumOperations = map[string]operation{
	"lookup": {"query lookup($id: Int!) { personByRowId(rowId: $id) { rowId username firstName lastName mood } }",
		func(rng *rand.Rand) map[string]any { return map[string]any{"id": 1 + rng.IntN(200)} }},
	"list": {"query list($offset: Int!) { allPosts(first: 50, offset: $offset) { nodes { rowId headline topic score personByAuthorId { rowId username } } } }",
		func(rng *rand.Rand) map[string]any { return map[string]any{"offset": 50 * rng.IntN(30)} }},
	"nested": {"query nested($offset: Int!) { allForums(first: 5, offset: $offset) { nodes { rowId slug name postsByForumId(first: 5) { nodes { rowId headline commentsByPostId(first: 3) { nodes { rowId body } } } } } } }",
		func(rng *rand.Rand) map[string]any { return map[string]any{"offset": rng.IntN(6)} }},
}

func (o operation) body(name string, rng *rand.Rand) []byte {
	return graphqlRequest{Query: o.text, OperationName: name, Variables: o.variables(rng)}.body()
}

// benched is a server that takes part.
type benched struct {
	name, url string
	pid       int
	meter     *treeMeter // nil without a process id
}

// thisServer is the name of the one whose promises are judged.
const thisServer = "levee"

func (s *GraphQLBench) servers() (all []*benched, err error) {
	all = []*benched{{name: thisServer, url: s.Target, pid: s.PID}}
	for _, name := range sortedKeys(s.Against) {
		all = append(all, &benched{name: name, url: s.Against[name], pid: s.AgainstPID[name]})
	}
	for _, b := range all {
		if b.pid == 0 {
			continue
		}
		if b.meter, err = newTreeMeter(b.pid); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *GraphQLBench) run(ctx context.Context, r *graphqlRun) ([]*tally, error) {
	servers, err := s.servers()
	if err != nil {
		return nil, err
	}
	var postgres *treeMeter
	if s.PostgresPID != 0 {
		if postgres, err = newTreeMeter(s.PostgresPID); err != nil {
			return nil, err
		}
	}
	books := r.tally("bench")
	for _, name := range s.Operations {
		b := &benchRun{r: r, s: s, name: name, op: forumOperations[name], books: books, postgres: postgres, results: map[string]*benchResult{}}
		if err := b.compare(ctx, servers); err != nil {
			return []*tally{books}, fmt.Errorf("%s: %w", name, err)
		}
		if err := b.alternate(ctx, servers); err != nil {
			return []*tally{books}, fmt.Errorf("%s: %w", name, err)
		}
		for _, server := range servers {
			r.report.Bench = append(r.report.Bench, b.results[server.name].close())
		}
	}
	s.judge(r.report, books)
	books.noSheds()
	return []*tally{books}, nil
}

// benchRun is one operation.
type benchRun struct {
	r        *graphqlRun
	s        *GraphQLBench
	name     string
	op       operation
	books    *tally
	postgres *treeMeter
	results  map[string]*benchResult // by server
}

type benchResult struct {
	Bench
	latency histogram
}

func (b *benchResult) close() Bench {
	b.Latency = b.latency.latency()
	b.Requests = b.Latency.N
	return b.Bench
}

// compare holds that all servers answer the same, before it is asked which is quicker.
func (b *benchRun) compare(ctx context.Context, servers []*benched) error {
	rng := rand.New(rand.NewPCG(b.s.Seed, 0))
	for range 5 {
		body := b.op.body(b.name, rng)
		var first any
		for i, server := range servers {
			a, err := b.r.http.ask(ctx, server.url, body)
			if err != nil {
				return fmt.Errorf("%s does not answer: %w", server.name, withoutURL(err))
			}
			var answer any
			if err := json.Unmarshal(a.body, &answer); err != nil || a.status != 200 || bytes.Contains(a.body, []byte(`"errors"`)) {
				return fmt.Errorf("%s answers %d: %.300s", server.name, a.status, a.body)
			}
			if i == 0 {
				first = answer
			} else if !reflect.DeepEqual(answer, first) {
				b.books.breaks(fmt.Sprintf("%s: %s and %s answer differently to %s", b.name, thisServer, server.name, body))
			}
		}
	}
	return nil
}

func (b *benchRun) alternate(ctx context.Context, servers []*benched) error {
	for _, server := range servers {
		b.results[server.name] = &benchResult{Bench: Bench{Operation: b.name, Server: server.name}}
		b.load(ctx, server, b.s.Warmup, &histogram{})
	}
	for range b.s.Rounds {
		for _, server := range servers {
			if err := b.slice(ctx, server, b.results[server.name]); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// slice loads one server and measures it and PostgreSQL.
func (b *benchRun) slice(ctx context.Context, server *benched, result *benchResult) error {
	meters := map[*treeMeter]treeUse{}
	for _, m := range []*treeMeter{server.meter, b.postgres} {
		if m == nil {
			continue
		}
		meters[m] = treeUse{}
		if err := m.mark(); err != nil {
			return err
		}
	}
	looking, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for sleep(looking, benchLook) {
			for m := range maps.Keys(meters) {
				m.look() // one that is gone is found out below
			}
			if now, _, err := residentOf(server.pid); err == nil && server.pid != 0 {
				result.RSS = max(result.RSS, now)
			}
		}
	})
	began := time.Now()
	b.load(ctx, server, b.s.Slice, &result.latency)
	result.Seconds += time.Since(began).Seconds()
	stop()
	wg.Wait()
	for m := range meters {
		use, err := m.since()
		if err != nil {
			return fmt.Errorf("process %d: %w", m.pid, err)
		}
		if m == b.postgres {
			result.PostgresCPU += use.cpu.Seconds()
			result.PostgresAnon = max(result.PostgresAnon, use.anon)
		} else {
			result.CPU += use.cpu.Seconds()
		}
	}
	return nil
}

// benchLook is rare, because each look reads all of /proc on the processors that are measured.
const benchLook = 500 * time.Millisecond

// load is a closed loop against one server. What it answers is only glanced at: compare has read it.
func (b *benchRun) load(ctx context.Context, server *benched, d time.Duration, into *histogram) {
	offer, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var wg sync.WaitGroup
	for client := range b.s.Clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(b.s.Seed, uint64(client)))
			for offer.Err() == nil {
				b.one(ctx, server, b.op.body(b.name, rng), into)
			}
		})
	}
	wg.Wait()
}

func (b *benchRun) one(ctx context.Context, server *benched, body []byte, into *histogram) {
	t := b.books
	t.offered.Add(1)
	began := time.Now()
	a, err := b.r.http.ask(ctx, server.url, body)
	took := time.Since(began)
	switch {
	case err != nil:
		t.graphqlFailed("no answer", fmt.Sprintf("%s had no answer: %v", server.name, withoutURL(err)))
		sleep(ctx, shedPause)
	case a.status != 200:
		t.graphqlTurnedAway(a, server.name)
		sleep(ctx, shedPause)
	case !bytes.HasPrefix(a.body, []byte(`{"data":{`)) || bytes.Contains(a.body, []byte(`"errors":[`)):
		t.graphqlFailed("200", fmt.Sprintf("%s: a 200 with errors or without data", server.name))
	default:
		into.add(took)
		t.latency.add(took)
		t.bytes.Add(int64(len(a.body)))
		t.ok.Add(1)
	}
}

// judge holds the ratios against those wanted.
func (s *GraphQLBench) judge(report *GraphQLReport, books *tally) {
	ours := map[string]Bench{}
	for _, m := range report.Bench {
		if m.Server == thisServer {
			ours[m.Operation] = m
			continue
		}
		us := ours[m.Operation]
		v := Versus{m.Operation, m.Server, us.PerSecond() / max(m.PerSecond(), 1e-9)}
		report.Against = append(report.Against, v)
		if want := s.Want[m.Operation+"/"+m.Server]; v.Ratio < want {
			books.breaks(fmt.Sprintf("%s: %.2f times the requests a second of %s, below %g", m.Operation, v.Ratio, m.Server, want))
		}
		if slices.Contains(s.PostgresCPU, m.Server) && us.PostgresPerRequest() > m.PostgresPerRequest() {
			books.breaks(fmt.Sprintf("%s: PostgreSQL spends %.3f ms of CPU on a request, and %.3f with %s", m.Operation, us.PostgresPerRequest()*1e3, m.PostgresPerRequest()*1e3, m.Server))
		}
	}
	for _, m := range ours {
		if most := int64(s.MaxRSS); most > 0 && m.RSS > most {
			books.breaks(fmt.Sprintf("%s: the resident set reached %s, above %s", m.Operation, bytesize.Format(m.RSS), bytesize.Format(most)))
		}
	}
}
