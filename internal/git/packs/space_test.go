package packs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// small has room for a few packs of 4 MB, of which none may be larger than one.
func small(r *rig) {
	bigPack(r)
	r.o.MaxBytes, r.o.MaxPack = 8*mib, 1*mib
}

func TestAPackThatIsTooLargeStreamsThroughAWindowAndIsNotKept(t *testing.T) {
	r := newRig(t, small)
	var calls []*call
	r.hold()
	for range 3 {
		calls = append(calls, r.start(r.clone(), new(out)))
	}
	until(t, "all wait", func() bool { return r.seats() == 3 })
	r.release()
	for _, c := range calls {
		c.wait(t)
		if c.err != nil {
			t.Fatal(c.err)
		}
		r.wantPack(c)
		if c.res.PackBytes < 3*mib {
			t.Errorf("a pack of %d bytes", c.res.PackBytes)
		}
	}
	if s := r.c.Stats(); s.SpoolBytes != 0 || s.Packs != 0 || s.Detached != 0 {
		t.Errorf("got %+v", s)
	}
	r.want(r.ask(r.clone()), Generated)
}

func TestASlowReaderOfAWindowIsLeftBehindIfAnotherStarves(t *testing.T) {
	r := newRig(t, small)
	r.c.patient = 50 * time.Millisecond
	r.hold()
	slow := r.start(r.clone(), &out{gate: make(chan struct{}), takes: 10_000})
	until(t, "the first sits", func() bool { return r.seats() == 1 })
	fast := r.start(r.clone(), new(out))
	until(t, "both wait", func() bool { return r.seats() == 2 })
	r.release()
	r.want(fast, Coalesced)
	r.wantPack(fast)
	close(slow.out.gate)
	slow.wait(t)
	b := slow.out.bands(t)
	if slow.err == nil || b.whole || !strings.Contains(b.fatal, "reads so slowly") || r.c.Stats().Detached != 1 {
		t.Errorf("%v: %q, whole: %v, %+v", slow.err, b.fatal, b.whole, r.c.Stats())
	}
}

// Alone, it pins what it asked for and nobody else's; the permit is kept for as long.
func TestASlowReaderOfAWindowIsServedIfItIsAlone(t *testing.T) {
	r := newRig(t, small)
	r.c.patient = time.Millisecond
	slow := &out{gate: make(chan struct{}), takes: 10_000}
	c := r.start(r.clone(), slow)
	until(t, "the window is full", func() bool {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		return slow.isStuck() && r.c.mu.generating == 1 && r.c.mu.spools.len() == 0
	})
	if r.o.Heavy.Stats().Held != 1 {
		t.Error("the permit is not held")
	}
	close(slow.gate)
	r.want(c, Generated)
	r.wantPack(c)
}

func TestADistinctPackNeverTakesTheSpoolAboveItsBudget(t *testing.T) {
	r := newRig(t, func(r *rig) {
		bigPack(r)
		r.o.MaxBytes, r.o.MaxPack = 8*mib, 8*mib
	})
	commits := strings.Fields(r.sh(nil, `git -C "$1" rev-list main`, r.lease.Dir))
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			if s := r.c.Stats(); s.SpoolBytes > s.MaxBytes {
				t.Errorf("%d bytes of %d are spooled", s.SpoolBytes, s.MaxBytes)
				return
			}
		}
	})
	var calls []*call
	for _, oid := range commits {
		calls = append(calls, r.start(r.fetch("want "+oid, "done"), new(out)))
	}
	for _, c := range calls {
		c.wait(t)
		if c.err != nil {
			t.Fatal(c.err)
		}
		r.wantPack(c)
	}
	close(stop)
	watch.Wait()
	if s := r.c.Stats(); s.Packs == len(commits) {
		t.Errorf("got %+v", s)
	}
}

func TestThePackThatWasReadLongestAgoGivesWay(t *testing.T) {
	r := newRig(t, func(r *rig) {
		bigPack(r)
		r.o.MaxBytes, r.o.MaxPack = 14*mib, 14*mib // of which a quarter is set aside
	})
	commits := strings.Fields(r.sh(nil, `git -C "$1" rev-list -n 3 main`, r.lease.Dir))
	ask := func(i int, outcome string) { t.Helper(); r.want(r.ask(r.fetch("want "+commits[i], "done")), outcome) }
	ask(0, Generated)
	ask(1, Generated)
	ask(0, Hit)
	ask(2, Generated)
	ask(0, Hit)
	ask(1, Generated)
}

