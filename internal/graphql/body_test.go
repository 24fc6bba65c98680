package graphql

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/graphql/auth"
)

// swollen are variables that become as much as possible.
func swollen(length int) map[string]string {
	again := func(text string) string { return `{"a":[` + strings.Repeat(text, length/len(text)) + `1]}` }
	var keys strings.Builder
	for i := 0; keys.Len() < length; i++ {
		fmt.Fprintf(&keys, `"k%d":1,`, i)
	}
	const deep = 9_000 // the decoder stops at 10,000
	return map[string]string{
		"numbers": again("1,"), "texts": again(`"",`), "nulls": again("null,"), "objects": again("{},"), "objects of one": again(`{"":1},`),
		"lists": again("[],"), "lists of one": again("[1],"), "long text": `{"a":"` + strings.Repeat("x,", length/2) + `"}`,
		"keys": "{" + keys.String() + `"z":1}`, "depth": strings.Repeat(`{"":`, deep) + "1" + strings.Repeat("}", deep),
	}
}

func TestVariablesTakeNoMoreThanTheyWeigh(t *testing.T) {
	for _, length := range []int{4 * kib, 256 * kib} {
		for name, text := range swollen(length) {
			e := envelope{variables: json.RawMessage(text)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := e.request()
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(name, err)
			}
			took, said := int64(after.TotalAlloc-before.TotalAlloc), weigh([]byte(text))
			t.Logf("%s of %d bytes: allocated %d, weighed %d", name, len(text), took, said)
			if took > said+4*kib {
				t.Errorf("%s of %d bytes: allocated %d, weighed %d", name, len(text), took, said)
			}
			runtime.KeepAlive(r)
		}
	}
}

func TestWeighingSkipsTextsAndNeverReadsPastTheEnd(t *testing.T) {
	if plain, texts := weigh([]byte(`"aaaaaa"`)), weigh([]byte(`"{[,\",\\"`)); texts-plain > 4*perByte {
		t.Errorf("what is in a text weighs as if it were none: %d, %d", plain, texts)
	}
	rapid.Check(t, func(t *rapid.T) {
		weigh([]byte(rapid.StringMatching(`[\[\]{},"\\a1 ]*`).Draw(t, "text")))
	})
}

func TestLargeRequestsAreChargedForOrTurnedAway(t *testing.T) {
	k, err := levee.New(levee.Options{MemoryLimit: 512 * mib})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Kernel: k, Tenants: []Tenant{{DatabaseURL: "postgres://x@127.0.0.1:1/x", Schemas: []string{"a"}, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}}}})
	if err != nil {
		t.Fatal(err)
	}
	read := func(variables string) (*call, error) {
		body := `{"query":"{ __typename }","variables":` + variables + `}`
		c := &call{Service: s, w: httptest.NewRecorder(), r: httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(body)), name: "x"}
		c.r.Header.Set("Content-Type", "application/json")
		text, taken, err := c.receive()
		if err != nil {
			return c, err
		}
		defer taken()
		_, err = c.parse(text)
		return c, err
	}
	charged := func() int64 { return s.gates.variables.Stats().InUse }
	c, err := read(`{"a":"` + strings.Repeat("x", 100*kib) + `"}`)
	if n := charged(); err != nil || n < 100*kib {
		t.Errorf("100 KiB of text are charged with %d, %v", n, err)
	}
	if n := s.gates.bodies.Stats().InUse; n != 0 {
		t.Errorf("a request that was read still holds %d bytes", n)
	}
	c.release()
	c, err = read(`{"a":1}`)
	if charged() != 0 || err != nil {
		t.Errorf("a small one is charged with %d, %v", charged(), err)
	}
	c.release()
	var p *problem
	if _, err := read(swollen(200 * kib)["objects of one"]); !errors.As(err, &p) || p.status != http.StatusRequestEntityTooLarge || charged() != 0 {
		t.Errorf("more than there ever is room for: %v, and %d are held", err, charged())
	}

	// All at once: what is not charged for is not taken apart.
	var all sync.WaitGroup
	var most sync.Mutex
	peak := int64(0)
	for range 100 {
		all.Go(func() {
			c, err := read(swollen(20 * kib)["objects of one"])
			if err == nil {
				most.Lock()
				peak = max(peak, charged())
				most.Unlock()
			}
			c.release()
		})
	}
	all.Wait()
	if peak == 0 || peak > s.shares.variables || charged() != 0 {
		t.Errorf("at most %d of %d were charged, and %d are left", peak, s.shares.variables, charged())
	}
}
