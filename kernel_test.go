package levee

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"reflect"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/governor"
)

// container is a machine of 8 GiB with a version 2 control group of that limit, in which so much is anonymous memory.
func container(limit string, anon int64) fstest.MapFS {
	return fstest.MapFS{
		"proc/meminfo":              {Data: []byte("MemTotal: 8388608 kB\n")},
		"proc/self/cgroup":          {Data: []byte("0::/\n")},
		"proc/self/mountinfo":       {Data: []byte("1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n")},
		"proc/self/status":          {Data: []byte("RssAnon: 4096 kB\nThreads: 3\n")},
		"sys/fs/cgroup/memory.max":  {Data: []byte(limit + "\n")},
		"sys/fs/cgroup/memory.stat": {Data: fmt.Appendf(nil, "anon %d\nfile 0\n", anon)},
	}
}

func newKernel(t *testing.T, o Options) *Kernel {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	k, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// keepCollector undoes what Start sets for the whole process.
func keepCollector(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
}

func TestTheLimitIsTheFlagElseTheGroupsElseAShareOfTheMachine(t *testing.T) {
	big := container("max", 0)
	big["proc/meminfo"] = &fstest.MapFile{Data: []byte("MemTotal: 67108864 kB\n")}
	for _, c := range []struct {
		fsys       fs.FS
		configured int64
		bytes      int64
		source     LimitSource
		scope      governor.Scope
	}{
		{container("1073741824", 0), 512 * mib, 512 * mib, Configured, governor.Process},
		{container("1073741824", 0), 0, 1 << 30, FromGroup, governor.Group},
		{container("max", 0), 0, 2 << 30, FromRAM, governor.Process},
		{container("17179869184", 0), 0, 2 << 30, FromRAM, governor.Process}, // more than the machine has
		{big, 0, 4 << 30, FromRAM, governor.Process},
	} {
		k := newKernel(t, Options{MemoryLimit: c.configured, FS: c.fsys})
		if k.Limit() != c.bytes || k.limit.source != c.source || k.limit.scope() != c.scope {
			t.Errorf("limit %v in scope %v, want %d (%s) in %v", k.limit, k.limit.scope(), c.bytes, c.source, c.scope)
		}
	}
}

func TestAnUnknownLimitIsAnErrorThatNamesTheFlag(t *testing.T) {
	broken := container("much", 0)
	for _, fsys := range []fs.FS{fstest.MapFS{}, broken} {
		if _, err := New(Options{FS: fsys}); err == nil || !strings.Contains(err.Error(), "set it with --memory-limit") {
			t.Errorf("%v", err)
		}
		if _, err := New(Options{FS: fsys, MemoryLimit: 512 * mib}); err != nil {
			t.Errorf("with a limit configured: %v", err)
		}
	}
	if _, err := New(Options{MemoryLimit: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
}

func TestStartRefusesALimitThatTheKernelWillNotGrant(t *testing.T) {
	keepCollector(t)
	for limit, want := range map[string]string{
		"1073741824": "memory limit is 16GiB, but the control group /sys/fs/cgroup has only 1GiB",
		"max":        "memory limit is 16GiB, but this machine has only 8GiB",
	} {
		k := newKernel(t, Options{MemoryLimit: 16 << 30, FS: container(limit, 0)})
		if err := k.Start(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if !k.Plan().Fits {
			t.Error("the plan itself does not depend on this machine")
		}
	}
}

func TestStartSetsTheCollectorFromThePlanAndOnlyOnce(t *testing.T) {
	keepCollector(t)
	k := newKernel(t, Options{MemoryLimit: 512 * mib, FS: container("max", 0)})
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	if got, want := debug.SetMemoryLimit(-1), k.Plan().GoMemLimit; got != want {
		t.Errorf("GOMEMLIMIT %d, want the plan's %d", got, want)
	}
	if got := debug.SetGCPercent(100); got != defaultGCPercent {
		t.Errorf("GOGC %d, want %d", got, defaultGCPercent)
	}
	if err := k.Start(); err == nil {
		t.Error("started twice")
	}
}

func TestAPlanThatDoesNotFitStartsNothing(t *testing.T) {
	keepCollector(t)
	before := debug.SetMemoryLimit(math.MaxInt64)
	k := newKernel(t, Options{MemoryLimit: 64 * mib, FS: container("max", 0)})
	k.AddLine(Line{Account: "index", Kind: KindGo, Units: 40 * mib, Unit: "byte", PerUnit: 1, Setting: "store.max_blobs"})
	if err := k.Start(); err == nil || !strings.Contains(err.Error(), "store.max_blobs") {
		t.Errorf("%v", err)
	}
	if got := debug.SetMemoryLimit(before); got != math.MaxInt64 {
		t.Errorf("GOMEMLIMIT was set to %d", got)
	}
}

func TestLinesThatOnlyAProgrammerCanGetWrongPanic(t *testing.T) {
	keepCollector(t)
	ok := Line{Account: "a", Kind: KindGo, Unit: "byte", PerUnit: 1}
	with := func(change func(*Line)) Line { l := ok; change(&l); return l }
	k := newKernel(t, Options{MemoryLimit: 512 * mib, FS: container("max", 0)})
	k.AddLine(ok)
	for _, l := range []Line{
		ok, // again
		with(func(l *Line) { l.Account = "" }),
		with(func(l *Line) { l.Account, l.Unit = "b", "" }),
		with(func(l *Line) { l.Account, l.Kind = "b", "heap" }),
		with(func(l *Line) { l.Account, l.Units = "b", -1 }),
		with(func(l *Line) { l.Account = collectorAccount }),
		with(func(l *Line) { l.Account = "process" }),
	} {
		mustPanic(t, func() { k.AddLine(l) })
	}
	mustPanic(t, func() { k.AddDescriptors(-1, "files") })
	k.AddStatus("bazel", func() any { return nil })
	mustPanic(t, func() { k.AddStatus("bazel", func() any { return nil }) })
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	mustPanic(t, func() { k.AddLine(with(func(l *Line) { l.Account = "late" })) })
	mustPanic(t, func() { k.AddDescriptors(1, "late") })
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

func TestTwoGatesOfOneNameAreRefused(t *testing.T) {
	k := newKernel(t, Options{MemoryLimit: 512 * mib})
	if _, err := k.NewGate(gate.Options{Name: "write", Limit: 1}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := k.NewGate(gate.Options{Name: "write", Limit: 1}, false); err == nil {
		t.Error("the second was made")
	}
	if _, err := k.NewGate(gate.Options{Name: "none"}, false); err == nil {
		t.Error("a gate without limit was made")
	}
}

func TestGatesThatAskForItShedUnderPressureAndOthersDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(t, Options{FS: container("1073741824", 1000*mib)})
		var own atomic.Bool
		write, err := k.NewGate(gate.Options{Name: "write", Limit: 10, Pressure: own.Load}, true)
		if err != nil {
			t.Fatal(err)
		}
		read, err := k.NewGate(gate.Options{Name: "read", Limit: 10}, false)
		if err != nil {
			t.Fatal(err)
		}
		admits := func(g *gate.Gate) bool {
			p, err := g.TryAdmit("key", 1)
			p.Release()
			return err == nil
		}
		if !admits(write) || !admits(read) {
			t.Fatal("shed before the governor runs")
		}
		own.Store(true)
		if admits(write) {
			t.Error("the gate's own pressure is forgotten")
		}
		own.Store(false)

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if k.Level() != governor.Shed || admits(write) || !admits(read) {
			t.Errorf("level %v; write admits %v, read %v", k.Level(), admits(write), admits(read))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestStatusShowsEverythingAsJSON(t *testing.T) {
	k := newKernel(t, Options{MemoryLimit: 512 * mib, Version: "v1.2.3", FS: container("max", 0)})
	g, err := k.NewGate(gate.Options{Name: "write", Limit: 100}, true)
	if err != nil {
		t.Fatal(err)
	}
	k.AddLine(Line{Account: "write", Kind: KindGo, Units: 100, Unit: "byte", PerUnit: 1, InUse: func() int64 { return g.Stats().InUse }})
	k.AddStatus("bazel", func() any { return map[string]int{"blobs": 7} })
	k.Warn("listening on 0.0.0.0 without authentication")
	k.Warn("listening on 0.0.0.0 without authentication")
	p, err := g.TryAdmit("key", 40)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()

	s := k.Status()
	if c := k.charges(); c.Go != 40 {
		t.Errorf("charged %+v, want 40 bytes of Go", c)
	}
	if len(s.Warnings) != 1 || len(s.Gates) != 1 || s.Gates[0].InUse != 40 || s.Version != "v1.2.3" {
		t.Errorf("%+v", s)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"limit_bytes":536870912,"limit_source":"configured","level":"normal"`, `"in_use_bytes":40`, `"services":{"bazel":{"blobs":7}}`,
		`"name":"write","in_use":40,"limit":100`, `"pressure":0`, `"scope":"process"`,
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
}

func TestEveryFigureOfAGateIsInStatus(t *testing.T) {
	var from gate.Stats
	v := reflect.ValueOf(&from).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Uint64:
			f.SetUint(uint64(i + 1))
		case reflect.Float64:
			f.SetFloat(float64(i + 1))
		case reflect.String:
			f.SetString("name")
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		}
	}
	to := reflect.ValueOf(gateStatus(from))
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		got := to.FieldByName(name)
		if !got.IsValid() || !reflect.DeepEqual(got.Interface(), v.Field(i).Interface()) {
			t.Errorf("%s is lost on the way into Status", name)
		}
	}
}

func TestAnEmptyStatusHasListsAndNoNulls(t *testing.T) {
	text, err := json.Marshal(newKernel(t, Options{MemoryLimit: 512 * mib}).Status())
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestTooFewDescriptorsAreNamedWithWhatNeedsThem(t *testing.T) {
	planned := []Descriptors{baseDescriptors, {"connections", 4000}, {"store files", 1000}}
	if err := checkDescriptors(planned, 5064); err != nil {
		t.Error(err)
	}
	err := checkDescriptors(planned, 1024)
	const want = "5064 file descriptors may be needed at once (process 64, connections 4000, store files 1000), but the hard limit is 1024"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	if checkDescriptors([]Descriptors{{"a", math.MaxInt64}, {"b", math.MaxInt64}}, 1024) == nil {
		t.Error("overflowing counts fit")
	}
}
