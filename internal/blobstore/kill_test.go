package blobstore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

const helperDir = "LEVEE_TEST_BLOBSTORE_DIR"

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		useUntilKilled(dir)
		return
	}
	os.Exit(m.Run())
}

func killOptions(dir string) Options {
	return Options{Dir: dir, MaxBlobs: 500, MaxSize: 8 << 20, MinFree: -1}
}

// useUntilKilled stores, replaces and evicts with four workers, and prints a line for each commit that was acknowledged.
func useUntilKilled(dir string) {
	d, err := OpenDisk(killOptions(dir))
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	go d.Run(context.Background())
	go func() {
		for d.snapshot(context.Background()) == nil {
		}
	}()
	fmt.Println("ready")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			seed := uint64(os.Getpid())<<8 | uint64(w)
			rnd := rand.New(rand.NewPCG(seed, seed))
			for i := 0; ; i++ {
				data := make([]byte, rnd.IntN(60_000)+16)
				k := stamp(data, int(rnd.Uint32()))
				copy(data[8:], fmt.Sprintf("%8d", w))
				k.Hash = sumOf(data)
				if i%4 == 0 {
					k = Key{Kind: AC, Hash: [32]byte{byte(w), byte(rnd.IntN(5))}}
				}
				if err := useOnce(d, k, data, i); err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Printf("ok %s %x %x\n", k.Kind, k.Hash, sumOf(data))
			}
		})
	}
	wg.Wait()
}

func useOnce(d *Disk, k Key, data []byte, i int) error {
	ctx := context.Background()
	if i%2 == 0 {
		return d.Put(ctx, k, data)
	}
	u, err := d.Create(ctx, k, int64(len(data)), 0)
	if err != nil {
		return err
	}
	defer u.Abort()
	if _, err := u.Write(data[:len(data)/2]); err != nil {
		return err
	}
	if _, err := u.Write(data[len(data)/2:]); err != nil {
		return err
	}
	return u.Commit(ctx)
}

// TestKill9LosesNothing kills a real process twenty times. What it acknowledged last, less than the store's size ago,
// must be there, and everything that is there must be right.
func TestKill9LosesNothing(t *testing.T) {
	dir := t.TempDir()
	last := map[Key]string{} // the hash of the value that was acknowledged last
	for round := range 20 {
		recent := killOne(t, dir, time.Duration(20+rand.IntN(100))*time.Millisecond, last)
		d := openAgain(t, killOptions(dir))
		if names, err := os.ReadDir(d.path("tmp")); err != nil || len(names) > 0 {
			t.Fatalf("round %d: %d temporary files, %v", round, len(names), err)
		}
		for _, k := range recent {
			if size(d, k) < 0 {
				t.Fatalf("round %d: %s %x was acknowledged and is lost", round, k.Kind, k.Hash[:4])
			}
		}
		for k, want := range last {
			got, err := read(d, k)
			if n := size(d, k); n >= 0 && (err != nil || int64(len(got)) != n) {
				t.Fatalf("round %d: %d bytes are promised, %d read, %v", round, n, len(got), err)
			}
			// An action result may be newer than what we heard of.
			if sum := sumOf(got); err == nil && k.Kind == CAS && hex.EncodeToString(sum[:]) != want {
				t.Fatalf("round %d: wrong bytes", round)
			}
		}
		if round%5 == 4 {
			d.sweep(context.Background())
			checkOSFiles(t, d)
		}
		if round%3 == 0 {
			must(t, d.Close())
		} else {
			crash(d)
		}
	}
}

// killOne runs the process for a while, kills it, and returns the keys that it acknowledged last, so few that they cannot
// have been evicted.
func killOne(t *testing.T, dir string, after time.Duration, last map[Key]string) (recent []Key) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperDir+"="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	in := bufio.NewReader(out)
	if line, err := in.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	text, err := io.ReadAll(in)
	must(t, err)
	_ = cmd.Wait() // it was killed
	lines := strings.Split(string(text), "\n")
	for _, line := range lines[:len(lines)-1] { // the last one is cut
		kind, hash, sum := "", []byte(nil), ""
		if n, err := fmt.Sscanf(line, "ok %s %x %s", &kind, &hash, &sum); n != 3 {
			t.Fatalf("the process says %q, %v", line, err)
		}
		k := Key{Hash: [32]byte(hash)}
		if kind == "ac" {
			k.Kind = AC
		}
		last[k] = sum
		recent = append(recent, k)
	}
	return recent[max(0, len(recent)-50):]
}

