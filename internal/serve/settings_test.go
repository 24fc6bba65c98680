package serve

import (
	"bytes"
	"io"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/config"
)

func load(t *testing.T, flags map[string]string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func build(t *testing.T, flags map[string]string) *App {
	t.Helper()
	a, err := Build(load(t, flags), Options{Out: io.Discard, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A setting that reaches nobody would be an option that does nothing.
func TestEverySettingOfStoreAndBazelReachesThem(t *testing.T) {
	other := map[string]string{
		"store.path": "elsewhere", "store.durability": "fsync", "bazel.fair_by": "instance",
		"bazel.shed_write_code": "UNAVAILABLE", "bazel.max_batch": "1MiB",
	}
	options := func(flags map[string]string) [2]any {
		c := load(t, flags)
		return [2]any{bazelOptions(c, nil, nil, nil), storeOptions(c, 512<<20, nil)}
	}
	for _, s := range config.Settings() {
		if !strings.HasPrefix(s.Path, "store.") && !strings.HasPrefix(s.Path, "bazel.") {
			continue
		}
		value, ok := other[s.Path]
		switch {
		case ok:
		case s.Kind == "SIZE":
			value = "64KiB"
		case s.Kind == "TIME":
			value = "7s"
		default:
			value = "501"
		}
		flags := map[string]string{s.Flag: value}
		if s.Path == "bazel.read_stall" {
			flags["bazel-write-wait"] = "1s"
			if reflect.DeepEqual(options(flags), options(map[string]string{"bazel-write-wait": "1s"})) {
				t.Error("bazel.read_stall reaches nobody")
			}
			continue
		}
		if reflect.DeepEqual(options(flags), options(nil)) {
			t.Errorf("%s = %s reaches nobody", s.Path, value)
		}
	}
}

func TestTheGovernorHasTheMarksOfTheSettings(t *testing.T) {
	a := build(t, map[string]string{"memory-limit": "512MiB", "governor-evict": "0.4", "governor-shed": "0.5"})
	if p := a.kernel.Status().Pressure; p.EvictMark != 0.4 || p.ShedMark != 0.5 {
		t.Errorf("marks %v and %v", p.EvictMark, p.ShedMark)
	}
}

func TestTheLogObeysItsSettings(t *testing.T) {
	var out bytes.Buffer
	l := newLogger(config.Log{Level: "warn", Format: "text"}, &out)
	l.Info("no")
	l.Warn("yes")
	if got := out.String(); !strings.Contains(got, "level=WARN msg=yes") || strings.Contains(got, "no") {
		t.Errorf("got %s", got)
	}
	out.Reset()
	newLogger(config.Log{Level: "info", Format: "json"}, &out).Info("yes")
	if !strings.HasPrefix(out.String(), `{"time":`) {
		t.Errorf("got %s", out.String())
	}
}

func TestThePlanOfTheDefaultsFitsEveryMachine(t *testing.T) {
	for _, limit := range []string{"512MiB", "768MiB", "1GiB", "2GiB", "4GiB", "8GiB", "64GiB"} {
		if err := build(t, map[string]string{"memory-limit": limit}).Plan().Check(); err != nil {
			t.Errorf("%s: %v", limit, err)
		}
	}
}

func TestTheIndexTakesWhatThePlanHasLeft(t *testing.T) {
	units := func(account string, flags map[string]string) int64 {
		t.Helper()
		for _, l := range build(t, flags).Plan().Lines {
			if l.Account == account {
				return l.Units
			}
		}
		t.Fatal("no line " + account)
		return 0
	}
	small := map[string]string{"memory-limit": "512MiB"}
	narrow := units("index", small)
	if narrow < 100_000 {
		t.Errorf("at 512 MiB: %d blobs", narrow)
	}
	door := strconv.FormatInt(units("streams", small)+800, 10)
	if less := units("index", map[string]string{"memory-limit": "512MiB", "bazel-max-streams": door}); less >= narrow {
		t.Errorf("%d blobs with a wide door, %d with a narrow one", less, narrow)
	}
	if most := units("index", map[string]string{"memory-limit": "64GiB"}); most != defaultMaxSize/blobBlock {
		t.Errorf("%d blobs, though 10 GiB hold %d at most", most, int64(defaultMaxSize)/blobBlock)
	}
	if set := units("index", map[string]string{"memory-limit": "512MiB", "store-max-blobs": "1234"}); set != 1234 {
		t.Errorf("%d blobs, 1234 were set", set)
	}
}

func TestDescriptorsCoverConnectionsStreamsAndUploads(t *testing.T) {
	p := build(t, map[string]string{"memory-limit": "512MiB"}).Plan()
	count := map[string]int64{}
	for _, d := range p.Descriptors {
		count[d.What] += d.Count
	}
	for _, l := range p.Lines {
		switch l.Account {
		case "connections", "http_connections", "admin", "streams", "uploads":
			if count[l.Account] != l.Units {
				t.Errorf("%s: %d descriptors for %d units", l.Account, count[l.Account], l.Units)
			}
		}
	}
}

func TestOnlyLoopbackIsNotPublic(t *testing.T) {
	for addr, public := range map[string]bool{
		"127.0.0.1:1": false, "127.9.9.9:1": false, "[::1]:1": false, "localhost:1": false, "LOCALHOST:1": false,
		":1": true, "0.0.0.0:1": true, "[::]:1": true, "10.0.0.1:1": true, "cache.example.com:1": true, "localhost.example.com:1": true,
	} {
		if got := isPublic(addr); got != public {
			t.Errorf("isPublic(%s) = %v", addr, got)
		}
	}
}

func TestBuildTouchesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	a := build(t, map[string]string{"memory-limit": "512MiB"})
	a.Plan()
	if a.store.disk != nil {
		t.Error("the store is open")
	}
	for _, f := range a.Check() {
		if f.Severity == Failure {
			t.Errorf("%+v", f)
		}
	}
	if left := readDir(t, dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
