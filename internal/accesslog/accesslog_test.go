package accesslog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leveehq/levee/gate"
)

// sink collects records as an operator's collector would see them.
type sink struct{ bytes.Buffer }

func (s *sink) records(t *testing.T) []map[string]any {
	t.Helper()
	var out []map[string]any
	for dec := json.NewDecoder(&s.Buffer); dec.More(); {
		m := map[string]any{}
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func newLog(o Options) (*Log, *sink) {
	s := &sink{}
	o.Logger = slog.New(slog.NewJSONHandler(s, nil))
	return New(o), s
}

func shedErr() error {
	return fmt.Errorf("write: %w", &gate.Shed{Gate: "write", Reason: gate.QueueFull, Key: "10.0.0.7", Cost: 65536,
		InUse: 33554432, Limit: 33554432, Queued: 2000, Waited: 3 * time.Second})
}

const write = "/google.bytestream.ByteStream/Write"

func TestAShedByteStreamWriteHasItsFixedMessageAndNamesEverything(t *testing.T) {
	l, s := newLog(Options{Level: func() string { return "evict" }})
	l.Call(context.Background(), Record{Proto: "grpc", Method: write, Code: "FailedPrecondition", Key: "10.0.0.7",
		Instance: "main", Bytes: 7, Took: 1500 * time.Microsecond, Err: shedErr()})
	got := s.records(t)
	if len(got) != 1 {
		t.Fatalf("%d records, want 1", len(got))
	}
	want := map[string]any{"msg": "GRPC BYTESTREAM WRITE SHED", "gate": "write", "reason": "queue_full",
		"key": "10.0.0.7", "in_use": 33554432.0, "limit": 33554432.0, "queue": 2000.0, "pressure_level": "evict", "cost": 65536.0,
		"code": "FailedPrecondition", "instance": "main", "bytes": 7.0, "took_ms": 1.5, "waited_ms": 3000.0}
	for k, v := range want {
		if got[0][k] != v {
			t.Errorf("%s is %v, want %v", k, got[0][k], v)
		}
	}
}

func TestShedMessagesAreFixedPerMethod(t *testing.T) {
	tests := []struct{ proto, method, want string }{
		{"grpc", write, "GRPC BYTESTREAM WRITE SHED"},
		{"grpc", "/build.bazel.remote.execution.v2.ActionCache/GetActionResult", "GRPC ACTIONCACHE GETACTIONRESULT SHED"},
		{"http", "PUT cas", "HTTP PUT CAS SHED"},
	}
	for _, tt := range tests {
		if got := shedMessage(Record{Proto: tt.proto, Method: tt.method}); got != tt.want {
			t.Errorf("message for %s is %q, want %q", tt.method, got, tt.want)
		}
	}
}

func TestACallThatItsClientCanceledIsNoWarning(t *testing.T) {
	l, s := newLog(Options{SampleOK: 2})
	for _, r := range []Record{
		{Proto: "grpc", Method: write, Code: "Canceled", Err: errors.New("the client has left")},
		{Proto: "grpc", Method: write, Code: "Canceled", Err: errors.New("the client has left")}, // sampled out
		{Proto: "http", Method: "PUT cas", Code: "499", Err: fmt.Errorf("put: %w", context.Canceled)},
	} {
		l.Call(context.Background(), r)
	}
	got := s.records(t)
	if len(got) != 2 {
		t.Fatalf("%d records of three calls of which one in two is logged", len(got))
	}
	for _, r := range got {
		if r["level"] != "INFO" || r["msg"] != "call" {
			t.Errorf("%v", r)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Error() string      { return "no space: min_free: 12 bytes free" }
func (fullDisk) ShedReason() string { return "min_free" }

func TestAShedThatNoGateDecidedNamesTheStore(t *testing.T) {
	l, s := newLog(Options{})
	l.Call(context.Background(), Record{Proto: "http", Method: "PUT cas", Code: "507", Key: "k", Err: fullDisk{}})
	got := s.records(t)[0]
	for k, v := range map[string]any{"msg": "HTTP PUT CAS SHED", "gate": "store", "reason": "min_free", "key": "k",
		"pressure_level": "unknown", "error": "no space: min_free: 12 bytes free"} {
		if got[k] != v {
			t.Errorf("%s is %v, want %v", k, got[k], v)
		}
	}
}

type coldMirror struct{}

func (coldMirror) Error() string      { return "it is still being made" }
func (coldMirror) ShedReason() string { return "cold" }
func (coldMirror) ShedBy() string     { return "mirror" }

func TestAGitRecordNamesRepositoryOutcomeAndAgent(t *testing.T) {
	l, s := newLog(Options{SampleOK: 1})
	r := Record{Proto: "git", Method: "fetch", Code: "200", Key: "10.0.0.7", Repository: "github.com/org/repo", Outcome: "hit", Agent: "git/2.39.5", Stale: true}
	l.Call(context.Background(), r)
	r.Code, r.Err, r.Stale = "429", coldMirror{}, false
	l.Call(context.Background(), r)
	got := s.records(t)
	for i, want := range []map[string]any{
		{"msg": "call", "repository": "github.com/org/repo", "outcome": "hit", "user_agent": "git/2.39.5", "stale": true},
		{"msg": "GIT FETCH SHED", "gate": "mirror", "reason": "cold", "stale": nil},
	} {
		for k, v := range want {
			if got[i][k] != v {
				t.Errorf("record %d: %s is %v, want %v", i, k, got[i][k], v)
			}
		}
	}
}

func TestOneInSampleOfTheGoodCallsIsLoggedAndMissesCountAsGood(t *testing.T) {
	l, s := newLog(Options{SampleOK: 10, MaxPerSecond: 1000})
	for i := range 100 {
		r := Record{Proto: "grpc", Method: "/a.B/Get", Code: "OK"}
		if i%2 == 1 {
			r.Code, r.Miss, r.Err = "NotFound", true, errors.New("not there")
		}
		l.Call(context.Background(), r)
	}
	if got := len(s.records(t)); got != 10 {
		t.Errorf("%d of 100 good calls were logged, want 10", got)
	}
	l.Call(context.Background(), Record{Proto: "grpc", Method: "/a.B/Get", Code: "NotFound", Miss: true, Err: shedErr()})
	if got := s.records(t); len(got) != 1 || got[0]["reason"] != "queue_full" {
		t.Errorf("a shed that was answered as a miss was not logged as a shed: %v", got)
	}
}

func TestRecordsAreBoundedPerSecondAndTheNextOneCountsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := newLog(Options{SampleOK: 1, MaxPerSecond: 20})
		shed := Record{Proto: "grpc", Method: write, Err: shedErr()}
		for range 500 {
			l.Call(t.Context(), shed)
		}
		if got := len(s.records(t)); got != 10 {
			t.Fatalf("%d shed records in one second, want 10", got)
		}
		l.Call(t.Context(), Record{Proto: "grpc", Method: write, Code: "OK"})
		got := s.records(t)
		if len(got) != 1 || got[0]["suppressed"] != 490.0 || got[0]["suppressed_sheds"] != 490.0 {
			t.Fatalf("the storm hid a good call or was not counted: %v", got)
		}
		time.Sleep(time.Second) // virtual
		l.Call(t.Context(), shed)
		got = s.records(t)
		if len(got) != 1 || got[0]["suppressed"] != nil {
			t.Fatalf("a new second: %v", got)
		}
	})
}

func TestErrorsAreNeverSampledButBounded(t *testing.T) {
	l, s := newLog(Options{SampleOK: 1000, MaxPerSecond: 8})
	for range 5 {
		l.Call(context.Background(), Record{Proto: "http", Method: "GET cas", Code: "500", Err: errors.New("i/o trouble")})
	}
	got := s.records(t)
	if len(got) != 4 || got[0]["error"] != "i/o trouble" || got[0]["level"] != "WARN" {
		t.Errorf("5 failures with room for 4 made %v", got)
	}
}

func TestACallThatIsSampledOutAllocatesNothing(t *testing.T) {
	l, _ := newLog(Options{SampleOK: 1 << 30})
	r := Record{Proto: "grpc", Method: write, Code: "OK", Key: "10.0.0.7"}
	l.Call(context.Background(), r) // the first of a sample is written
	if n := testing.AllocsPerRun(100, func() { l.Call(context.Background(), r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkACallThatIsSampledOut(b *testing.B) {
	l, _ := newLog(Options{SampleOK: 1 << 30})
	r := Record{Proto: "grpc", Method: write, Code: "OK", Key: "10.0.0.7"}
	b.ReportAllocs()
	for b.Loop() {
		l.Call(context.Background(), r)
	}
}
