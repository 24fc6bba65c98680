package packs

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// BenchmarkWarmPack serves a spooled pack of 50 MB over HTTP to a client in another process, and reports the processor time per
// gigabyte of this one.
func BenchmarkWarmPack(b *testing.B) {
	r := newRig(b, func(r *rig) {
		r.o.MaxBytes = 1024 * mib
		r.makeRepository(50, 1*mib)
	})
	r.want(r.ask(r.clone()), Generated)
	body := r.clone().Body
	s := httptest.NewServer(http.HandlerFunc(r.post))
	b.Cleanup(s.Close)
	sink := func() (n int64) {
		cmd := exec.Command("curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}", "-H", "Git-Protocol: version=2",
			"--data-binary", "@-", s.URL)
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		go func() { _, _ = in.Write(body); in.Close() }()
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range out {
			n = n*10 + int64(c-'0')
		}
		return n
	}
	before, bytes := processorTime(), int64(0)
	for b.Loop() {
		bytes += sink()
	}
	b.ReportMetric((processorTime()-before).Seconds()/(float64(bytes)/1e9), "cpu-s/GB")
	b.SetBytes(bytes / int64(b.N))
}

// BenchmarkAnswer is the same without HTTP.
func BenchmarkAnswer(b *testing.B) {
	r := newRig(b, func(r *rig) {
		r.o.MaxBytes = 1024 * mib
		r.makeRepository(50, 1*mib)
	})
	r.want(r.ask(r.clone()), Generated)
	req := r.clone()
	b.ReportAllocs()
	for b.Loop() {
		res, err := r.c.Serve(context.Background(), Job{Lease: r.lease, Request: req}, nowhere{})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(res.PackBytes)
	}
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Flush() error                { return nil }
func (nowhere) Progress()                   {}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
