package rig

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Get is one GET of a page of the admin listener: its status, its text, and how long the whole answer took.
func (s *Server) Get(page string) (code int, body string, took time.Duration, err error) {
	client := http.Client{Timeout: time.Minute}
	began := time.Now()
	resp, err := client.Get("http://" + s.Admin + page)
	if err != nil {
		return 0, "", 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), time.Since(began), err
}

// Metric is the value of one series of /metrics, written as it stands there, labels and all.
func (s *Server) Metric(series string) (float64, error) {
	code, text, _, err := s.Get("/metrics")
	if err != nil || code != http.StatusOK {
		return 0, fmt.Errorf("/metrics: %d, %w", code, err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("/metrics has no %s", series)
}

// InUse is how much of a gate is in use.
func (s *Server) InUse(gate string) (float64, error) {
	return s.Metric(`levee_gate_in_use{gate="` + gate + `"}`)
}

// Threads of the process now, 0 if it is gone.
func (s *Server) Threads() int { return int(s.procStatus("Threads")) }

// PeakRSS is the largest resident set so far in bytes, 0 if the process is gone.
func (s *Server) PeakRSS() int64 { return s.procStatus("VmHWM") << 10 }

// procStatus is a number of /proc/PID/status, in the unit that stands there.
func (s *Server) procStatus(field string) (n int64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), field+":"); ok {
			fmt.Sscan(value, &n)
		}
	}
	return n
}

// OpenFiles is the number of the process's descriptors.
func (s *Server) OpenFiles() int {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	if err != nil {
		return 0
	}
	return len(fds)
}
