// Package raceless finds a test binary whose memory means something. It refuses to let a test skip: a binary built with
// the race detector keeps shadow memory several times that of the program, so a test that measures a process of its own
// plays it with a binary built without, in every kind of run.
package raceless

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
)

// Binary is the path of the running test's binary, built without the race detector. Under the race detector it builds
// one, which takes seconds the first time, with the Go tool that ran the test.
func Binary(t testing.TB) string {
	t.Helper()
	if !hasDetector() {
		return os.Args[0]
	}
	binary := filepath.Join(t.TempDir(), "raceless.test")
	// A test runs in its package's directory.
	if out, err := exec.Command("go", "test", "-race=false", "-c", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build this test without the race detector: %v\n%s", err, out)
	}
	return binary
}

// Again runs the test in that binary instead, if this one has the race detector, and tells whether it did: the test is then over.
func Again(t testing.TB) bool {
	if !hasDetector() {
		return false
	}
	out, err := exec.Command(Binary(t), "-test.v", "-test.run", "^"+t.Name()+"$").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")) {
		t.Fatalf("without the race detector: %v\n%s", err, out)
	}
	return true
}

func hasDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
