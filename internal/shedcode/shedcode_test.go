package shedcode

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leveehq/levee/gate"
)

type fullDisk struct{}

func (fullDisk) Error() string      { return "no space: disk_full: 0 bytes free" }
func (fullDisk) ShedReason() string { return "disk_full" }

func shedWith(r gate.Reason) error {
	return &gate.Shed{Gate: "write", Reason: r, Key: "10.0.0.7", Cost: 65536, InUse: 31, Limit: 32, Queued: 7,
		Waited: 10 * time.Second, RetryAfter: time.Second}
}

func TestTheTableOfTheDesignIsKept(t *testing.T) {
	zero := Codes{}
	retried := Codes{Write: codes.ResourceExhausted, HTTPPut: 503}
	tests := []struct {
		name  string
		codes Codes
		class Class
		err   error
		grpc  codes.Code
		http  int
	}{
		{"a write whose queue is full", zero, BazelWrite, shedWith(gate.QueueFull), codes.FailedPrecondition, 507},
		{"a write that waited too long", zero, BazelWrite, shedWith(gate.Timeout), codes.FailedPrecondition, 507},
		{"a write under pressure", zero, BazelWrite, shedWith(gate.Pressure), codes.FailedPrecondition, 507},
		{"a write while the server stops", zero, BazelWrite, shedWith(gate.Closed), codes.FailedPrecondition, 507},
		{"a write on a full disk", zero, BazelWrite, fullDisk{}, codes.FailedPrecondition, 507},
		{"a write with retried codes", retried, BazelWrite, shedWith(gate.QueueFull), codes.ResourceExhausted, 503},
		{"a write as unavailable", Codes{Write: codes.Unavailable}, BazelWrite, shedWith(gate.Busy), codes.Unavailable, 507},
		{"a read whose queue is full", zero, BazelRead, shedWith(gate.QueueFull), codes.ResourceExhausted, 503},
		{"a read that waited too long", zero, BazelRead, shedWith(gate.Timeout), codes.ResourceExhausted, 503},
		{"a read that never fits", zero, BazelRead, shedWith(gate.TooLarge), codes.FailedPrecondition, 507},
		{"a read is not moved by the write's code", retried, BazelRead, shedWith(gate.Busy), codes.ResourceExhausted, 503},
		{"a look-up whose queue is full", zero, BazelAC, shedWith(gate.QueueFull), codes.NotFound, 503},
		{"a look-up whose share of the queue is full", zero, BazelAC, shedWith(gate.KeyQueueFull), codes.NotFound, 503},
		{"a look-up that waited too long", zero, BazelAC, shedWith(gate.Timeout), codes.ResourceExhausted, 503},
		{"a clone that waited too long", zero, Git, shedWith(gate.Timeout), codes.ResourceExhausted, 429},
		{"a clone under pressure", retried, Git, shedWith(gate.Pressure), codes.ResourceExhausted, 429},
		{"a pack that never fits", zero, Git, shedWith(gate.TooLarge), codes.FailedPrecondition, 413},
		{"a wrapped shed", zero, BazelRead, fmt.Errorf("open: %w", shedWith(gate.Busy)), codes.ResourceExhausted, 503},
		{"an error of no known kind", zero, BazelRead, errors.New("odd"), codes.ResourceExhausted, 503},
		{"no error at all", zero, BazelWrite, nil, codes.FailedPrecondition, 507},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.codes.GRPC(tt.class, tt.err)
			st := status.Convert(err)
			if st.Code() != tt.grpc {
				t.Errorf("gRPC code is %v, want %v", st.Code(), tt.grpc)
			}
			if hint := retryInfo(st) != nil; hint != (tt.grpc == codes.ResourceExhausted) {
				t.Errorf("RetryInfo present: %v with %v", hint, st.Code())
			}
			if tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("the cause is not found in %v", err)
			}

			rec := httptest.NewRecorder()
			got := tt.codes.HTTP(rec, tt.class, tt.err)
			if rec.Code != tt.http || got != tt.http {
				t.Errorf("HTTP status is %d (returned %d), want %d", rec.Code, got, tt.http)
			}
			after := rec.Header().Get("Retry-After")
			if hint := after != ""; hint != (tt.http == 503 || tt.http == 429) {
				t.Errorf("Retry-After is %q with %d", after, tt.http)
			}
			if rec.Body.String() != st.Message()+"\n" {
				t.Errorf("HTTP text %q differs from gRPC's %q", rec.Body, st.Message())
			}
		})
	}
}

