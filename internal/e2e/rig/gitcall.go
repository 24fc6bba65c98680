package rig

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// Kind of a call to an Upstream.
type Kind string

const (
	InfoRefs Kind = "info/refs" // GET for upload-pack: v2 capabilities, or the refs of v0
	LsRefs   Kind = "ls-refs"
	Fetch    Kind = "fetch" // v2, or any upload-pack POST of v0
	Push     Kind = "push"  // GET and POST for receive-pack
	Other    Kind = "other"
)

// Call is one request that an Upstream was sent.
type Call struct {
	Method, Path string
	Repo         string // path without the service
	Kind         Kind
	Version      int // of the protocol
	User         string
	Agent        string
	At           time.Time

	Wants, Haves []string
	Depth        int
	Filter       string
	Done         bool

	Ended  bool
	Status int
	Bytes  int64 // of the answer's body
}

// Clone tells whether the call asks for a history from its start.
func (c Call) Clone() bool {
	return c.Kind == Fetch && len(c.Wants) > 0 && len(c.Haves) == 0 && c.Depth == 0 && c.Filter == ""
}

// Transfer tells whether the call can be answered with a pack.
func (c Call) Transfer() bool { return c.Kind == Fetch && len(c.Wants) > 0 && c.Done }

// services in the order in which suffixes are tried.
var services = []string{"/info/refs", "/git-upload-pack", "/git-receive-pack"}

func describe(r *http.Request, body []byte) *Call {
	c := &Call{Method: r.Method, Path: r.URL.Path, Kind: Other, Agent: r.UserAgent(), At: time.Now()}
	c.User, _, _ = r.BasicAuth()
	if strings.Contains(r.Header.Get("Git-Protocol"), "version=2") {
		c.Version = 2
	}
	c.Repo = strings.Trim(path.Dir(r.URL.Path), "/")
	for _, s := range services {
		if repo, ok := strings.CutSuffix(r.URL.Path, s); ok {
			c.Repo = strings.Trim(repo, "/")
		}
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/git-receive-pack"), r.URL.Query().Get("service") == "git-receive-pack":
		c.Kind = Push
	case strings.HasSuffix(r.URL.Path, "/info/refs"):
		c.Kind = InfoRefs
	case strings.HasSuffix(r.URL.Path, "/git-upload-pack"):
		c.Kind = Fetch
		c.read(plain(r, body))
	}
	return c
}

func plain(r *http.Request, body []byte) []byte {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return body
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(z)
	return text
}

// read takes from the lines of a request what tests ask about.
func (c *Call) read(body []byte) {
	for _, line := range packetLines(body) {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "command=ls-refs":
			c.Kind = LsRefs
		case word == "want":
			c.Wants = append(c.Wants, firstWord(rest))
		case word == "have":
			c.Haves = append(c.Haves, firstWord(rest))
		case word == "deepen":
			c.Depth, _ = strconv.Atoi(rest)
		case word == "filter":
			c.Filter = rest
		case line == "done":
			c.Done = true
		}
	}
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

// packetLines are the texts of the pkt-lines in body, as far as they can be read.
func packetLines(body []byte) (lines []string) {
	for len(body) >= 4 {
		n, err := strconv.ParseUint(string(body[:4]), 16, 16)
		if err != nil || int(n) > len(body) {
			return lines
		}
		if n < 4 { // flush, delimiter, end
			body = body[4:]
			continue
		}
		lines = append(lines, strings.TrimSuffix(string(body[4:n]), "\n"))
		body = body[n:]
	}
	return lines
}
