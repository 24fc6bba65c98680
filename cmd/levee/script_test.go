package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// waitFor waits until a file that a background command writes has a match of the pattern, and sets NAME to its first
// group, if it has one: waitfor FILE PATTERN [NAME]
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: waitfor FILE PATTERN [NAME]")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	path := ts.MkAbs(args[0])
	var match []string
	poll(ts, fmt.Sprintf("%s in %s", args[1], args[0]), func() bool {
		text, _ := os.ReadFile(path) // may not be there yet
		match = pattern.FindStringSubmatch(string(text))
		return match != nil
	})
	if len(args) == 3 {
		ts.Setenv(args[2], match[1])
	}
}

// httpGet asks a URL until the answer has the status: httpget URL STATUS. The body is then in FILE: httpget URL STATUS FILE
func httpGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: httpget URL STATUS [FILE]")
	}
	client := &http.Client{Timeout: 5 * time.Second}
	var body []byte
	poll(ts, fmt.Sprintf("status %s from %s", args[1], args[0]), func() bool {
		resp, err := client.Get(args[0])
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err = io.ReadAll(resp.Body)
		return err == nil && fmt.Sprint(resp.StatusCode) == args[1]
	})
	if len(args) == 3 {
		ts.Check(os.WriteFile(ts.MkAbs(args[2]), body, 0o600))
	}
}

// occupy listens on a free port until the script ends, and sets NAME to the address: occupy NAME
func occupy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: occupy NAME")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// poll waits for a condition of another process, which has no clock of ours.
func poll(ts *testscript.TestScript, what string, done func() bool) {
	const patience = 30 * time.Second
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("no %s within %v", what, patience)
		}
	}
}

// stall begins an upload to a cache and leaves it unfinished until the script ends: stall URL
func stall(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: stall URL")
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(args[0], "http://"))
	ts.Check(err)
	ts.Defer(func() { c.Close() })
	// The server says that it wants the body once the upload has begun.
	_, err = fmt.Fprintf(c, "PUT /cas/%064d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n", 0)
	ts.Check(err)
	ts.Check(c.SetReadDeadline(time.Now().Add(30 * time.Second)))
	answer := make([]byte, len("HTTP/1.1 100"))
	_, err = io.ReadFull(c, answer)
	ts.Check(err)
	if string(answer) != "HTTP/1.1 100" {
		ts.Fatalf("the upload was answered %q", answer)
	}
}
