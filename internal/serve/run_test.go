package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an App that runs.
type server struct {
	t           *testing.T
	app         *App
	grpc, cache string // addresses
	admin       string
	log         *lockedBuffer
	stop        context.CancelFunc
	ended       chan error
}

type lockedBuffer struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.Buffer.String()
}

// run starts a server on free ports with a store of its own, and ends it with the test.
func run(t *testing.T, flags map[string]string) *server {
	t.Helper()
	all := map[string]string{
		"memory-limit": "512MiB", "store-path": t.TempDir(), "log-level": "debug",
		"listen-grpc": "127.0.0.1:0", "listen-http": "127.0.0.1:0", "listen-admin": "127.0.0.1:0",
	}
	for k, v := range flags {
		all[k] = v
	}
	s := &server{t: t, log: &lockedBuffer{}, ended: make(chan error, 1)}
	out := &lockedBuffer{}
	app, err := Build(load(t, all), Options{Out: out, Log: s.log})
	if err != nil {
		t.Fatal(err)
	}
	s.app = app
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.ended <- app.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		s.wait()
		http.DefaultClient.CloseIdleConnections()
	})
	eventually(t, "addresses", func() bool { return strings.Contains(out.String(), "Health, metrics") })
	text := out.String()
	s.grpc = regexp.MustCompile(`grpc://(\S+)`).FindStringSubmatch(text)[1]
	s.cache = regexp.MustCompile(`remote_cache=http://(\S+)`).FindStringSubmatch(text)[1]
	s.admin = regexp.MustCompile(`status: http://(\S+)`).FindStringSubmatch(text)[1]
	eventually(t, "readiness", func() bool { return s.status("/readyz") == http.StatusOK })
	return s
}

// wait returns what Run returned.
func (s *server) wait() error {
	select {
	case err := <-s.ended:
		s.ended <- err // for whoever asks next
		return err
	case <-time.After(time.Minute):
		s.t.Fatal("the server does not end")
		return nil
	}
}

// status of a GET on the admin listener; 0 if there is no answer.
func (s *server) status(path string) int {
	resp, err := http.Get("http://" + s.admin + path)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// upload is a PUT of body that waits for more before its last byte. What is sent on the channel is its outcome.
type upload struct {
	finish  func()
	outcome chan string
}

// startUpload returns when the server has begun to take the upload.
func (s *server) startUpload(body []byte) upload {
	s.t.Helper()
	active := s.app.store.Stats().UploadsActive
	r, w := io.Pipe()
	req, err := http.NewRequest(http.MethodPut, fmt.Sprintf("http://%s/cas/%x", s.cache, sha256.Sum256(body)), r)
	if err != nil {
		s.t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	u := upload{outcome: make(chan string, 1)}
	s.t.Cleanup(func() { r.CloseWithError(errors.New("the test has ended")) })
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			u.outcome <- "error: " + err.Error()
			return
		}
		defer resp.Body.Close()
		u.outcome <- resp.Status
	}()
	if _, err := w.Write(body[:len(body)-1]); err != nil {
		s.t.Fatal(err)
	}
	u.finish = func() { _, _ = w.Write(body[len(body)-1:]); w.Close() }
	eventually(s.t, "the upload's begin", func() bool { return s.app.store.Stats().UploadsActive > active })
	return u
}

