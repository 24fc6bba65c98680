package sqlgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func heap() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// padding makes a text long without making it mean more.
var padding = strings.Repeat(" # comment\n", 900)

// idle is a DB that runs nothing.
type idle struct{}

var errIdle = errors.New("nothing is run")

func (idle) DoAll(context.Context, []Statement) error { return errIdle }

func compileOnly(t *testing.T, e *Engine, query string) {
	t.Helper()
	_, _ = e.Execute(t.Context(), idle{}, Request{Query: query, Variables: map[string]any{}}) // errIdle, or data without a database
}

func TestSizeIsWhatKeptPlansTake(t *testing.T) {
	e, _ := forum(t, Options{PlanBytes: 64 << 20})
	compileOnly(t, e, "{ allPosts { totalCount } }")
	before, size := heap(), e.Size()
	for i := range 300 {
		query := fmt.Sprintf(`query ($n%d: Int = 3) { a%[1]d: allPosts(first: $n%[1]d, condition: { topic: "t%[1]d" }) { nodes { b%[1]d: headline rowId personByAuthorId { username }
			commentsByPostId(first: 2) { totalCount nodes { body } } } pageInfo { hasNextPage endCursor } } } %s`, i, padding)
		compileOnly(t, e, query)
		compileOnly(t, e, query)
	}
	took, said := heap()-before, e.Size()-size
	runtime.KeepAlive(e)
	t.Logf("300 plans take %d bytes and are said to take %d", took, said)
	if said < took*8/10 || said > took*16/10 {
		t.Errorf("300 plans take %d bytes and are said to take %d", took, said)
	}
}

func TestTextsThatNeverComeAgainLeaveNothing(t *testing.T) {
	e, _ := forum(t, Options{})
	flood := func(from, n int) {
		for i := range n {
			compileOnly(t, e, fmt.Sprintf("{ x%d: __typename y%[1]d: postByRowId(rowId: %[1]d) { rowId } } %s", from+i, padding))
		}
	}
	flood(0, 300)
	before := heap()
	flood(300, 1000)
	if grown := heap() - before; grown > 256<<10 {
		t.Errorf("1,000 texts of 10 kB left %d bytes", grown)
	}
	if e.Size() > defaultPlanBytes+4096 {
		t.Errorf("plans take %d bytes of %d", e.Size(), defaultPlanBytes)
	}
	runtime.KeepAlive(e)
}

func TestAPlanAboveTheBudgetIsNotKept(t *testing.T) {
	e, _ := forum(t, Options{PlanBytes: 4 << 10})
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, " f%d: headline", i)
	}
	for range 3 {
		compileOnly(t, e, "{ allPosts { nodes {"+b.String()+" } } }")
	}
	if e.Size() > 4<<10 {
		t.Errorf("plans take %d bytes of %d", e.Size(), 4<<10)
	}
}

func TestOneEngineServesManyAtOnceWhilePlansComeAndGo(t *testing.T) {
	e, _ := forum(t, Options{PlanBytes: 16 << 10})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 300 {
				query := fmt.Sprintf("query ($n: Int, $o: [PostOrderBy!]) { f%d: allPosts(first: $n, orderBy: $o) { nodes { headline } } }", (g+i)%7)
				vars := map[string]any{"n": json.Number(fmt.Sprint(i % 5))}
				if i%3 == 0 {
					vars["o"] = []any{"SCORE_DESC"}
				}
				db := &recorder{}
				if _, err := e.Execute(t.Context(), db, Request{Query: query, Variables: vars}); !errors.Is(err, errStop) || len(db.asks) != 1 {
					t.Errorf("%s: %v after %d statements", query, err, len(db.asks))
				}
			}
		})
	}
	all.Wait()
	if e.Size() > 16<<10 {
		t.Errorf("plans take %d bytes of %d", e.Size(), 16<<10)
	}
}

func TestAPlanThatIsNotKeptIsChargedToItsRequest(t *testing.T) {
	e, _ := forum(t, Options{PlanBytes: 4 << 10})
	fields := func(n int) string { return "{ allPosts { nodes {" + strings.Repeat(" headline rowId", n) + " } } }" }
	for what, c := range map[string]struct {
		query string
		least int64
	}{
		"small":         {fields(1), 0},
		"introspection": {"{ __schema {" + strings.Repeat(" queryType { name }", 500) + " } }", 100 << 10},
	} {
		charged := int64(0)
		_, _ = e.Execute(t.Context(), idle{}, Request{Query: c.query, Grow: func(n int64) error { charged += n; return nil }})
		if charged < c.least || c.least == 0 && charged > 0 {
			t.Errorf("%s: charged with %d bytes, want %d", what, charged, c.least)
		}
	}
	var wide strings.Builder
	for i := range 150 {
		fmt.Fprintf(&wide, " f%d: personByAuthorId { username fullName }", i)
	}
	full := errors.New("full")
	if _, err := e.Execute(t.Context(), idle{}, Request{Query: "{ allPosts { nodes {" + wide.String() + " } } }", Grow: func(int64) error { return full }}); !errors.Is(err, full) {
		t.Errorf("a large plan without room for it: %v", err)
	}
}
