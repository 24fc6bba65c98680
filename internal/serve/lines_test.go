package serve

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// liveBytes is what is live and what stacks take, after collecting twice so that pools are empty.
func liveBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func TestAnAdminConnectionCostsWhatThePlanSays(t *testing.T) {
	s := run(t, nil)
	var fields strings.Builder
	for i := 0; fields.Len() < 3900; i++ {
		fmt.Fprintf(&fields, "%X:\r\n", i)
	}
	var worst int64
	for _, c := range []struct{ what, send, reply string }{
		{"a scrape", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200"},
		{"a header of a thousand fields", "GET /status HTTP/1.1\r\nHost: localhost\r\n" + fields.String(), ""},
	} {
		const n = adminPerAddress - 1 // keeping room for the probe that run has used
		before := liveBytes()
		var conns []net.Conn
		for range n {
			c2, err := net.Dial("tcp", s.admin)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c2)
			if _, err := fmt.Fprint(c2, c.send); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c2, make([]byte, len(c.reply))); err != nil {
				t.Fatal(err)
			}
		}
		per := (liveBytes() - before) / n
		for end := time.Now().Add(5 * time.Second); c.reply == "" && per < perAdminConnection*2/3 && time.Now().Before(end); {
			per = (liveBytes() - before) / n // what was sent is read in its own time
		}
		t.Logf("%s: %d bytes a connection", c.what, per)
		worst = max(worst, per)
		for _, c := range conns {
			_ = c.Close()
		}
	}
	if worst > perAdminConnection || worst*3/2 < perAdminConnection {
		t.Errorf("up to %d bytes a connection, planned are %d", worst, perAdminConnection)
	}
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
