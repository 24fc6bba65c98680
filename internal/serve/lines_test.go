package serve

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/pprof"
	"testing"
)

// liveBytes is what is live and what stacks take, after collecting twice so that pools are empty.
func liveBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func TestAnAdminConnectionCostsNoMoreThanThePlanSays(t *testing.T) {
	s := run(t, nil)
	before := liveBytes()
	for range adminConnections - 2 { // keeping room for the probe that run has used
		c, err := net.Dial("tcp", s.admin)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200"))); err != nil {
			t.Fatal(err)
		}
	}
	per := (liveBytes() - before) / (adminConnections - 2)
	if per > perAdminConnection {
		t.Errorf("%d bytes a connection, planned are %d", per, perAdminConnection)
	}
	t.Logf("%d bytes a connection", per)
}

func TestAProfileCostsNoMoreThanThePlanSays(t *testing.T) {
	run(t, nil) // for the goroutines and stacks of a whole server
	for _, name := range []string{"heap", "goroutine", "allocs", "mutex", "block", "threadcreate"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := pprof.Lookup(name).WriteTo(io.Discard, 0); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > profileBytes {
			t.Errorf("%s: %d bytes, planned are %d", name, took, profileBytes)
		} else {
			t.Logf("%s: %d bytes", name, took)
		}
	}
}
