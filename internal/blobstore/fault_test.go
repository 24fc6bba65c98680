package blobstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// faulty fails calls of an operation with err while it is on.
type faulty struct {
	mu  sync.Mutex
	op  string
	dir string
	err error
}

func (f *faulty) set(op, dir string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.op, f.dir, f.err = op, dir, err
}

func (f *faulty) call(op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.op == op && strings.Contains(name, f.dir) {
		return f.err
	}
	return nil
}

func faultyDisk(t *testing.T, o Options) (*Disk, *memFS, *faulty) {
	t.Helper()
	fs, f := newMemFS(), &faulty{}
	fs.fault = f.call
	o.FS, o.Dir = fs, "store"
	return testDisk(t, o), fs, f
}

func TestB17TroubleWithTheDiskIsNeverReportedAsMissing(t *testing.T) {
	for _, trouble := range []struct {
		name string
		op   string
		err  error
	}{
		{"TooFewDescriptors", "open", syscall.EMFILE},
		{"AnUnreadableDirectory", "open", syscall.EACCES},
		{"ABadSector", "open", syscall.EIO},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			d, _, f := faultyDisk(t, Options{})
			k, data := put(t, d, 5000, 1)
			f.set(trouble.op, "store/cas", trouble.err)
			_, err := d.Open(t.Context(), k)
			if !errors.Is(err, trouble.err) || errors.Is(err, ErrNotExist) || errors.Is(err, os.ErrNotExist) {
				t.Fatalf("error %v", err)
			}
			f.set("", "", nil)
			wantBlob(t, d, k, data)
		})
	}
}

func TestB17AStoreWhoseDirectoryIsGoneIsNotAnEmptyOne(t *testing.T) {
	d := testDisk(t, Options{Dir: filepath.Join(t.TempDir(), "store")})
	k, data := put(t, d, 5000, 1)
	must(t, os.Rename(d.opts.Dir, d.opts.Dir+".away"))
	if _, err := d.Open(t.Context(), k); err == nil || errors.Is(err, ErrNotExist) || errors.Is(err, os.ErrNotExist) {
		t.Fatalf("error %v", err)
	}
	must(t, os.Rename(d.opts.Dir+".away", d.opts.Dir))
	wantBlob(t, d, k, data)
}

func TestB17AFileRemovedOrCutByHandIsForgottenAndCanBeStoredAgain(t *testing.T) {
	for what, damage := range map[string]func(path string) error{
		"removed":             os.Remove,
		"cut":                 func(p string) error { return os.Truncate(p, 100) },
		"removed with others": func(p string) error { return os.RemoveAll(filepath.Dir(p)) },
	} {
		t.Run(what, func(t *testing.T) {
			d := testDisk(t, Options{})
			k, data := put(t, d, 5000, 1)
			slot, _ := d.mu.idx.find(k)
			must(t, damage(d.blobPath(k, d.mu.idx.at(slot).gen)))
			if _, err := d.Open(t.Context(), k); !errors.Is(err, ErrNotExist) {
				t.Fatalf("error %v", err)
			}
			if size(d, k) != -1 {
				t.Fatal("it is still promised")
			}
			if s := d.Stats(); s.Bytes != 0 || s.Unlinking != 0 || s.Forgotten != 1 {
				t.Fatalf("%+v", s)
			}
			must(t, d.Put(t.Context(), k, data))
			wantBlob(t, d, k, data)
		})
	}
}

func wantNoSpace(t *testing.T, err error, reason string) {
	t.Helper()
	var full *NoSpace
	if !errors.As(err, &full) || full.Reason != reason || full.Detail == "" {
		t.Fatalf("error %v, want a NoSpace because of %s", err, reason)
	}
}

func TestB11AFullDiskShedsWritesKeepsReadsAndNothingPartial(t *testing.T) {
	for _, op := range []string{"write", "create", "rename"} {
		for _, no := range []error{syscall.ENOSPC, syscall.EDQUOT} {
			t.Run(fmt.Sprint(op, no), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d, fs, f := faultyDisk(t, Options{MaxBlobs: 4})
					k, data := put(t, d, 5000, 1)
					f.set(op, "", no)
					other := []byte("other")
					wantNoSpace(t, d.Put(t.Context(), stampOf(other), other), "disk_full")
					wantNoSpace(t, d.Put(t.Context(), stampOf(other), other), "disk_full") // believed without trying
					if why, shed := d.Shedding(); !shed || why != "disk_full" {
						t.Fatalf("Shedding is %q", why)
					}
					time.Sleep(2 * fullFor)
					u, err := d.Create(t.Context(), stampOf(other), 5, 0)
					must(t, err)
					if _, err = u.Write(other); err == nil {
						err = u.Commit(t.Context())
					}
					u.Abort()
					wantNoSpace(t, err, "disk_full")
					wantBlob(t, d, k, data)
					checkFiles(t, "while full", d, fs)
					f.set("", "", nil)
					time.Sleep(2 * fullFor)
					must(t, d.Put(t.Context(), stampOf(other), other))
					wantBlob(t, d, stampOf(other), other)
					checkFiles(t, "afterwards", d, fs)
				})
			})
		}
	}
}

func stampOf(data []byte) Key { return Key{Hash: sumOf(data)} }

