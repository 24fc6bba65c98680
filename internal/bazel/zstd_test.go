package bazel

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func compress(t testing.TB, b []byte, o ...zstd.EOption) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, append([]zstd.EOption{zstd.WithEncoderConcurrency(1)}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.EncodeAll(b, nil)
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), 1})
	_, _ = r.Read(b)
	return b
}

// decodeZstd is what a compressed upload goes through, without the call around it.
func decodeZstd(data []byte, size int64) ([]byte, error) {
	window, err := frameWindow(data[:min(len(data), zstd.HeaderMaxSize)], size)
	if err != nil {
		return nil, err
	}
	dec, err := newStreamDecoder(bytes.NewReader(data), window)
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	var out bytes.Buffer
	err = decodeInto(&out, dec, size, &cpuSlot{})
	return out.Bytes(), err
}

func TestACompressedUploadStopsAtItsDeclaredSize(t *testing.T) { // B9, O11
	bomb := compress(t, make([]byte, 64*mib), zstd.WithSingleSegment(false), zstd.WithWindowSize(mib))
	noSize := bytes.NewBuffer(nil)
	e, err := zstd.NewWriter(noSize, zstd.WithWindowSize(mib))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.CopyN(e, zeros{}, 64*mib)
	_ = e.Close()
	for name, data := range map[string][]byte{"declared by the frame": bomb, "not declared": noSize.Bytes()} {
		out, err := decodeZstd(data, 7)
		if !errors.Is(err, errTooMuch) || len(out) > 7 {
			t.Errorf("size %s: %d bytes and %v", name, len(out), err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFramesMayFollowOneAnother(t *testing.T) {
	want := randomBytes(1, 300*kib)
	data := append(compress(t, want[:100*kib]), compress(t, want[100*kib:])...)
	out, err := decodeZstd(data, int64(len(want)))
	if err != nil || !bytes.Equal(out, want) {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
}

func TestFrameWindowsAreJudgedByName(t *testing.T) {
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}
	for _, c := range []struct {
		name string
		head []byte
		size int64
		want int64 // 0: refused with text
		text string
	}{
		{"P", unhexString(t, "28b52ffd0458390000616263646566672d820229"), 7, 2 * mib, ""},
		{"8 MiB", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3, 0, 0}, 100 * mib, 8 * mib, ""},
		{"16 MiB", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 14 << 3, 0, 0}, 100 * mib, 0, "8 MiB"},
		{"2 GiB", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0, 0}, 4 << 30, 0, "8 MiB"},
		{"skippable", skippable, 7, maxFrameWindow, ""},
		{"garbage", []byte("hello, world"), 7, 0, "not a zstd frame"},
		{"nothing", nil, 7, 0, "not a zstd frame"},
		{"too large", compress(t, make([]byte, 1000)), 7, 0, "more bytes"},
	} {
		got, err := frameWindow(c.head, c.size)
		if c.want == 0 {
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: %v, want an error with %q", c.name, err, c.text)
			}
		} else if got != max(c.want, min(freeWindow, max(c.size, zstd.MinWindowSize))) {
			t.Errorf("%s: window %d, %v", c.name, got, err)
		}
	}
}

