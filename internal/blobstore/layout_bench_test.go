package blobstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkLayout compares ways to lay blobs out on the file system, without any of the store around them: into which
// of how many directories a file goes, by its hash or filled in turn, and how a finished file gets its
// name. Every fifth blob stays and the others are removed 10,000 blobs later, as a full cache would.
// docs/adr/0002-blob-store-layout.md has the figures. TMPDIR chooses the disk.
func BenchmarkLayout(b *testing.B) {
	byHash := func(n int) func(int, [32]byte) int {
		return func(_ int, sum [32]byte) int { return int(binary.BigEndian.Uint16(sum[:])) % n }
	}
	layouts := []struct {
		name  string
		dirs  int
		shard func(i int, sum [32]byte) int
	}{
		{"flat", 1, byHash(1)},
		{"hash256", 256, byHash(256)},
		{"hash4096", 4096, byHash(4096)},
		{"turn64", 64, func(i int, _ [32]byte) int { return i / 4096 % 64 }},
	}
	for _, size := range []int{4 << 10, 2 << 20} {
		for _, l := range layouts {
			for _, how := range []string{"rename", "link"} {
				b.Run(fmt.Sprintf("size=%d/%s/%s", size, l.name, how), func(b *testing.B) {
					benchmarkLayout(b, size, l.dirs, l.shard, how)
				})
			}
		}
	}
}

func benchmarkLayout(b *testing.B, size, dirs int, shard func(int, [32]byte) int, how string) {
	root := b.TempDir()
	tmp := filepath.Join(root, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		b.Fatal(err)
	}
	for i := range dirs {
		if err := os.Mkdir(filepath.Join(root, fmt.Sprintf("%03x", i)), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	name := func(i int) string {
		sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i)))
		return filepath.Join(root, fmt.Sprintf("%03x", shard(i, sum)), hex.EncodeToString(sum[:]))
	}
	data := make([]byte, size)
	b.SetBytes(int64(size))
	before := cpuTime(b)
	defer func() {
		b.StopTimer()
		b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	}()
	b.ResetTimer()
	for i := range b.N {
		final := name(i)
		var err error
		if how == "rename" {
			err = storeByRename(filepath.Join(tmp, fmt.Sprintf("%x", i)), final, data)
		} else {
			err = storeByLink(filepath.Dir(final), final, data)
		}
		if err != nil {
			b.Fatal(err)
		}
		if old := i - 10_000; old >= 0 && old%5 != 0 {
			if err := unix.Unlink(name(old)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// cpuTime is what this process has used. Wall time on a shared disk says little; the kernel's share of the work is here.
func cpuTime(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func storeByRename(tmp, final string, data []byte) error {
	fd, err := unix.Open(tmp, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Pwrite(fd, data, 0); err != nil {
		return err
	}
	return unix.Rename(tmp, final)
}

func storeByLink(dir, final string, data []byte) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Pwrite(fd, data, 0); err != nil {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, final, unix.AT_SYMLINK_FOLLOW)
}

// BenchmarkLayoutFlushed is what durability costs with each layout: batches of 32 blobs of 4 KiB, every file flushed and
// then every directory that the batch touched, once.
func BenchmarkLayoutFlushed(b *testing.B) {
	for _, l := range []struct {
		name  string
		shard func(i int) int
	}{
		{"hash256", func(i int) int { return int(sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i)))[0]) }},
		{"turn64", func(i int) int { return i / 4096 % 64 }},
	} {
		b.Run(l.name, func(b *testing.B) {
			root := b.TempDir()
			for i := range 256 {
				if err := os.Mkdir(filepath.Join(root, fmt.Sprintf("%03x", i)), 0o700); err != nil {
					b.Fatal(err)
				}
			}
			data := make([]byte, 4096)
			dirs := map[string]bool{}
			b.ResetTimer()
			for i := range b.N {
				dir := filepath.Join(root, fmt.Sprintf("%03x", l.shard(i)))
				if err := storeFlushed(filepath.Join(root, "temp"), filepath.Join(dir, fmt.Sprint(i)), data); err != nil {
					b.Fatal(err)
				}
				if dirs[dir] = true; i%32 < 31 {
					continue
				}
				for d := range dirs {
					if err := (osFS{}).SyncDir(d); err != nil {
						b.Fatal(err)
					}
				}
				clear(dirs)
			}
		})
	}
}

func storeFlushed(temp, final string, data []byte) error {
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(temp, final)
}
