package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/raceless"
)

// measureEnv has the test binary play a client: of the server there, whose certificate is in the file named behind the space.
const measureEnv = "LEVEE_TEST_UPSTREAM"

func TestMain(m *testing.M) {
	if target := os.Getenv(measureEnv); target != "" {
		url, certificate, _ := strings.Cut(target, " ")
		if err := measureConnections(url, certificate); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// live is what the heap and the stacks hold.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// started tells of the first bytes of a pack.
type started struct {
	once sync.Once
	wg   *sync.WaitGroup
}

func (s *started) Write(p []byte) (int, error) {
	s.once.Do(s.wg.Done)
	return len(p), nil
}

// measureConnections prints what each of many fetches holds that are under way.
func measureConnections(url, certificate string) error {
	const n = 200
	trusted, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	c, err := New(Options{Hosts: []Host{{URL: url}}, Connections: n})
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	repo := Repo{Host: strings.TrimPrefix(url, "https://"), Path: "r"}
	c.hosts[repo.Host].transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
	if err := c.Authorize(context.Background(), repo, Credentials{}); err != nil {
		return err
	}

	before := live()
	ctx, cancel := context.WithCancel(context.Background())
	var begun, ended sync.WaitGroup
	begun.Add(n)
	for range n {
		ended.Go(func() {
			_ = c.Fetch(ctx, repo, Credentials{}, Fetch{Wants: []string{oidA}, Pack: &started{wg: &begun}, Progress: func(string) {}})
		})
	}
	begun.Wait()
	fmt.Println((live() - before) / n)
	cancel()
	ended.Wait()
	return nil
}

func TestAConnectionHoldsWhatThePlanSays(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", advertType)
			_, _ = io.WriteString(w, v2Advert)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", resultType)
		_, _ = io.WriteString(w, lines("packfile", band(1, strings.Repeat("x", 60000)), band(2, "a line")))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	certificate := filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(raceless.Binary(t))
	cmd.Env = append(os.Environ(), measureEnv+"="+s.URL+" "+certificate)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	each, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatalf("%s", out)
	}
	t.Logf("a fetch over TLS holds %d bytes", each)
	if each > ConnectionBytes || each < ConnectionBytes/2 {
		t.Errorf("a fetch holds %d bytes, the plan says %d", each, ConnectionBytes)
	}
}

func TestRefsHoldNoMoreThanThePlanSays(t *testing.T) {
	for name, line := range map[string]func(i int) string{
		"short":  func(i int) string { return fmt.Sprintf("%s refs/%d", oidA, i) },
		"usual":  func(i int) string { return fmt.Sprintf("%s refs/pull/%d/head", oidA, i) },
		"tags":   func(i int) string { return fmt.Sprintf("%s refs/tags/v%d peeled:%s", oidA, i, oidB) },
		"unborn": func(int) string { return "unborn HEAD" },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := pkt.NewWriter(&b)
			counted := int64(0)
			for i := range 50_000 {
				l := line(i)
				w.Line(l)
				counted += int64(max(len(l), leastRef))
			}
			w.Flush()
			before := live()
			refs, err := readRefs(pkt.NewReader(&b), "sha1", counted)
			if err != nil {
				t.Fatal(err)
			}
			held := live() - before
			t.Logf("%d bytes of refs are held in %d", counted, held)
			if held > 3*counted {
				t.Errorf("%d bytes of refs are held in %d", counted, held)
			}
			runtime.KeepAlive(refs)
			runtime.KeepAlive(b.Len())
		})
	}
}