func FuzzZstdStream(f *testing.F) {
	f.Add(unhexString(f, "28b52ffd0458390000616263646566672d820229"), int64(7))
	f.Add(compress(f, bytes.Repeat([]byte("levee"), 1000)), int64(5000))
	f.Add([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, int64(1))
	f.Fuzz(func(t *testing.T, data []byte, size int64) {
		size = max(1, min(size, mib))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := decodeZstd(data, size)
		runtime.ReadMemStats(&after)
		if int64(len(out)) > size {
			t.Errorf("%d bytes from an upload of %d, %v", len(out), size, err)
		}
		// All that was ever allocated, of which a part was live at once: the permit's worth, and the output of this test.
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(maxFrameWindow+perDecoder+4*size+2*mib); got > most {
			t.Errorf("%d bytes were allocated for an upload of %d", got, size)
		}
	})
}

func TestADecoderTakesWhatItsPermitSays(t *testing.T) {
	if !measuring(t) {
		return
	}
	for _, window := range []int{128 * kib, mib, 2 * mib, 8 * mib} {
		data := &bytes.Buffer{}
		e, err := zstd.NewWriter(data, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		src := randomBytes(2, 64*kib)
		for i := range 3 * window / len(src) { // compressible, but not into nothing
			src[0] = byte(i)
			_, _ = e.Write(src)
			_, _ = e.Write(randomBytes(uint64(i), 8*kib))
		}
		_ = e.Close()
		const n = 8
		var decs [n]*zstd.Decoder
		got := heapOf(func() {
			for i := range decs {
				decs[i], err = newStreamDecoder(bytes.NewReader(data.Bytes()), int64(window))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.CopyN(io.Discard, decs[i], int64(2*window+window/2)); err != nil {
					t.Fatal(err)
				}
			}
		}) / n
		runtime.KeepAlive(decs)
		most := int64(window) + perDecoder
		t.Logf("window %d KiB: decoder takes window + %d KiB", window/kib, (got-int64(window))/kib)
		if got > most || got*3/2 < most {
			t.Errorf("window %d KiB: a decoder takes %d KiB, and its permit is for %d KiB", window/kib, got/kib, most/kib)
		}
		for _, d := range decs {
			d.Close()
		}
	}
}

// heapOf is how much more is live after f.
func heapOf(f func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) + int64(after.StackInuse) - int64(before.HeapAlloc) - int64(before.StackInuse)
}

func TestThePoolOfEncodersAndDecodersTakesWhatThePlanSays(t *testing.T) {
	if !measuring(t) {
		return
	}
	const n, batch = 4, 2 * mib
	chunk := randomBytes(3, maxReadChunk)
	text := randomBytes(4, batch) // literals that compress a little, and matches: the decoder needs all of its buffers
	for i := range text {
		text[i] = 'a' + text[i]%20
		if i > 1000 && i/16%4 == 0 {
			text[i] = text[i-977]
		}
	}
	frame := compress(t, text)
	var pool *zstdPool
	got := heapOf(func() {
		var err error
		if pool, err = newZstdPool(n); err != nil {
			t.Fatal(err)
		}
		for range n { // in turn: a channel hands out the longest unused
			out, err := pool.encode(t.Context(), &cpuSlot{}, chunk, make([]byte, 0, frameBound(maxReadChunk)))
			if err != nil || int64(len(out)) > frameBound(maxReadChunk) {
				t.Fatalf("a frame of %d bytes from %d, %v", len(out), len(chunk), err)
			}
		}
		for range n {
			if _, _, err := pool.shrink(t.Context(), &cpuSlot{}, chunk[:maxShrink]); err != nil {
				t.Fatal(err)
			}
		}
		for range n {
			err := pool.decode(t.Context(), frame, batch, func(b []byte) error {
				if len(b) != batch {
					t.Fatalf("%d bytes", len(b))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}) / n
	most := (&Options{MaxBatch: batch}).perProcessor()
	t.Logf("%d KiB a pair of encoder and decoder, and the plan says %d KiB", got/kib, most/kib)
	if got > most || got*3/2 < most {
		t.Errorf("a pair takes %d KiB, and the plan says %d KiB", got/kib, most/kib)
	}
	runtime.KeepAlive(pool)
}

func TestABatchDecoderStopsAtTheSizeItIsGiven(t *testing.T) {
	pool, err := newZstdPool(1)
	if err != nil {
		t.Fatal(err)
	}
	frame := compress(t, make([]byte, 2*mib))
	never := func([]byte) error { t.Error("bytes were handed on"); return nil }
	if err := pool.decode(t.Context(), frame, 100, never); !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		t.Errorf("a bomb ends with %v", err)
	}
	for _, size := range []int{1, 100, 128 * kib, 128*kib + 1, 2 * mib} {
		b := randomBytes(4, size)
		ok := func(got []byte) error {
			if !bytes.Equal(got, b) {
				t.Errorf("%d bytes come out wrong", size)
			}
			return nil
		}
		if err := pool.decode(t.Context(), compress(t, b), int64(size), ok); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
