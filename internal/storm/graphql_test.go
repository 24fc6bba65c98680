package storm

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

func smallZipf(target, admin string) *GraphQLZipf {
	return &GraphQLZipf{GraphQLOptions: smallGraphQL(target, admin), Exponent: 1, Rate: 1000}
}

func smallChurn(target, admin string) *GraphQLChurn {
	return &GraphQLChurn{GraphQLOptions: smallGraphQL(target, admin), Clients: 4, Settle: 300 * time.Millisecond}
}

func TestAHealthyGraphQLServerKeepsEveryPromise(t *testing.T) {
	for name, scenario := range map[string]func(f *fakeGraphQL, target, admin string) GraphQLScenario{
		"zipf": func(_ *fakeGraphQL, target, admin string) GraphQLScenario { return smallZipf(target, admin) },
		"cold": func(_ *fakeGraphQL, target, admin string) GraphQLScenario {
			return &GraphQLCold{GraphQLOptions: smallGraphQL(target, admin), Callers: 3, MaxBuilds: 1}
		},
		"churn": func(_ *fakeGraphQL, target, admin string) GraphQLScenario { return smallChurn(target, admin) },
		"drain": func(f *fakeGraphQL, target, admin string) GraphQLScenario {
			f.nap = func() { <-time.After(400 * time.Millisecond); f.add(metricDraining, -1) } // as long as PostgreSQL would sleep
			return &GraphQLDrain{GraphQLOptions: smallGraphQL(target, admin), Nap: 400 * time.Millisecond, Rounds: 2}
		},
		"unique": func(_ *fakeGraphQL, target, admin string) GraphQLScenario {
			return &GraphQLUnique{GraphQLOptions: smallGraphQL(target, admin), Clients: 4, Texts: 60, Size: 10_000, Warm: 10}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeGraphQL{}
			target, admin := f.start(t)
			r := runGraphQL(t, scenario(f, target, admin))
			keepsPromises(t, r)
			if r.Foreign != 0 || name != "unique" && r.Checked == 0 {
				t.Errorf("%d foreign rows in %d answers", r.Foreign, r.Checked)
			}
		})
	}
}

func TestFirstAndWarmRequestsAreToldApart(t *testing.T) {
	target, admin := (&fakeGraphQL{}).start(t)
	s := smallZipf(target, admin)
	s.Rate, s.Requests = 200, 100
	r := runGraphQL(t, s)
	first, warm := r.Sections[0], r.Sections[1]
	if first.Offered < 5 || first.Offered > 60 || warm.Offered+first.Offered != 100 {
		t.Errorf("%d first requests and %d others", first.Offered, warm.Offered)
	}
}

