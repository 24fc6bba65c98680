package storm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sort"
	"time"
)

// What provision makes and the scenarios ask for must agree; it is all here.
const (
	sentinelColumn = "tenant" // of every table, and the field of every answer that is checked
	napFunction    = "nap"    // takes seconds and sleeps, then returns the sentinel
	minTables      = 3        // the questions need them
	maxRows        = 100      // one page
)

// tenantName is the name of tenant i, from 0, and of its schema.
func tenantName(i int) string { return fmt.Sprintf("t%04d", i+1) }

// sentinelOf is what every row of a tenant says, and none of another's.
func sentinelOf(tenant string) string { return "row of " + tenant }

// tableNames of a tenant with n tables. Each but the first refers to the one before it, row to row.
func tableNames(n int) []string {
	names := []string{"project", "task", "comment", "label", "member", "document", "event", "invoice", "message"}
	for i := len(names); i < n; i++ {
		names = append(names, fmt.Sprintf("archive%d_item", i+1))
	}
	return names[:n]
}

// question is a request and how often the sentinel is in its answer.
type question struct {
	body  []byte
	count int
}

// questions are what tenants are asked, at random, in this proportion of ten: a look-up, a list with a forward relation, and
// three levels.
func questions(rows int) []question {
	var all []question
	lookup := func(id int) question {
		return question{graphqlRequest{
			Query:     "query Lookup($id: Int!) { projectByRowId(rowId: $id) { rowId tenant title } }",
			Variables: map[string]any{"id": id},
		}.body(), 1}
	}
	list := question{graphqlRequest{
		Query:     "query List($n: Int!) { allTasks(first: $n) { nodes { rowId tenant title projectByProjectId { rowId tenant title } } } }",
		Variables: map[string]any{"n": rows},
	}.body(), 2 * rows}
	nested := question{graphqlRequest{
		Query:     "query Nested($n: Int!) { allProjects(first: $n) { nodes { rowId tenant tasksByProjectId(first: $n) { nodes { rowId tenant commentsByTaskId(first: $n) { nodes { rowId tenant } } } } } } }",
		Variables: map[string]any{"n": rows},
	}.body(), 3 * rows}
	for i := range 5 {
		all = append(all, lookup(1+i%rows))
	}
	return append(all, list, list, list, nested, nested)
}

// napQuestion takes about as long as it says.
func napQuestion(d time.Duration) question {
	return question{graphqlRequest{
		Query:     "query Nap($s: Float!) { " + sentinelColumn + ": " + napFunction + "(seconds: $s) }",
		Variables: map[string]any{"s": d.Seconds()},
	}.body(), 1}
}

// askTenant asks one question of one tenant and books what comes. began is when it was due, so that a late generator or a
// full server does not hide. It tells whether the answer was right.
func (r *graphqlRun) askTenant(ctx context.Context, t *tally, tenant string, q question, began time.Time) bool {
	t.offered.Add(1)
	t.open.Add(1)
	defer t.open.Add(-1)
	a, err := r.http.ask(ctx, r.o.Target+"/"+tenant, q.body)
	if err != nil {
		t.graphqlFailed("no answer", fmt.Sprintf("%s had no answer: %v", tenant, withoutURL(err)))
		return false
	}
	if a.status != http.StatusOK {
		t.graphqlTurnedAway(a, tenant)
		return false
	}
	t.bytes.Add(int64(len(a.body)))
	switch err := a.check(sentinelOf(tenant), q.count); {
	case errors.Is(err, errForeign):
		t.wrong.Add(1)
		t.graphqlFailed("200", tenant+": "+err.Error())
	case errors.Is(err, errMissing):
		t.lost.Add(1)
		t.graphqlFailed("200", tenant+": "+err.Error())
	case err != nil:
		t.graphqlFailed("200", tenant+": "+err.Error())
	default:
		t.latency.add(time.Since(began))
		t.verified.Add(1)
		t.ok.Add(1)
		return true
	}
	return false
}

// graphqlTurnedAway books an answer that is not 200.
func (t *tally) graphqlTurnedAway(a *graphqlAnswer, tenant string) {
	code, err := a.shedCode()
	if err != nil {
		t.graphqlFailed(fmt.Sprint(a.status), tenant+": "+err.Error())
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.shed[Outcome{Code: fmt.Sprint(a.status), Reason: code}]++
}

// graphqlFailed books what breaks a promise whatever the scenario.
func (t *tally) graphqlFailed(code, text string) {
	t.breaks(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.failed[Outcome{Code: code, Reason: "broken promise"}]++
}

// noSheds is the promise of scenarios whose load a healthy server can serve.
func (t *tally) noSheds() {
	if n := t.shedCount(); n > 0 {
		t.breaks(fmt.Sprintf("%d of %d requests were shed; every one of this load should be served", n, t.offered.Load()))
	}
}

// judgeP99 says whether answers were as quick as was asked for; 0 does not judge.
func (t *tally) judgeP99(limit time.Duration) {
	if p99 := t.latency.quantile(0.99); limit > 0 && p99 > limit {
		t.breaks(fmt.Sprintf("took %s at the 99th percentile, above %s", short(p99), short(limit)))
	}
}

// tenantDraw draws tenants by Zipf's law: the k-th most popular with a weight of 1/k^exponent; 0 is uniform. Which tenant has
// which rank is drawn too, so that neighbours in a database are not neighbours in popularity. It has one user.
type tenantDraw struct {
	rng   *rand.Rand
	order []int
	below []float64 // sums of weights
}

func newTenantDraw(n int, exponent float64, seed uint64) *tenantDraw {
	d := &tenantDraw{rng: rand.New(rand.NewPCG(seed, uint64(n)))}
	d.order = d.rng.Perm(n)
	sum := 0.0
	for k := range n {
		sum += math.Pow(float64(k+1), -exponent)
		d.below = append(d.below, sum)
	}
	return d
}

func (d *tenantDraw) next() int {
	at := d.rng.Float64() * d.below[len(d.below)-1]
	return d.order[min(sort.SearchFloat64s(d.below, at), len(d.order)-1)]
}