// fullDisk has room for so many bytes in all files together, until a file is gone.
type fullDisk struct {
	mu    sync.Mutex
	left  int64
	until string
}

type fullFile struct {
	file
	disk *fullDisk
	size int64
}

func (f *fullFile) WriteAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if _, err := os.Stat(f.disk.until); f.disk.until != "" && err != nil {
		return f.file.WriteAt(p, off)
	}
	more := max(0, off+int64(len(p))-f.size)
	short := max(0, more-f.disk.left)
	n, err := f.file.WriteAt(p[:int64(len(p))-short], off)
	taken := max(0, off+int64(n)-f.size)
	f.size += taken
	f.disk.left -= taken
	if err == nil && short > 0 {
		err = fmt.Errorf("write: %w", unix.ENOSPC)
	}
	return n, err
}

func TestAFullDiskMakesAWindowOfWhatThereIs(t *testing.T) {
	for _, left := range []int64{100_000, 1 * mib, 10_000} {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			r := newRig(t, bigPack)
			disk := &fullDisk{left: left}
			r.c.mkfile = func(path string) (file, error) {
				f, err := createFile(path)
				return &fullFile{file: f, disk: disk}, err
			}
			c := r.ask(r.clone())
			if left >= grainLeast {
				r.want(c, Generated)
				r.wantPack(c)
				return
			}
			if c.err == nil || !strings.Contains(c.err.Error(), "make room for git.path") || c.out.bands(t).whole {
				t.Errorf("%+v, %v", c.res, c.err)
			}
		})
	}
}

func TestAFullDiskTakesThePlaceOfWhatNobodyReads(t *testing.T) {
	r := newRig(t, bigPack)
	commits := strings.Fields(r.sh(nil, `git -C "$1" rev-list -n 3 main`, r.lease.Dir))
	r.want(r.ask(r.fetch("want "+commits[0], "done")), Generated)
	first := filepath.Join(r.o.Dir, "1.pack")
	if _, err := os.Stat(first); err != nil {
		t.Fatal(err)
	}
	disk := &fullDisk{left: 5_000, until: first}
	r.c.mkfile = func(path string) (file, error) {
		f, err := createFile(path)
		return &fullFile{file: f, disk: disk}, err
	}
	second := r.ask(r.fetch("want "+commits[1], "done"))
	r.want(second, Generated)
	r.wantPack(second)
	r.want(r.ask(r.fetch("want "+commits[1], "done")), Hit)
}

// Readers at many paces in a small ring see the same bytes.
func TestARingGivesEveryReaderTheSameBytes(t *testing.T) {
	r := newRig(t, func(r *rig) { r.o.MaxBytes, r.o.MaxPack = 4*mib, 64<<10 })
	s, err := r.c.newSpool(key{1}, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 3*mib)
	noise := rand.New(rand.NewPCG(3, 4))
	for i := range data {
		data[i] = byte(noise.Uint32())
	}
	r.c.mu.Lock()
	r.c.mu.generating++
	readers := make([]*reader, 5)
	for i := range readers {
		readers[i] = s.joinLocked()
	}
	r.c.mu.Unlock()
	var all sync.WaitGroup
	for i, rd := range readers {
		all.Go(func() {
			defer rd.leave()
			if err := rd.open(); err != nil {
				t.Error(err)
				return
			}
			if got := drain(t, rd, make([]byte, 1+i*7001)); !bytes.Equal(got, data) {
				t.Errorf("reader %d got %d other bytes", i, len(got))
			}
		})
	}
	_, err = into{t.Context(), s}.ReadFrom(bytes.NewReader(data))
	s.finish(err)
	all.Wait()
	if err != nil {
		t.Error(err)
	}
}

func drain(t *testing.T, r *reader, buf []byte) (got []byte) {
	for {
		some, done, changed, err := r.look()
		if err != nil {
			t.Error(err)
			return got
		}
		if done && !some {
			return got
		}
		if !some {
			<-changed
			continue
		}
		n, err := r.Read(buf)
		if err != nil {
			t.Error(err)
			return got
		}
		got = append(got, buf[:n]...)
	}
}

func TestTooFewBytesForAllGenerationsAreAnError(t *testing.T) {
	r := newRig(t, nil)
	o := r.o
	o.MaxBytes = mib / 2
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "raise git.spool_size or lower git.total") {
		t.Errorf("got %v", err)
	}
}