func TestAJournalThatCannotBeWrittenFailsCommitsAndStillFreesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, fs, f := faultyDisk(t, Options{MaxSize: 3 * block})
		keys := make([]Key, 3)
		for i := range keys {
			keys[i], _ = put(t, d, 100, i)
		}
		f.set("write", "journal", syscall.ENOSPC)
		big := make([]byte, 2*block)
		wantNoSpace(t, d.Put(t.Context(), stampOf(big), big), "disk_full")
		if size(d, stampOf(big)) >= 0 {
			t.Fatal("a commit that failed is visible")
		}
		checkFiles(t, "while failing", d, fs)
		if n := d.Stats().Blobs; n != 1 {
			t.Fatalf("%d blobs, and two had to make room", n)
		}
		f.set("", "", nil)
		time.Sleep(2 * fullFor)
		small := []byte("small") // takes one of the two slots
		must(t, d.Put(t.Context(), stampOf(small), small))
		crash(d)
		again := openAgain(t, d.opts)
		defer again.Close()
		for i, want := range []int64{-1, -1, 100} {
			if n := size(again, keys[i]); n != want {
				t.Errorf("after a crash blob %d is %d bytes, want %d", i, n, want)
			}
		}
		wantBlob(t, again, stampOf(small), small)
	})
}

func TestTheFloorOfFreeSpaceShedsWritesAndKeepsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, fs, _ := faultyDisk(t, Options{MinFree: 1 << 30})
		k, data := put(t, d, 5000, 1)
		fs.mu.Lock()
		fs.free = 1<<30 - 1
		fs.mu.Unlock()
		time.Sleep(2 * askEvery)
		_, err := d.Create(t.Context(), indexKey(9), 10, 0)
		wantNoSpace(t, err, "min_free")
		wantNoSpace(t, d.Put(t.Context(), stampOf([]byte("x")), []byte("x")), "min_free")
		must(t, d.Put(t.Context(), k, data)) // there already
		if why, shed := d.Shedding(); !shed || why != "min_free" || d.Stats().Shedding != why {
			t.Fatalf("Shedding is %q", why)
		}
		wantBlob(t, d, k, data)
		fs.mu.Lock()
		fs.free = 1 << 31
		fs.mu.Unlock()
		time.Sleep(2 * askEvery)
		put(t, d, 100, 2)
	})
}

func TestAFileThatCannotBeRemovedStaysCounted(t *testing.T) {
	d, fs, f := faultyDisk(t, Options{MaxSize: 8 * block})
	k, _ := put(t, d, 100, 0)
	slot, _ := d.mu.idx.find(k)
	for i := range 7 {
		put(t, d, 100, 1+i)
	}
	f.set("remove", filepath.Base(d.blobPath(k, d.mu.idx.at(slot).gen)), syscall.EPERM)
	for i := range 20 {
		put(t, d, 100, 10+i)
	}
	if s := d.Stats(); s.Bytes != 7*block || s.Unlinking != block {
		t.Fatalf("%+v", s)
	}
	f.set("", "", nil)
	d.tidy(t.Context())
	if s := d.Stats(); s.Unlinking != 0 {
		t.Fatalf("%+v", s)
	}
	checkFiles(t, "after another try", d, fs)
}

func TestAReadOnlyDiskDoesNotEmptyTheIndex(t *testing.T) {
	for _, o := range []Options{{MaxSize: 100 * block}, {MaxBlobs: 100}} {
		d, fs, f := faultyDisk(t, o)
		for i := range 100 {
			put(t, d, 100, i)
		}
		f.set("remove", "", syscall.EROFS)
		failed := 0
		for i := range 50 {
			data := fmt.Append(nil, "more", i)
			if d.Put(t.Context(), stampOf(data), data) != nil {
				failed++
			}
		}
		if s := d.Stats(); failed == 0 || s.Blobs < 100-maxFailed {
			t.Fatalf("%d of 50 failed, %+v", failed, s)
		}
		f.set("", "", nil)
		d.tidy(t.Context())
		put(t, d, 100, 1000)
		checkFiles(t, "afterwards", d, fs)
	}
}

// TestB2AStalledDiskPinsNoMoreThreadsThanItHasSlots stalls every write; reads go on, and who gives up is let go.
func TestB2AStalledDiskPinsNoMoreThreadsThanItHasSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		d := testDisk(t, Options{FS: fs, Dir: "store", IOSlots: 8, MaxSize: 1 << 30, MaxBlobs: 5000})
		k, data := put(t, d, 5000, 1)
		stall := make(chan struct{})
		var inside, most atomic.Int64
		fs.fault = func(op, name string) error {
			if op == "open" || op == "read" {
				return nil
			}
			n := inside.Add(1)
			defer inside.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-stall
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var gaveUp atomic.Int64
		for i := range 3000 {
			go func() {
				data := fmt.Appendf(nil, "blob %d", i)
				if err := d.Put(ctx, stampOf(data), data); errors.Is(err, context.Canceled) {
					gaveUp.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		wantBlob(t, d, k, data)
		cancel()
		synctest.Wait()
		if n := gaveUp.Load(); n < 3000-9 {
			t.Errorf("%d of 3000 were let go", n)
		}
		if n := most.Load(); n > 8+1 { // and the journal's leader
			t.Errorf("%d calls at once", n)
		}
		close(stall)
		synctest.Wait()
		fs.fault = nil
		d.tidy(t.Context()) // those who gave up left their commits to the next journal write
		checkFiles(t, "after the stall", d, fs)
	})
}
