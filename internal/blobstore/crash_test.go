package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// life is a process that uses a store, in a way that a seed determines, until it is killed or done. It knows what the
// store has acknowledged.
type life struct {
	d      *Disk
	rnd    *rand.Rand
	ever   map[Key][][]byte // every value that a key was ever given, acknowledged or not
	parked int
}

func (l *life) run(steps int) error {
	for range steps {
		if err := l.step(); errors.Is(err, errKilled) {
			return err
		}
	}
	return l.d.Close()
}

func (l *life) step() error {
	ctx := context.Background()
	switch l.rnd.IntN(10) {
	case 0, 1, 2:
		k, data := l.value()
		return l.d.Put(ctx, k, data)
	case 3, 4:
		return l.upload(func(u Upload) error { return u.Commit(ctx) })
	case 5:
		return l.upload(func(u Upload) error { u.Abort(); return nil })
	case 6:
		l.parked++
		name := fmt.Sprint(l.parked % 3)
		return l.upload(func(u Upload) error {
			err := u.Name(name)
			u.Park()
			return err
		})
	case 7:
		u, err := l.d.Resume(ctx, fmt.Sprint(l.rnd.IntN(3)))
		if err != nil {
			return err
		}
		return u.Commit(ctx)
	case 8:
		if l.rnd.IntN(4) > 0 {
			return nil
		}
		return l.d.snapshot(ctx)
	default:
		k, _ := l.value()
		b, err := l.d.Open(ctx, k)
		if err == nil {
			b.Close()
		}
		l.d.Lookup([]Key{k}, make([]int64, 1))
		return err
	}
}

func (l *life) value() (Key, []byte) {
	data := make([]byte, []int{0, 10, 4096, 5000, 12_000}[l.rnd.IntN(5)])
	for i := range data {
		data[i] = byte(l.rnd.IntN(256))
	}
	k := Key{Hash: sha256.Sum256(data)}
	if l.rnd.IntN(2) == 0 {
		k = Key{Kind: AC, Hash: [32]byte{byte(l.rnd.IntN(4))}}
	}
	l.ever[k] = append(l.ever[k], data)
	return k, data
}