func checkOSFiles(t *testing.T, d *Disk) {
	t.Helper()
	files, total := 0, int64(0)
	must(t, d.eachBlobFile(func(v victim, name string) error {
		i, err := os.Stat(name)
		if err == nil {
			files++
			total += charged(i.Size())
		}
		return err
	}))
	if s := d.Stats(); s.Blobs != files || s.Bytes != total {
		t.Fatalf("%d files of %d bytes; the index has %+v", files, total, s)
	}
}

// FuzzJournal feeds arbitrary bytes as a journal: it must not panic, nor apply what is not sealed.
func FuzzJournal(f *testing.F) {
	e := entry{hash: [32]byte{1}, gen: 7, tick: 9, bits: 100 << sizeShift}
	good := appendPut(nil, 3, &e)
	good = appendTouches(good, 10, []uint32{3, 4})
	good = appendRemove(good, 3, 7)
	fs := newMemFS()
	must(f, fs.MkdirAll("store"))
	j, err := (&Disk{opts: Options{Dir: "store"}, fs: fs}).createJournal(5)
	must(f, err)
	must(f, j.append(good, false))
	whole := fs.find("store/journal-0000000000000005").bytes
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &loader{idx: newIndex(10)}
		good, total, err := replayJournal(bytes.NewReader(b), 5, r)
		if err != nil || good > total || total != int64(len(b)) {
			t.Fatalf("%d of %d of %d bytes, %v", good, total, len(b), err)
		}
		r.finish(10)
	})
}

// FuzzRecords seals arbitrary records, so that the decoder behind the CRC is reached.
func FuzzRecords(f *testing.F) {
	e := entry{hash: [32]byte{1}, gen: 7, tick: 9, bits: 100<<sizeShift | 1}
	put := appendPut(nil, 3, &e)
	f.Add(byte(recPut), put[recordHeader:])
	f.Add(byte(recRemove), []byte{3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0})
	f.Add(byte(recTouch), []byte{1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0})
	f.Fuzz(func(t *testing.T, typ byte, payload []byte) {
		if len(payload) > 60_000 {
			payload = payload[:60_000]
		}
		b := append(beginRecord(nil, typ, len(payload)), payload...)
		seal(b, 0)
		r := &loader{idx: newIndex(10)}
		r.put(3, e)
		if n, _, err := replayRecord(b, 0, r); err == nil && n != len(b) {
			t.Fatalf("read %d of %d bytes", n, len(b))
		}
		if r.idx.high < 1<<16 {
			r.finish(10)
		}
	})
}

// FuzzSnapshot damages a snapshot: it must be read whole or not at all.
func FuzzSnapshot(f *testing.F) {
	fs := newMemFS()
	must(f, fs.MkdirAll("d"))
	file, err := fs.Open("d/s", os.O_CREATE)
	must(f, err)
	done := 0
	_, err = writeSnapshot(file, 5, func(b []byte) ([]byte, bool) {
		for i := range uint32(3) {
			b = appendEntry(b, uint32(done)*chunkLen+i, &entry{hash: [32]byte{byte(i)}, gen: 7, bits: 100 << sizeShift})
		}
		done++
		return b, done < 3
	})
	must(f, err)
	whole := fs.find("d/s").bytes
	f.Add(whole)
	f.Add(whole[:headerLen])
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &loader{idx: newIndex(10)}
		if err := readSnapshot(bytes.NewReader(b), 5, r); err == nil && bytes.HasPrefix(whole, b[:min(len(b), 40)]) && r.idx.taken != 9 {
			t.Fatalf("%d entries of a whole snapshot", r.idx.taken)
		}
	})
}
