package git

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/git/upstream"
)

// Prefix of the paths that are git's.
const Prefix = "/git/"

// call is one request on its way through.
type call struct {
	*Service
	w    http.ResponseWriter
	r    *http.Request
	rc   *http.ResponseController
	peer string

	repo    upstream.Repo
	service upstream.Service
	rest    string // what of the repository is asked for, as upstream knows it
	cred    upstream.Credentials
	version int // of the protocol: 0, 1 or 2

	method string // what it came to: a bounded word for logs and metrics
	stale  error  // why upstream was not asked; nil if it was
	gaveUp error  // why upstream was asked instead of git here; for the log

	permits []*gate.Permit // given back at the end

	bodyBegun bool // somebody has begun to read the body
	drain     bool // the rest of it is to be thrown away behind the answer
	prologue  bool // packfileHeader is out, and nothing of a pack
	cut       bool // the client can learn of an error by the end of its connection alone
	begun     bool // the status is out: from here on an error can only cut the connection
	code      int
	origin    string // whose answer it is: ours, upstream
	outcome   string
	bytes     int64
	waited    time.Duration
}

const (
	ours   = "ours"
	theirs = "upstream"
)

// ServeHTTP answers one request and accounts for it.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	c := &call{Service: s, w: w, r: r, rc: http.NewResponseController(w), peer: peerOf(r), origin: ours, method: "other"}
	// The server's deadline begins with the request, and some wait long; ours begins with the answer.
	_ = c.rc.SetWriteDeadline(time.Time{})
	defer c.release()
	err := c.serve()
	if err != nil {
		err = c.fail(err)
	}
	c.finishBody()
	c.progress() // what net/http still has to flush
	c.record(err, time.Since(start))
	if c.begun && err != nil && (c.cut || c.origin == theirs) {
		panic(http.ErrAbortHandler) // an answer that was cut off must not look whole
	}
}

func (c *call) release() {
	for _, p := range c.permits {
		p.Release()
	}
}

func (c *call) serve() (err error) {
	c.repo, c.service, c.rest, err = c.upstream.Resolve(strings.TrimPrefix(c.r.URL.EscapedPath(), Prefix))
	if err != nil {
		return err
	}
	c.cred = upstream.CredentialsOf(c.r.Header)
	c.version = protocolVersion(c.r.Header.Get("Git-Protocol"))
	if err := c.admit(c.gates.requests, 1); err != nil {
		return err
	}
	switch c.service {
	case upstream.InfoRefs:
		return c.infoRefs()
	case upstream.UploadPack:
		return c.uploadPack()
	case upstream.ReceivePack:
		c.method = "receive-pack"
		return c.push(http.MethodPost)
	case upstream.LFS:
		c.method = "lfs"
		return c.forward()
	default:
		c.method = "ensure-refs"
		return c.ensureRefs()
	}
}

// admit waits at g; the permit is given back when the request ends.
func (c *call) admit(g *gate.Gate, cost int64) error {
	p, err := g.Admit(c.r.Context(), c.peer, cost)
	if err != nil {
		var shed *gate.Shed
		if errors.As(err, &shed) {
			c.waited += shed.Waited
		}
		return err
	}
	c.waited += p.Waited()
	c.permits = append(c.permits, p)
	return nil
}

// allow tells whether the request has the method, and says which it should have.
func (c *call) allow(methods ...string) error {
	for _, m := range methods {
		if c.r.Method == m {
			return nil
		}
	}
	c.w.Header().Set("Allow", strings.Join(methods, ", "))
	return &httpError{http.StatusMethodNotAllowed, "this path does not take " + strconv.Quote(c.r.Method) + ", only " + strings.Join(methods, " and ")}
}

// begin sends the status and the headers.
func (c *call) begin(code int, contentType string) {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	// The fields that git's own server sends: nothing on the way may keep an answer.
	h.Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	h.Set("Pragma", "no-cache")
	h.Set("Expires", "Fri, 01 Jan 1980 00:00:00 GMT")
	if c.stale != nil {
		c.tellStale()
	}
	c.begun, c.code = true, code
	c.progress()
	c.w.WriteHeader(code)
}

// tellStale says in the answer that upstream could not be asked.
func (c *call) tellStale() {
	c.count.stale.Add(1)
	c.w.Header().Set("Levee-Stale", "upstream could not be asked: "+headerText(c.stale.Error()))
	c.w.Header().Set("Warning", `111 levee "Revalidation Failed"`)
}

// headerText is one line of printable ASCII.
func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, s)
}

// progress moves the write deadline on.
func (c *call) progress() { _ = c.rc.SetWriteDeadline(time.Now().Add(c.opt.Stall)) }

// whole sends an answer that is in memory.
func (c *call) whole(code int, contentType string, body []byte) error {
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.begin(code, contentType)
	if c.r.Method == http.MethodHead {
		return nil
	}
	n, err := c.w.Write(body)
	c.bytes += int64(n)
	return err
}

func (c *call) record(err error, took time.Duration) {
	c.count.answered(c.method, c.code, c.origin)
	if c.log == nil {
		return
	}
	if err == nil {
		err = c.gaveUp
	}
	repository := ""
	if c.repo.Path != "" {
		repository = c.repo.String()
	}
	c.log.Call(context.WithoutCancel(c.r.Context()), accesslog.Record{
		Proto: "git", Method: c.method, Code: strconv.Itoa(c.code), Key: c.peer, Bytes: c.bytes, Took: took, Waited: c.waited,
		Repository: repository, Outcome: c.outcome, Agent: clip(c.r.UserAgent(), 100), Stale: c.stale != nil,
		Miss: c.code >= 400 && c.code < 500 && c.code != http.StatusTooManyRequests, Err: err,
	})
}

// hostURL is the repository's host as it was configured.
func (c *call) hostURL() string {
	for _, h := range c.opt.Hosts {
		if _, name, _ := strings.Cut(h.URL, "://"); strings.EqualFold(name, c.repo.Host) {
			return h.URL
		}
	}
	return "https://" + c.repo.Host
}

func clip(s string, most int) string {
	if len(s) > most {
		return s[:most]
	}
	return s
}

// protocolVersion reads a Git-Protocol field: values with colons between, of which the highest version that we speak counts
// (gitprotocol-v2(5), "HTTP Transport").
func protocolVersion(field string) int {
	v := 0
	for value := range strings.SplitSeq(field, ":") {
		switch strings.TrimSpace(value) {
		case "version=1":
			v = max(v, 1)
		case "version=2":
			v = 2
		}
	}
	return v
}

// peerOf is the client's address without its port.
func peerOf(r *http.Request) string {
	if a, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return a.Addr().Unmap().WithZone("").String()
	}
	return r.RemoteAddr
}
