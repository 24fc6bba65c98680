package levee_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/gate"
)

// Levee in front of a plain net/http server that holds whole uploads in memory: at most 8 MiB of them at once, a
// queue of 100 for the rest, half of the room for any one client while another waits, and the price of all of it proved to
// fit 512 MiB before the first request.
func Example() {
	const (
		room    = 8 << 20
		waiting = 100
	)
	k, err := levee.New(levee.Options{MemoryLimit: 512 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	uploads, err := k.NewGate(gate.Options{
		Name: "uploads", Limit: room, PerKeyContended: room / 2, Queue: waiting, Wait: 2 * time.Second,
	}, true)
	if err != nil {
		fmt.Println(err)
		return
	}
	k.AddLine(levee.Line{
		Account: "uploads", Kind: levee.KindGo, Units: room, Unit: "byte", PerUnit: 1, Setting: "-uploads",
		Note: "Bodies of admitted uploads.", InUse: func() int64 { return uploads.Stats().InUse },
	})
	k.AddLine(levee.Line{
		Account: "connections", Kind: levee.KindGo, Units: waiting, Unit: "connection", PerUnit: 24 << 10,
		Setting: "-queue", Note: "Waiters hold a connection, and nothing else.",
	})
	if err := k.Start(); err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- k.Run(ctx) }()

	server := httptest.NewServer(bounded(uploads, http.HandlerFunc(store)))
	for _, size := range []int{5 << 10, 9 << 20} {
		fmt.Println(upload(server.URL, size))
	}
	server.Close()
	stop()
	fmt.Println("stopped:", <-stopped)

	s := k.Status()
	fmt.Println("level", s.Level, "admitted", s.Gates[0].Admitted, "too large", s.Gates[0].Shed[gate.TooLarge])
	// Output:
	// 201 Created: stored 5120 bytes
	// 503 Service Unavailable: too_large, try again later
	// stopped: <nil>
	// level normal admitted 1 too large 1
}

// bounded admits a request by the bytes that its body will take, before the first of them is read.
func bounded(g *gate.Gate, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 {
			http.Error(w, "send a Content-Length", http.StatusLengthRequired)
			return
		}
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		permit, err := g.Admit(r.Context(), client, r.ContentLength)
		var shed *gate.Shed
		switch {
		case errors.As(err, &shed):
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(shed.RetryAfter.Seconds()))))
			http.Error(w, string(shed.Reason)+", try again later", http.StatusServiceUnavailable)
			return
		case err != nil:
			return // the client has gone
		}
		defer permit.Release()
		next.ServeHTTP(w, r)
	})
}

func store(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, r.ContentLength) // what the permit was for; io.ReadAll would take up to twice that
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "stored %d bytes", len(body))
}

// upload asks first (Expect: 100-continue), so that a shed upload costs no bytes on the wire either.
func upload(url string, size int) string {
	req, err := http.NewRequest(http.MethodPut, url, strings.NewReader(strings.Repeat("x", size)))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Expect", "100-continue")
	client := http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return resp.Status + ": " + strings.TrimSpace(string(text))
}

// A plan that does not fit does not start, and says what to do.
func ExampleKernel_Start() {
	k, err := levee.New(levee.Options{MemoryLimit: 256 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	k.AddLine(levee.Line{
		Account: "sessions", Kind: levee.KindGo, Units: 2000, Unit: "session", PerUnit: 96 << 10, Setting: "-max-sessions",
	})
	fmt.Println(k.Start())
	// Output:
	// the memory plan does not fit into 256MiB (configured): live Go memory is 195.5MiB and may be 120.6MiB at most, 0.55 of GOMEMLIMIT (219.2MiB); lower one of these, or several in part:
	//   sessions  187.5MiB  -max-sessions = 2000, lower it by 800 to 1200
	// or raise the memory limit to 401MiB
}
