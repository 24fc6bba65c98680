package packs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"

	"github.com/leveehq/levee/internal/git/pkt"
)

// serve puts HTTP in front, as little of it as stock git needs.
func (r *rig) serve() string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /info/refs", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		cmd := exec.Command("git", "upload-pack", "--stateless-rpc", "--advertise-refs", r.lease.Dir)
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_PROTOCOL=" + q.Header.Get("Git-Protocol"),
			"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=uploadpack.allowFilter", "GIT_CONFIG_VALUE_0=true",
			"GIT_CONFIG_KEY_1=uploadpack.allowAnySHA1InWant", "GIT_CONFIG_VALUE_1=true",
		}
		io.WriteString(w, "001e# service=git-upload-pack\n0000")
		cmd.Stdout = w
		if err := cmd.Run(); err != nil {
			r.Errorf("advertise: %v", err)
		}
	})
	mux.HandleFunc("POST /git-upload-pack", r.post)
	s := httptest.NewServer(mux)
	r.Cleanup(s.Close)
	return s.URL
}

func (r *rig) post(w http.ResponseWriter, q *http.Request) {
	body, err := decode(q)
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	version := 0
	fmt.Sscanf(q.Header.Get("Git-Protocol"), "version=%d", &version)
	var req *pkt.Request
	if version == 2 {
		req, err = pkt.ParseV2(body, pkt.Limits{})
	} else {
		req, err = pkt.ParseV0(version, body, pkt.Limits{})
	}
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	if req.Command == "ls-refs" {
		cmd := exec.Command("git", "upload-pack", "--stateless-rpc", r.lease.Dir)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_PROTOCOL=version=2"}
		cmd.Stdin, cmd.Stdout = bytes.NewReader(body), w
		if err := cmd.Run(); err != nil {
			r.Errorf("ls-refs: %v", err)
		}
		return
	}
	if req.Command != "fetch" {
		return
	}
	res, err := r.c.Serve(q.Context(), Job{Lease: r.lease, Request: req, Caller: "10.0.0.1"}, httpOut{w})
	if err != nil && !res.Began {
		http.Error(w, err.Error(), 500)
	}
}

func decode(q *http.Request) ([]byte, error) {
	if q.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(q.Body)
	}
	z, err := gzip.NewReader(q.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

type httpOut struct{ http.ResponseWriter }

func (o httpOut) Flush() error { return http.NewResponseController(o.ResponseWriter).Flush() }
func (httpOut) Progress()      {}