func TestEveryFaultOfAnAnswerIsNoticed(t *testing.T) {
	write := func(status int, header, body string) func(int64, string, http.ResponseWriter) bool {
		return func(n int64, _ string, w http.ResponseWriter) bool {
			if n != 30 {
				return false
			}
			if header != "" {
				w.Header().Set("Retry-After", header)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	code := func(c string) string { return `{"errors":[{"message":"m","extensions":{"code":"` + c + `"}}]}` }
	for want, instead := range map[string]func(int64, string, http.ResponseWriter) bool{
		"a foreign row":                    write(200, "", `{"data":{"projectByRowId":{"tenant":"row of another"}}}`),
		"rows are missing":                 write(200, "", `{"data":{"projectByRowId":null}}`),
		"a 200 with errors":                write(200, "", `{"data":null,"errors":[{"message":"m"}]}`),
		"a 200 whose body is no JSON":      write(200, "", `{`),
		"status 500: m":                    write(500, "", `{"errors":[{"message":"m"}]}`),
		"status 429: m (THROTTLED)":        write(429, "", code("THROTTLED")),
		"a 500 whose body is no JSON":      write(500, "", "oops"),
		"have no code of a shed, but \"\"": write(503, "3", `{"errors":[{"message":"m"}]}`),
		"but \"INTERNAL\"":                 write(503, "3", code("INTERNAL")),
		"whose Retry-After is \"\"":        write(503, "", code("SERVICE_OVERLOADED")),
		"whose Retry-After is \"0\"":       write(503, "0", code("BUILD_TIMEOUT")),
		"whose Retry-After is \"soon\"":    write(503, "soon", code("SERVICE_ROTATING")),
	} {
		t.Run(want, func(t *testing.T) {
			target, admin := (&fakeGraphQL{instead: instead}).start(t)
			r := runGraphQL(t, smallChurn(target, admin))
			breaksPromise(t, r, want)
			if foreign := strings.Contains(want, "foreign"); foreign != (r.Foreign == 1) {
				t.Errorf("%d foreign rows", r.Foreign)
			}
		})
	}
}

func TestAServerThatIsSilentIsNoticed(t *testing.T) {
	f := &fakeGraphQL{instead: func(n int64, _ string, w http.ResponseWriter) bool {
		if n == 30 {
			panic(http.ErrAbortHandler)
		}
		return false
	}}
	target, admin := f.start(t)
	breaksPromise(t, runGraphQL(t, smallChurn(target, admin)), "had no answer")
}

func TestShedsAreCountedByCodeAndAllowedInChurnOnly(t *testing.T) {
	f := &fakeGraphQL{instead: func(n int64, _ string, w http.ResponseWriter) bool {
		if n%3 != 0 {
			return false
		}
		shedAnswer(w)
		return true
	}}
	target, admin := f.start(t)
	r := runGraphQL(t, smallChurn(target, admin))
	keepsPromises(t, r)
	want := []Outcome{{Code: "503", Reason: "SERVICE_OVERLOADED", Count: 20}}
	if s := r.Sections[0]; !slices.Equal(s.Shed, want) || s.Admitted != 40 {
		t.Errorf("shed %+v, admitted %d", s.Shed, s.Admitted)
	}
	breaksPromise(t, runGraphQL(t, smallZipf(target, admin)), "requests were shed")
}

func TestSlowAnswersAreNoticed(t *testing.T) {
	slow := make(chan struct{})
	f := &fakeGraphQL{instead: func(n int64, _ string, _ http.ResponseWriter) bool {
		if n >= 50 {
			<-slow
		}
		return false
	}}
	target, admin := f.start(t)
	timer := time.AfterFunc(time.Second, func() { close(slow) })
	defer timer.Stop()
	s := smallZipf(target, admin)
	s.WarmLimit = 500 * time.Millisecond
	breaksPromise(t, runGraphQL(t, s), "at the 99th percentile, above 500ms")
}

func TestBuildsAreHeldAgainstWhatTheServerCounts(t *testing.T) {
	t.Run("too few", func(t *testing.T) {
		target, admin := (&fakeGraphQL{}).start(t)
		s := smallChurn(target, admin)
		s.MinBuilds = 1
		breaksPromise(t, runGraphQL(t, s), "0.0 builds a second, below 1")
	})
	t.Run("more than requests", func(t *testing.T) {
		f := &fakeGraphQL{}
		f.instead = func(int64, string, http.ResponseWriter) bool { f.add(metricBuilds, 2); return false }
		target, admin := f.start(t)
		breaksPromise(t, runGraphQL(t, smallChurn(target, admin)), "120 builds for 60 requests")
	})
	t.Run("callers that do not share", func(t *testing.T) {
		f := &fakeGraphQL{}
		f.instead = func(int64, string, http.ResponseWriter) bool { f.add(metricBuilds, 1); return false }
		target, admin := f.start(t)
		breaksPromise(t, runGraphQL(t, &GraphQLCold{GraphQLOptions: smallGraphQL(target, admin), Callers: 3, MaxBuilds: 1}), "5 tenants took 15 builds")
	})
	t.Run("too many at once", func(t *testing.T) {
		f := &fakeGraphQL{}
		f.instead = func(int64, string, http.ResponseWriter) bool { f.add(metricBuilding, 1); return false }
		target, admin := f.start(t)
		f.add(metricBuilding, 2)
		breaksPromise(t, runGraphQL(t, &GraphQLCold{GraphQLOptions: smallGraphQL(target, admin), Callers: 3, MaxBuilds: 1}), "builds were under way at once, above 1")
	})
}

func TestWhatIsLeftAfterChurnIsNoticed(t *testing.T) {
	f := &fakeGraphQL{}
	f.instead = func(int64, string, http.ResponseWriter) bool { f.add(metricGoroutines, 1); return false }
	target, admin := f.start(t)
	breaksPromise(t, runGraphQL(t, smallChurn(target, admin)), "80 goroutines are left")
}

func TestWhatGoesWrongInADrainIsNoticed(t *testing.T) {
	const nap = 300 * time.Millisecond
	gone := func(f *fakeGraphQL) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.mu.metrics[metricDraining] = 0
	}
	for want, during := range map[string]func(f *fakeGraphQL){
		"before its nap did":         func(f *fakeGraphQL) { <-time.After(nap / 2); gone(f) },
		"2 flushes made 4 instances": func(f *fakeGraphQL) { <-time.After(nap); gone(f); f.add(metricFlushed, 1) },
		"nothing drains while":       func(f *fakeGraphQL) { <-time.After(nap); gone(f) },
	} {
		t.Run(want, func(t *testing.T) {
			f := &fakeGraphQL{}
			f.nap = func() { during(f) }
			if strings.HasPrefix(want, "nothing") {
				f.instead = func(int64, string, http.ResponseWriter) bool { gone(f); return false }
			}
			target, admin := f.start(t)
			r := runGraphQL(t, &GraphQLDrain{GraphQLOptions: smallGraphQL(target, admin), Nap: nap, Rounds: 2})
			breaksPromise(t, r, want)
		})
	}
}

func TestMemoryThatGrowsUnderUniqueTextsIsNoticed(t *testing.T) {
	f := &fakeGraphQL{}
	f.instead = func(n int64, _ string, _ http.ResponseWriter) bool {
		f.add("process_resident_memory_bytes", 1<<20)
		if n == 20 || n == 60 {
			f.untilLooked()
		}
		return false
	}
	target, admin := f.start(t)
	s := &GraphQLUnique{GraphQLOptions: smallGraphQL(target, admin), Clients: 1, Texts: 60, Size: 1000, Warm: 20, MaxGrowth: 4 << 20}
	breaksPromise(t, runGraphQL(t, s), "the resident set grew by")
}

func TestNoTwoUniqueTextsAreEqualAndAllAreAsLongAsAskedFor(t *testing.T) {
	a, b := uniqueText(1, 10_000), uniqueText(2, 10_000)
	if a == b || len(a) < 9_980 || len(a) > 10_000 {
		t.Errorf("%d bytes: %.60s", len(a), a)
	}
}

func TestZipfAsksThePopularMoreOften(t *testing.T) {
	d := newTenantDraw(100, 1, 7)
	counts := make([]int, 100)
	for range 100_000 {
		counts[d.next()]++
	}
	first, last := counts[d.order[0]], counts[d.order[99]]
	if first < 18_000 || first > 20_500 || last < 130 || last > 260 { // 1/H(100) = 0.193, a hundredth of it
		t.Errorf("the first %d times, the hundredth %d times", first, last)
	}
}

func benchServer(t *testing.T, answer func(operation string) string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		body.ReadFrom(r.Body)
		for name := range forumOperations {
			if strings.Contains(body.String(), `"operationName":"`+name+`"`) {
				fmt.Fprint(w, answer(name))
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/graphql"
}

func smallBench(target, other string) *GraphQLBench {
	return &GraphQLBench{GraphQLOptions: smallGraphQL(target, ""), Against: map[string]string{"other": other},
		Operations: []string{"lookup", "list"}, Clients: 2, Rounds: 2, Slice: 50 * time.Millisecond, Warmup: time.Millisecond}
}

func TestServersAreComparedOperationByOperation(t *testing.T) {
	url := benchServer(t, func(name string) string { return `{"data":{"` + name + `":1}}` })
	s := smallBench(url, url)
	r := runGraphQL(t, s)
	keepsPromises(t, r)
	if len(r.Bench) != 4 || len(r.Against) != 2 || r.Bench[0].Requests == 0 || r.Against[1].Ratio <= 0 {
		t.Errorf("%+v %+v", r.Bench, r.Against)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "list against other: ") {
		t.Errorf("%v: %s", err, text.String())
	}
	s = smallBench(url, url)
	s.Want = map[string]float64{"list/other": 1000}
	breaksPromise(t, runGraphQL(t, s), "times the requests a second of other, below 1000")
}

func TestServersThatAnswerDifferentlyAreNotComparedInSilence(t *testing.T) {
	url := benchServer(t, func(string) string { return `{"data":{"n":1}}` })
	other := benchServer(t, func(string) string { return `{"data":{"n":2}}` })
	breaksPromise(t, runGraphQL(t, smallBench(url, other)), "levee and other answer differently")
}

func TestABenchOfErrorsIsNoBench(t *testing.T) {
	var n atomic.Int64
	url := benchServer(t, func(string) string {
		if n.Add(1) > 30 {
			return `{"data":{"x":null},"errors":[{"message":"m"}]}`
		}
		return `{"data":{"x":1}}`
	})
	s := smallBench(url, url)
	s.Operations = s.Operations[:1]
	breaksPromise(t, runGraphQL(t, s), "a 200 with errors or without data")
}

func TestGraphQLOptionsThatCannotBeAreNamed(t *testing.T) {
	for want, change := range map[string]func(s *GraphQLZipf){
		"loopback":                           func(s *GraphQLZipf) { s.Target = "http://192.0.2.1/graphql" },
		"is not http://HOST:PORT/PATH":       func(s *GraphQLZipf) { s.Target = "127.0.0.1:80" },
		"tenants is 0":                       func(s *GraphQLZipf) { s.Tenants = 0 },
		"rate is 0":                          func(s *GraphQLZipf) { s.Rate = 0 },
		"duration is 0s":                     func(s *GraphQLZipf) { s.Duration = 0 },
		"header \"x\" is not NAME: VALUE":    func(s *GraphQLZipf) { s.Header = []string{"x"} },
		"is no JSON object":                  func(s *GraphQLZipf) { s.JWTSecret, s.JWTClaims = "s", "[]" },
		"needs a --database-url":             func(s *GraphQLZipf) { s.MaxConnections = 1 },
		"\"192.0.2.1\", which is not a loop": func(s *GraphQLZipf) { s.DatabaseURL = "postgres://u:secret@127.0.0.1/d?host=192.0.2.1" },
	} {
		s := smallZipf("http://127.0.0.1:1/graphql", "")
		change(s)
		_, err := GraphQL(t.Context(), s, nil)
		if usage := (*UsageError)(nil); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", want, err)
		}
	}
	s := smallZipf("http://192.0.2.1/graphql", "")
	s.Remote = true
	if err := s.common().validate(); err != nil {
		t.Errorf("told to, it refuses: %v", err)
	}
}

func TestTheDefaultsOfEveryGraphQLScenarioAreValid(t *testing.T) {
	for _, s := range []GraphQLScenario{&GraphQLZipf{}, &GraphQLChurn{}, &GraphQLDrain{}, &GraphQLUnique{}, &GraphQLBench{}, &GraphQLCold{}} {
		if err := kong.ApplyDefaults(s); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.common().validate(), s.validate()); err != nil {
			t.Errorf("%s: %v", s.name(), err)
		}
	}
	o := ProvisionOptions{DatabaseURL: "postgres://postgres@127.0.0.1/postgres"}
	_ = kong.ApplyDefaults(&o) // says that a required flag is missing, once all others have their defaults
	o.DatabaseURL = "postgres://postgres@127.0.0.1/postgres"
	if err := o.validate(); err != nil || len(o.layout()) != 1000 {
		t.Errorf("provision: %v", err)
	}
}
