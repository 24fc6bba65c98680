package privtest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// hoard is memory of each kind that a test asks for.
type hoard struct {
	mapped []byte
	heap   [][]byte
}

var garbage []byte // package level, so that it is really allocated

func (h *hoard) obey(o order) (err error) {
	switch o.Do {
	case "status":
	case "map":
		h.mapped, err = syscall.Mmap(-1, 0, int(o.N), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		touch(h.mapped)
	case "unmap":
		err = syscall.Munmap(h.mapped)
		h.mapped = nil
	case "heap":
		const piece = 64 << 10
		for range o.N / piece {
			b := make([]byte, piece)
			touch(b)
			h.heap = append(h.heap, b)
		}
		// A live heap is what a collection has seen, and the runtime collects for those who allocate.
		for range 2 * len(h.heap) {
			garbage = make([]byte, piece)
		}
	case "free":
		h.heap = nil
	case "write":
		err = writeFile(o.Path, o.N)
	case "read":
		err = readFile(o.Path)
	case "files":
		err = makeFiles(o.Path, int(o.N))
	default:
		err = fmt.Errorf("unknown order %q", o.Do)
	}
	return err
}

func touch(b []byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
}

func writeFile(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, mib)
	for written := int64(0); written < size; written += mib {
		if _, err := f.Write(buf); err != nil {
			return err
		}
		if written%(8*mib) == 0 {
			if err := f.Sync(); err != nil { // dirty pages are use, and not what is tested
				return err
			}
		}
	}
	return f.Sync()
}

// readFile reads twice: pages seen twice are active ones, which a meter that only takes inactive ones away calls use.
func readFile(path string) error {
	for range 2 {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, mib))
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func makeFiles(dir string, n int) error {
	for i := range n {
		if i%1000 == 0 {
			if err := os.MkdirAll(filepath.Join(dir, fmt.Sprint(i/1000)), 0o755); err != nil {
				return err
			}
		}
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i/1000), fmt.Sprint(i)))
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}