func (l *life) upload(end func(Upload) error) error {
	k, data := l.value()
	u, err := l.d.Create(context.Background(), k, int64(len(data)), 0)
	if err != nil {
		return err
	}
	defer u.Abort()
	for p := data; len(p) > 0; {
		n := min(len(p), 3000)
		if _, err := u.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return end(u)
}

func crashOptions(fs FS, durability Durability, boot string) Options {
	return Options{Dir: "store", FS: fs, MaxBlobs: 12, MaxSize: 20 * block, MinFree: -1, Durability: durability, boot: boot}
}

// liveKeys is what the store told the world it has.
func liveKeys(d *Disk) (keys []Key) {
	for s := d.mu.idx.head; s != 0; s = d.mu.idx.at(s - 1).next {
		keys = append(keys, d.mu.idx.at(s-1).key())
	}
	return keys
}

// checkAfter opens the store that a crash left and holds it to what it had promised.
func checkAfter(t *testing.T, what string, fs *memFS, o Options, promised []Key, ever map[Key][][]byte, lossless bool) {
	t.Helper()
	if _, temps, _ := openedFiles(t, what, fs, o); temps > 0 {
		t.Fatalf("%s: %d temporary files are there after the start", what, temps)
	}
	d, err := OpenDisk(o)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if lossless {
		for _, k := range promised {
			if size(d, k) < 0 {
				t.Fatalf("%s: %s %x was acknowledged and is lost", what, k.Kind, k.Hash[:4])
			}
		}
	}
	for k, values := range ever {
		promisedSize := size(d, k)
		got, err := read(d, k)
		switch {
		case errors.Is(err, ErrNotExist) && (promisedSize < 0 || !lossless):
		case err != nil:
			t.Fatalf("%s: %s %x: %v", what, k.Kind, k.Hash[:4], err)
		case int64(len(got)) != promisedSize || !isOneOf(got, values):
			t.Fatalf("%s: %s %x reads %d wrong bytes", what, k.Kind, k.Hash[:4], len(got))
		}
	}
	d.sweep(context.Background())
	checkFiles(t, what, d, fs)
	must(t, d.Close())
}

// openedFiles opens and closes nothing: it starts a process that is killed as soon as the store is open.
func openedFiles(t *testing.T, what string, fs *memFS, o Options) (map[string]int, int, int64) {
	t.Helper()
	d, err := OpenDisk(o)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	crash(d)
	return fs.files()
}

func isOneOf(got []byte, values [][]byte) bool {
	for _, v := range values {
		if bytes.Equal(got, v) {
			return true
		}
	}
	return false
}

// checkFiles compares the index with the directories: no file too many, none too few, and the bytes add up.
func checkFiles(t *testing.T, what string, d *Disk, fs *memFS) {
	t.Helper()
	must(t, d.removeGhosts(context.Background()))
	blobs, temps, n := fs.files()
	s := d.Stats()
	if len(blobs) != s.Blobs || temps != 0 || n != s.Bytes || s.Reserved != 0 || s.Unlinking != 0 {
		t.Fatalf("%s: %d files, %d temporary, %d bytes; the index has %+v", what, len(blobs), temps, n, s)
	}
	for _, k := range liveKeys(d) {
		slot, _ := d.mu.idx.find(k)
		if got, ok := blobs[d.blobPath(k, d.mu.idx.at(slot).gen)]; !ok || int64(got) != d.mu.idx.at(slot).size() {
			t.Fatalf("%s: the file of %x is %d bytes (%v)", what, k.Hash[:4], got, ok)
		}
	}
}

// TestAKillAtAnyPointLosesNothing kills a process at each of its steps, and the one after it at some of its own.
func TestAKillAtAnyPointLosesNothing(t *testing.T) {
	for seed := range uint64(3) {
		eachKill(t, seed, SurvivesKill, 1, func(what string, fs *memFS, promised []Key, ever map[Key][][]byte) {
			again := fs.after(killLoses)
			if fs.killAt%7 == 0 {
				again.killAt = 1 + fs.killAt/7%40 // a second crash, while starting
				if d, err := OpenDisk(crashOptions(again, SurvivesKill, "a")); err == nil {
					d.sweep(context.Background())
				}
				again = again.after(killLoses)
			}
			checkAfter(t, what, again, crashOptions(again, SurvivesKill, "a"), promised, ever, true)
		})
	}
}

func TestWithFsyncAPowerCutAtAnyPointLosesNothing(t *testing.T) {
	for seed := range uint64(2) {
		eachKill(t, seed, Fsync, 1, func(what string, fs *memFS, promised []Key, ever map[Key][][]byte) {
			for _, l := range []loss{powerLosesAll, powerLosesBytes} {
				next := fs.after(l)
				checkAfter(t, fmt.Sprint(what, ", loss ", l), next, crashOptions(next, Fsync, "b"), nil, ever, false)
				next = fs.after(l)
				checkPromised(t, fmt.Sprint(what, ", loss ", l), next, promised, ever)
			}
		})
	}
}

// checkPromised reads what was acknowledged. A removal need not have reached the disk before its file went, so unlike
// after a kill only blobs that were not on their way out are held to it.
func checkPromised(t *testing.T, what string, fs *memFS, promised []Key, ever map[Key][][]byte) {
	t.Helper()
	d, err := OpenDisk(crashOptions(fs, Fsync, "b"))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, k := range promised {
		if got, err := read(d, k); err != nil || !isOneOf(got, ever[k]) {
			t.Fatalf("%s: %s %x was acknowledged, and reads %d bytes, %v", what, k.Kind, k.Hash[:4], len(got), err)
		}
	}
	must(t, d.Close())
}

func TestWithoutFsyncAPowerCutServesNothingWrong(t *testing.T) {
	for seed := range uint64(2) {
		eachKill(t, seed, SurvivesKill, 3, func(what string, fs *memFS, promised []Key, ever map[Key][][]byte) {
			for _, l := range []loss{powerLosesAll, powerLosesBytes} {
				next := fs.after(l)
				checkAfter(t, fmt.Sprint(what, ", loss ", l), next, crashOptions(next, SurvivesKill, "b"), nil, ever, false)
			}
		})
	}
}

// eachKill lives the life of a seed again and again, killed at every stride-th step, until it dies of old age.
func eachKill(t *testing.T, seed uint64, durability Durability, stride int, check func(what string, fs *memFS, promised []Key, ever map[Key][][]byte)) {
	t.Helper()
	for killAt := 1; ; killAt += stride {
		fs := newMemFS()
		fs.killAt = killAt
		l := &life{rnd: rand.New(rand.NewPCG(seed, seed)), ever: map[Key][][]byte{}}
		var err error
		var promised []Key
		if l.d, err = OpenDisk(crashOptions(fs, durability, "a")); err == nil {
			err = l.run(60)
			promised = liveKeys(l.d)
		}
		check(fmt.Sprintf("seed %d, killed at %d", seed, killAt), fs, promised, l.ever)
		if err == nil {
			if killAt < 100 {
				t.Fatalf("a life of %d steps proves little", killAt)
			}
			return
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
}
