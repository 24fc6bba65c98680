package rig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/leveehq/levee/internal/storm"
)

// Storm runs `levee storm bazel` against s, as a process of its own so that its memory is not the test's, and returns its
// report. A run that breaks a promise is the caller's to judge: the report lists them.
func Storm(t testing.TB, s *Server, flags ...string) *storm.Report {
	t.Helper()
	return StormAt(t, s, s.GRPC, flags...)
}

// StormAt is Storm through a proxy of s at target.
func StormAt(t testing.TB, s *Server, target string, flags ...string) *storm.Report {
	t.Helper()
	report, err := TryStorm(s, target, flags...)
	return logged(t, report, err, flags)
}

// StormAtEase is Storm for a light client whose latency is measured: it keeps its priority.
func StormAtEase(t testing.TB, s *Server, flags ...string) *storm.Report {
	t.Helper()
	report, err := tryStorm(s, s.GRPC, 0, flags)
	return logged(t, report, err, flags)
}

func logged(t testing.TB, report *storm.Report, err error, flags []string) *storm.Report {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	report.WriteText(&text)
	t.Logf("levee storm bazel %q:\n%s", flags, text.String())
	return report
}

// TryStorm is StormAt for those who run several at once.
func TryStorm(s *Server, target string, flags ...string) (*storm.Report, error) {
	return tryStorm(s, target, lowest, flags)
}

// lowest of the nice values: the server must not look slow because its own load takes the processor from it.
const lowest = 19

func tryStorm(s *Server, target string, nice int, flags []string) (*storm.Report, error) {
	args := append([]string{"storm", "bazel", "--json", "--target", target, "--admin", s.Admin, "--pid", strconv.Itoa(s.PID())}, flags...)
	cmd := exec.Command(binary, args...)
	var out, progress bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &progress
	err := cmd.Start()
	if err == nil {
		err = errors.Join(syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, nice), cmd.Wait())
	}
	report := &storm.Report{}
	if jsonErr := json.Unmarshal(out.Bytes(), report); jsonErr != nil {
		return nil, fmt.Errorf("levee storm bazel %q: %w: %w\n%s%s", flags, err, jsonErr, out.String(), progress.String())
	}
	if want := report.ExitStatus(); cmd.ProcessState.ExitCode() != want {
		return nil, fmt.Errorf("levee storm bazel %q: exit status %d, the report says %d\n%s", flags, cmd.ProcessState.ExitCode(), want, progress.String())
	}
	return report, nil
}
