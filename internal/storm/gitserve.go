package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// serveBackend serves the repositories below o.Serve by Git's own CGI program until ctx ends: an upstream to try things with,
// and what a cache is compared with. Other configuration for Git may be given by GIT_CONFIG_COUNT (git-config(1)).
func serveBackend(ctx context.Context, o *GitOptions, out io.Writer) error {
	if err := loopbackListener(o.Listen); err != nil {
		return &UsageError{err}
	}
	h, err := backend(o.Serve)
	if err != nil {
		return &UsageError{err}
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		s.Close()
	}()
	fmt.Fprintf(out, "%s is served at http://%s/\n", o.Serve, l.Addr())
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-done
	return nil
}

// loopbackListener is loopback for an address whose port may be 0.
func loopbackListener(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil && port == "0" {
		port = "1"
	}
	return loopback("listen", net.JoinHostPort(host, port))
}

// backend is git http-backend for everything below root.
func backend(root string) (http.Handler, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("serve %s: it is no directory", root)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	env := append(gitEnv(), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1")
	env = append(env, configEnv()...)
	program := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: env,
		Logger: log.New(io.Discard, "", 0)} // clients that left
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := withLength(r); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		program.ServeHTTP(w, r)
	}), nil
}

// likeAHost is what hosts allow and Git by itself does not.
var likeAHost = []string{"uploadpack.allowFilter=true", "uploadpack.allowAnySHA1InWant=true", "safe.directory=*"}

// configEnv is the configuration that this process was given for Git, or that of a host.
func configEnv() (env []string) {
	for _, pair := range os.Environ() {
		if strings.HasPrefix(pair, "GIT_CONFIG_COUNT=") || strings.HasPrefix(pair, "GIT_CONFIG_KEY_") || strings.HasPrefix(pair, "GIT_CONFIG_VALUE_") {
			env = append(env, pair)
		}
	}
	if env == nil {
		env = configAsEnv(likeAHost)
	}
	return env
}

// configAsEnv passes settings like "core.x=y" to Git without arguments or files.
func configAsEnv(settings []string) []string {
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings))}
	for i, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return env
}

// maxChunked is the longest request without a length that is taken.
const maxChunked = 64 << 20

// withLength gives a chunked request a length, without which CGI has no request.
func withLength(r *http.Request) error {
	if !slices.Equal(r.TransferEncoding, []string{"chunked"}) {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxChunked+1))
	if err != nil {
		return err
	}
	if len(body) > maxChunked {
		return errors.New("the request is too long for a server to try things with")
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return nil
}