func retryInfo(st *status.Status) *errdetails.RetryInfo {
	for _, d := range st.Details() {
		if ri, ok := d.(*errdetails.RetryInfo); ok {
			return ri
		}
	}
	return nil
}

// O6: a constant would bring all the clients that were turned away back at the same moment.
func TestTheHintIsAtLeastOneSecondAndSpread(t *testing.T) {
	headers, delays := map[string]int{}, map[time.Duration]int{}
	for range 200 {
		rec := httptest.NewRecorder()
		Codes{}.HTTP(rec, BazelRead, shedWith(gate.Timeout))
		after := rec.Header().Get("Retry-After")
		n, err := strconv.Atoi(after)
		if err != nil || n < 1 || n > 6 {
			t.Fatalf("Retry-After is %q, want an integer from 1 to 6", after)
		}
		headers[after]++
		d := retryInfo(status.Convert(Codes{}.GRPC(BazelRead, shedWith(gate.Timeout)))).RetryDelay.AsDuration()
		if d < time.Second || d > 5*time.Second {
			t.Fatalf("RetryDelay is %v, want 1 s to 5 s", d)
		}
		delays[d]++
	}
	if len(headers) < 3 || len(delays) < 100 {
		t.Errorf("200 hints had %d distinct headers and %d distinct delays", len(headers), len(delays))
	}
}

func TestTheTextNamesGateReasonFiguresAndSetting(t *testing.T) {
	c := Codes{Settings: map[string]Setting{
		"write": {Limit: "bazel.max_writes", Queue: "bazel.write_queue", Wait: "bazel.write_wait"},
	}}
	tests := []struct {
		err   error
		wants []string
	}{
		{shedWith(gate.QueueFull), []string{"gate write", "queue_full", "31 of 32", "7 waiting", "bazel.write_queue or bazel.max_writes"}},
		{shedWith(gate.Timeout), []string{"timeout", "waited 10s", "bazel.max_writes or bazel.write_wait"}},
		{shedWith(gate.Pressure), []string{"pressure", "memory_limit"}},
		{shedWith(gate.Closed), []string{"stopping"}},
		{shedWith(gate.TooLarge), []string{"too_large", "cost 65536", "raise bazel.max_writes"}},
		{fullDisk{}, []string{"shed: no space: disk_full: 0 bytes free"}},
	}
	for _, tt := range tests {
		msg := c.GRPC(BazelWrite, tt.err).Error()
		for _, want := range tt.wants {
			if !strings.Contains(msg, want) {
				t.Errorf("%q does not say %q", msg, want)
			}
		}
	}
	other := Codes{}.GRPC(BazelRead, shedWith(gate.Busy)).Error()
	if strings.Contains(other, "raise") {
		t.Errorf("%q points to a setting although none is known", other)
	}
}

func TestCodesThatMakeNoSenseAreRefusedByName(t *testing.T) {
	tests := []struct {
		c    Codes
		want string
	}{
		{Codes{}, ""},
		{Codes{Write: codes.Unavailable, HTTPPut: http.StatusTooManyRequests}, ""},
		{Codes{Write: codes.NotFound}, "NotFound"},
		{Codes{HTTPPut: 200}, "200"},
	}
	for _, tt := range tests {
		err := tt.c.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Validate of %+v: %v", tt.c, err)
		}
	}
}
