package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leveehq/levee/internal/e2e/rig"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// leastActions is what acceptance asks a build to have.
const leastActions = 50

// Build, clean, build again: each action of the second build must come from the cache.
func TestEveryActionOfASecondBazelBuildIsARemoteHit(t *testing.T) {
	workspace := t.TempDir()
	writeWorkspace(t, workspace)
	b := newBazel(t, workspace)
	for _, c := range []struct {
		name  string
		flags func(*rig.Server) []string
	}{
		{"over gRPC", func(s *rig.Server) []string { return []string{"--remote_cache=grpc://" + s.GRPC} }},
		{"over HTTP", func(s *rig.Server) []string { return []string{"--remote_cache=http://" + s.HTTP} }},
		{"without the bytes", func(s *rig.Server) []string {
			return []string{"--remote_cache=grpc://" + s.GRPC, "--remote_download_minimal"}
		}},
		{"under an instance name", func(s *rig.Server) []string {
			return []string{"--remote_cache=grpc://" + s.GRPC, "--remote_instance_name=team/a"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := rig.Start(t, t.TempDir())
			b := b.in(t)
			b.clean()
			flags := c.flags(s)
			first := b.test(flags...)
			if first.remoteHit != 0 || first.local < leastActions {
				t.Fatalf("the first build: %s", first.text)
			}
			b.clean()
			second := b.test(flags...)
			if second.local != 0 || second.remoteHit != first.local {
				t.Errorf("the second build: %sthe first one: %s", second.text, first.text)
			}
		})
	}
}

// A cache that sheds half of the writes has half of the results; whatever it says that it has, it must have.
func TestBazelLosesNoInputWhenHalfOfTheWritesAreShed(t *testing.T) {
	s := rig.Start(t, t.TempDir())
	var shed atomic.Int64
	half := newCoin(1)
	proxy := rig.Shedder(t, s.GRPC, func(method string) error {
		if writes[method] && half.toss() {
			shed.Add(1)
			return status.Error(codes.FailedPrecondition, "shed by the test")
		}
		return nil
	})
	flags := []string{"--remote_cache=grpc://" + proxy, "--remote_download_minimal"}
	workspace := t.TempDir()
	writeWorkspace(t, workspace)
	b := newBazel(t, workspace)

	first := b.test(flags...)
	b.clean()
	second := b.test(flags...)
	if shed.Load() == 0 || second.remoteHit == 0 || second.remoteHit >= first.local {
		t.Errorf("%d writes were shed, and the second build was: %s", shed.Load(), second.text)
	}
	// The last action now runs here, and needs the outputs of others that were never downloaded.
	writeFile(t, filepath.Join(workspace, "last.txt"), "another last line\n")
	third := b.test(flags...)
	if third.local == 0 {
		t.Errorf("the third build executed nothing: %s", third.text)
	}
	fresh := newBazel(t, workspace)
	if got := fresh.test(flags...); got.remoteHit == 0 {
		t.Errorf("a fresh client had no hit: %s", got.text)
	}
}

// O6: a real build completes although half of all calls are refused, whatever they are. Capabilities are not: no
// server of ours sheds them, and Bazel cannot start without.
func TestCaseO6ABazelBuildCompletesWithHalfOfItsCallsShed(t *testing.T) {
	s := rig.Start(t, t.TempDir())
	half := newCoin(6)
	busy, err := status.New(codes.ResourceExhausted, "shed by the test").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(1e9)})
	if err != nil {
		t.Fatal(err)
	}
	proxy := rig.Shedder(t, s.GRPC, func(method string) error {
		switch {
		case method == "/build.bazel.remote.execution.v2.Capabilities/GetCapabilities" || !half.toss():
			return nil
		case writes[method]:
			return status.Error(codes.FailedPrecondition, "shed by the test")
		}
		return busy.Err()
	})
	workspace := t.TempDir()
	writeWorkspace(t, workspace)
	b := newBazel(t, workspace)
	b.test("--remote_cache=grpc://" + proxy)
	b.clean()
	b.test("--remote_cache=grpc://" + proxy)
}

// writes are the calls that are shed with FAILED_PRECONDITION.
var writes = map[string]bool{
	"/google.bytestream.ByteStream/Write":                                         true,
	"/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchUpdateBlobs": true,
	"/build.bazel.remote.execution.v2.ActionCache/UpdateActionResult":             true,
}

// coin is tossed from many goroutines.
type coin struct {
	mu struct {
		sync.Mutex
		*rand.Rand
	}
}

func newCoin(seed uint64) *coin {
	c := &coin{}
	c.mu.Rand = rand.New(rand.NewPCG(seed, seed))
	return c
}

func (c *coin) toss() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.IntN(2) == 0
}