func TestCallsUnderWayEndBeforeTheServerDoes(t *testing.T) {
	s := run(t, nil)
	u := s.startUpload(bytes.Repeat([]byte("a"), 100_000))
	s.stop()
	eventually(t, "not ready", func() bool { return s.status("/readyz") == http.StatusServiceUnavailable })
	if got := s.status("/livez"); got != http.StatusOK {
		t.Errorf("livez: %d", got)
	}
	eventually(t, "no new connections", func() bool {
		c, err := net.Dial("tcp", s.cache)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	u.finish()
	if got := <-u.outcome; got != "200 OK" && got != "201 Created" {
		t.Errorf("the upload: %s", got)
	}
	if err := s.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestCallsThatOutlastTheGraceAreCutAndSaidToBe(t *testing.T) {
	s := run(t, map[string]string{"shutdown-grace": "50ms"})
	u := s.startUpload(bytes.Repeat([]byte("a"), 100_000))
	s.stop()
	if err := s.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
	u.finish()
	if got := <-u.outcome; !strings.HasPrefix(got, "error") {
		t.Errorf("the upload: %s", got)
	}
	if !strings.Contains(s.log.String(), "shutdown_grace") {
		t.Error("nothing in the log about it")
	}
}

func TestWhatWasStoredIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	body := bytes.Repeat([]byte("kept"), 50_000)
	path := fmt.Sprintf("/cas/%x", sha256.Sum256(body))
	s := run(t, map[string]string{"store-path": dir})
	u := s.startUpload(body)
	u.finish()
	<-u.outcome
	s.stop()
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}
	s = run(t, map[string]string{"store-path": dir})
	resp, err := http.Get("http://" + s.cache + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); !bytes.Equal(got, body) {
		t.Errorf("%s, %d bytes", resp.Status, len(got))
	}
}

// O10: with every permit taken and every connection of the cache in use, probes and metrics answer in time.
func TestO10HealthAndMetricsAnswerWhileEveryPermitIsTaken(t *testing.T) {
	s := run(t, map[string]string{"bazel-max-connections": "4", "bazel-max-writes": "1", "shutdown-grace": "1s"})
	for i := range 3 {
		u := s.startUpload(bytes.Repeat([]byte{byte(i)}, 100_000))
		defer u.finish()
	}
	for path, within := range map[string]time.Duration{"/livez": 100 * time.Millisecond, "/readyz": 250 * time.Millisecond, "/metrics": time.Second, "/status": time.Second} {
		for range 20 {
			begin := time.Now()
			if got := s.status(path); got != http.StatusOK {
				t.Errorf("%s: %d", path, got)
			}
			if took := time.Since(begin); took > within {
				t.Errorf("%s took %v", path, took)
			}
		}
	}
}

func TestClientsOfTheAdminListenerThatStayDoNotKeepAProbeOut(t *testing.T) {
	s := run(t, nil)
	for range adminConnections {
		c, err := net.Dial("tcp", s.admin)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") // and it would come again
	}
	eventually(t, "a probe's answer", func() bool { return s.status("/readyz") == http.StatusOK })
}

func TestOneAddressLeavesRoomOnTheAdminListener(t *testing.T) {
	s := run(t, nil)
	for range adminConnections {
		c, err := net.Dial("tcp", s.admin)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() // it says nothing, and is dropped after adminPatience
	}
	eventually(t, "a full address", func() bool { return s.app.adminGate.Stats().InUse == adminPerAddress })
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := other.Dial("tcp", s.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	got, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(got), "200 OK") || !strings.Contains(string(got), "Connection: close") {
		t.Errorf("a probe from another address: %q, %v", got, err)
	}
}

func TestAConnectionThatIsOneTooManyIsLogged(t *testing.T) {
	s := run(t, map[string]string{"bazel-max-connections": "2"})
	for proto, addr := range map[string]string{"grpc": s.grpc, "http": s.cache} {
		for range 3 {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		record := regexp.MustCompile(`"proto":"` + proto + `","method":"connect".*"key":"127.0.0.1"`)
		eventually(t, proto+"'s record", func() bool { return record.MatchString(s.log.String()) })
	}
}

func TestAPortInUseLeavesNoDirectoryBehind(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, flag := range []string{"listen-grpc", "listen-http", "listen-admin"} {
		flags := map[string]string{
			"memory-limit": "512MiB", "store-path": t.TempDir() + "/store",
			"listen-grpc": "127.0.0.1:0", "listen-http": "127.0.0.1:0", "listen-admin": "127.0.0.1:0",
		}
		flags[flag] = l.Addr().String()
		if err := build(t, flags).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s: %v", flag, err)
		}
		if _, err := os.Stat(flags["store-path"]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the directory: %v", flag, err)
		}
	}
}

func TestWildcardAddressesAreAnnouncedAsOnesToConnectTo(t *testing.T) {
	s := run(t, map[string]string{"listen-grpc": "[::]:0", "listen-http": "0.0.0.0:0"})
	for _, addr := range []string{s.grpc, s.cache} {
		if !strings.HasPrefix(addr, "127.0.0.1:") {
			t.Errorf("announced: %s", addr)
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

func TestTheLastRecordSaysThatTheServerHasStopped(t *testing.T) {
	s := run(t, nil)
	s.stop()
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(s.log.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"msg":"stopped"`) {
		t.Error(last)
	}
}

func TestStatusWarnsWhileTheStoreShedsWrites(t *testing.T) {
	s := run(t, map[string]string{"store-min-free": "1000TiB", "store-max-size": "1GiB"})
	eventually(t, "the warning", func() bool {
		return slices.ContainsFunc(s.app.status().Warnings, func(w string) bool { return strings.Contains(w, "min_free") })
	})
	if calm := run(t, nil).app.status().Warnings; len(calm) != 0 {
		t.Errorf("warnings of a server that is well: %q", calm)
	}
}

// eventually waits for a condition of things that run in real time.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func readDir(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
