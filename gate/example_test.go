package gate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/leveehq/levee/gate"
)

func Example() {
	uploads, err := gate.New(gate.Options{
		Name:  "uploads",
		Limit: 64 << 20, // bytes that all uploads together may hold
		Queue: 100,
		Wait:  10 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	permit, err := uploads.Admit(context.Background(), "tenant-a", 2<<20)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer permit.Release()

	fmt.Println(permit.Cost(), "of", uploads.Stats().Limit)
	// Output: 2097152 of 67108864
}

// Somebody reads a terminal at the other end: say why nothing happens, and wait as long as that is said.
func ExampleGate_AdmitWith() {
	packs, err := gate.New(gate.Options{Name: "packs", Limit: 1, Queue: 50, Wait: 50 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	other, err := packs.Admit(context.Background(), "org/other", 1)
	if err != nil {
		fmt.Println(err)
		return
	}

	permit, err := packs.AdmitWith(context.Background(), "org/repo", 1, gate.Waiting{
		Wait:  10 * time.Minute,
		After: 5 * time.Millisecond,
		Every: 10 * time.Second,
		Tell: func(position int) {
			fmt.Printf("queued, position %d\n", position)
			other.Release() // its work ends just now
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer permit.Release()
	fmt.Println("admitted")
	// Output:
	// queued, position 1
	// admitted
}

// Protect a plain net/http server: as many bytes of bodies as the limit says, fairly between client addresses. A client
// that hangs up leaves the queue, one that is shed is told when to come back, and the permit ends with the handler.
func Example_server() {
	bodies, err := gate.New(gate.Options{
		Name:    "bodies",
		Limit:   128 << 10,
		PerKey:  64 << 10,
		MaxCost: 128 << 10,
		Queue:   64,
		Wait:    2 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	gated := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength < 0 {
				http.Error(w, "say how long the body is", http.StatusLengthRequired)
				return
			}
			client, _, _ := net.SplitHostPort(r.RemoteAddr)
			permit, err := bodies.Admit(r.Context(), client, r.ContentLength)
			var shed *gate.Shed
			switch {
			case errors.As(err, &shed) && shed.Reason == gate.TooLarge:
				http.Error(w, "the body is larger than this server takes", http.StatusRequestEntityTooLarge)
				return
			case errors.As(err, &shed):
				w.Header().Set("Retry-After", strconv.Itoa(int(shed.RetryAfter.Seconds())))
				http.Error(w, "the server is busy, try again", http.StatusServiceUnavailable)
				return
			case err != nil: // the client has gone, nobody reads an answer
				return
			}
			defer permit.Release()
			next.ServeHTTP(w, r)
		})
	}

	server := httptest.NewServer(gated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "took %d bytes, %d in use", len(body), bodies.Stats().InUse)
	})))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()

	for _, size := range []int{16 << 10, 200 << 10} {
		resp, err := http.Post(server.URL, "application/octet-stream", bytes.NewReader(make([]byte, size)))
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Printf("%d %s\n", resp.StatusCode, answer)
	}
	// Output:
	// 200 took 16384 bytes, 16384 in use
	// 413 the body is larger than this server takes
}
