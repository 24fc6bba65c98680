package bazel

import "testing"

func TestEveryGateHasASettingToPointTo(t *testing.T) {
	s, err := New(Options{Kernel: newTestKernel(t, 1<<30), Store: newMemStore()})
	if err != nil {
		t.Fatal(err)
	}
	g := s.gates
	for _, g := range []interface{ Name() string }{g.streams, g.exempt, g.connections, g.httpConnections, g.write, g.read,
		g.batchUpdate, g.batchRead, g.ac, g.findMissing} {
		if s.codes.Settings[g.Name()].Limit == "" {
			t.Errorf("a shed of gate %q does not say what to raise", g.Name())
		}
	}
}
