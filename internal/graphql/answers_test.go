package graphql

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// answersRig is a service with two connections and room for one answer of the largest size, and a function that gives such ones.
func answersRig(t *testing.T) *caseRig {
	db := pgtest.Database(t)
	pgtest.Exec(t, db, notes("ta")+`
		create function ta.big(kib int) returns text stable language sql as $$ select repeat('x', kib * 1024) $$;
		create function ta.write_big(kib int) returns text volatile language sql as
			$$ insert into ta.note values ((select max(id) + 1 from ta.note), 'u1', 'big', null); select repeat('x', kib * 1024) $$;
		alter function ta.write_big security definer`)
	return startCase(t, Options{Tenants: []Tenant{visitors(t, db, "ta")}, Connections: 2, Memory: 256 << 20, MaxResponse: 1 << 20, Wait: 4 * time.Second})
}

func TestRequestsThatWaitForBytesDoNotKeepTheConnectionsFromOthers(t *testing.T) {
	c := answersRig(t)
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	all, err := c.service.gates.answers.Admit(t.Context(), "slow readers", c.service.shares.answers)
	if err != nil {
		t.Fatal(err)
	}
	var large sync.WaitGroup
	for range 8 {
		large.Go(func() {
			began := time.Now()
			a := c.ask("ta", `{ big(kib: 500) }`)
			if took := time.Since(began); !a.turnedAway() || a.code() != CodeOverloaded || took > 2*time.Second {
				t.Errorf("a large answer: %d %.100s after %v", a.status, a.text, took)
			}
		})
	}
	began := time.Now()
	for range 20 {
		c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("20 small answers took %v", took)
	}
	large.Wait()
	time.AfterFunc(300*time.Millisecond, all.Release)
	if a := c.ask("ta", `mutation { writeBig(input: {kib: 500}) { result } }`); a.status != http.StatusOK || len(a.Errors) > 0 {
		t.Errorf("a mutation, which has had its effect, does not wait: %d %.200s", a.status, a.text)
	}
}

func TestAnAnswerDoesNotWaitForBytesThatItHoldsItself(t *testing.T) {
	c := answersRig(t)
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	n := int(c.service.shares.answers/answerFactor/(900<<10)) + 1
	var query strings.Builder
	for i := range n {
		query.WriteString(" w" + string(rune('a'+i)) + ": writeBig(input: {kib: 900}) { result }")
	}
	began := time.Now()
	a := c.ask("ta", "mutation {"+query.String()+"}")
	if took := time.Since(began); a.Data["wa"] == nil || len(a.Errors) == 0 || took > 3*time.Second {
		t.Errorf("after %v: %d %.300s", took, a.status, a.text)
	}
}
