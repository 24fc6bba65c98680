package storm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leveehq/levee/internal/bytesize"
)

// GraphQLUnique sends texts no two of which are equal. What a server keeps of them must not grow without end.
type GraphQLUnique struct {
	GraphQLOptions

	Clients int  `help:"Clients, each of which sends one text after the other." default:"16"`
	Texts   int  `help:"Texts that are sent in all." default:"200000"`
	Size    Size `help:"Bytes of each text." default:"10000"`

	// Warm texts come before memory is held to be flat: until then caches fill.
	Warm      int  `help:"Texts after which memory must be flat." default:"10000"`
	MaxGrowth Size `help:"What the resident set may grow by after those; it is not judged without an admin address or a process id." default:"16MiB"`
}

func (s *GraphQLUnique) name() string            { return "unique" }
func (s *GraphQLUnique) common() *GraphQLOptions { return &s.GraphQLOptions }

func (s *GraphQLUnique) validate() error {
	errs := []error{
		numberRange{"clients", s.Clients, 1, maxGraphQLClients}.check(),
		numberRange{"texts", s.Texts, 1, maxGraphQLRequests}.check(),
		numberRange{"size", int(s.Size), 100, 1 << 20}.check(),
		numberRange{"warm", s.Warm, 0, s.Texts}.check(),
	}
	return errors.Join(errs...)
}

func (s *GraphQLUnique) run(ctx context.Context, r *graphqlRun) ([]*tally, error) {
	t := r.tally("unique")
	var sent atomic.Int64
	var flat atomic.Int64 // resident set when the caches had filled; a peak, so that a collection does not hide growth
	closedLoop(r.offer, s.Clients, min(s.Texts, s.Requests), func(int) {
		n := sent.Add(1)
		if int(n) == s.Warm+1 {
			flat.Store(max(r.peakRSS(), 1))
		}
		s.ask(ctx, r, t, n)
	})
	if n := int(sent.Load()); n < s.Texts {
		t.breaks(fmt.Sprintf("%d of %d texts were sent: give it a longer --duration", n, s.Texts))
	}
	t.noSheds()
	if before := flat.Load(); before > 1 {
		grown := r.peakRSS() - before
		t.note(fmt.Sprintf("peak RSS %s after the first %d texts, %s more at the end", bytesize.Format(before), s.Warm, bytesize.Format(grown)))
		if grown > int64(s.MaxGrowth) {
			t.breaks(fmt.Sprintf("the resident set grew by %s after the first %d texts, above %s", bytesize.Format(grown), s.Warm, bytesize.Format(int64(s.MaxGrowth))))
		}
	}
	return []*tally{t}, nil
}

func (s *GraphQLUnique) ask(ctx context.Context, r *graphqlRun, t *tally, n int64) {
	t.offered.Add(1)
	t.open.Add(1)
	defer t.open.Add(-1)
	tenant, began := tenantName(int(n)%s.Tenants), time.Now()
	a, err := r.http.ask(ctx, r.o.Target+"/"+tenant, graphqlRequest{Query: uniqueText(n, int(s.Size))}.body())
	switch {
	case err != nil:
		t.graphqlFailed("no answer", fmt.Sprintf("%s had no answer: %v", tenant, withoutURL(err)))
	case a.status != 200:
		t.graphqlTurnedAway(a, tenant)
	case !strings.Contains(string(a.body), fmt.Sprintf(`"x%d"`, n)) || strings.Contains(string(a.body), `"errors"`):
		t.graphqlFailed("200", "a 200 that does not answer what was asked")
	default:
		t.latency.add(time.Since(began))
		t.bytes.Add(int64(len(a.body)))
		t.ok.Add(1)
	}
}

// uniqueText has one alias that nobody else has, and fields that merge into one, so that it is long but asks for little.
func uniqueText(n int64, size int) string {
	const field = "__typename "
	head, tail := fmt.Sprintf("{ x%d: __typename query { ", n), "} }"
	return head + strings.Repeat(field, max((size-len(head)-len(tail))/len(field), 1)) + tail
}

// peakRSS since the scenario began; 0 if nobody tells.
func (r *graphqlRun) peakRSS() int64 {
	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	return r.watch.mu.peak
}
