package blobstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

var errKilled = errors.New("the process was killed")

// memFS is a file system in memory that knows what a kill and what a power cut leave behind. Each call that changes
// something, and each write, is one step; the process is killed at step killAt, in the middle of it if it is a write.
type memFS struct {
	mu     sync.Mutex
	dirs   map[string]map[string]*memData // what the process sees: directory, name, file
	stable map[string]map[string]*memData // what a power cut leaves of the names
	steps  int
	killAt int // 0: never
	killed bool
	locked bool
	free   int64
	// fault may fail a call, or hold it up. It is called without the lock. nil: no faults.
	fault func(op, name string) error
}

type memData struct {
	bytes, synced []byte
	modified      time.Time
}

func newMemFS() *memFS {
	return &memFS{dirs: map[string]map[string]*memData{}, stable: map[string]map[string]*memData{}, free: 1 << 40}
}

func (m *memFS) step(op, name string) error {
	if m.fault != nil {
		if err := m.fault(op, name); err != nil {
			return &os.PathError{Op: op, Path: name, Err: err}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stepLocked()
}

func (m *memFS) stepLocked() error {
	if m.killed {
		return errKilled
	}
	m.steps++
	if m.steps == m.killAt {
		m.killed = true
		return errKilled
	}
	return nil
}

func (m *memFS) find(name string) *memData { return m.dirs[filepath.Dir(name)][filepath.Base(name)] }

func (m *memFS) Open(name string, flag int) (File, error) {
	if flag&os.O_CREATE != 0 {
		if err := m.step("create", name); err != nil {
			return nil, err
		}
	} else if m.fault != nil {
		if err := m.fault("open", name); err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.killed {
		return nil, errKilled
	}
	f := m.find(name)
	dir := m.dirs[filepath.Dir(name)]
	switch {
	case dir == nil || f == nil && flag&os.O_CREATE == 0:
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	case f != nil && flag&os.O_EXCL != 0:
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrExist}
	case f == nil:
		f = &memData{}
		dir[filepath.Base(name)] = f
	case flag&os.O_TRUNC != 0:
		f.bytes = nil
	}
	return &memFile{fs: m, name: name, data: f}, nil
}

func (m *memFS) Rename(from, to string) error {
	if err := m.step("rename", to); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.find(from)
	if f == nil || m.dirs[filepath.Dir(to)] == nil {
		return &os.PathError{Op: "rename", Path: from, Err: os.ErrNotExist}
	}
	delete(m.dirs[filepath.Dir(from)], filepath.Base(from))
	m.dirs[filepath.Dir(to)][filepath.Base(to)] = f
	return nil
}

func (m *memFS) Remove(name string) error {
	if err := m.step("remove", name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.find(name) == nil {
		return &os.PathError{Op: "remove", Path: name, Err: os.ErrNotExist}
	}
	delete(m.dirs[filepath.Dir(name)], filepath.Base(name))
	return nil
}

func (m *memFS) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.killed {
		return errKilled
	}
	if m.dirs[name] == nil {
		m.dirs[name], m.stable[name] = map[string]*memData{}, map[string]*memData{}
	}
	return nil
}

func (m *memFS) List(dir string, each func(string) error) error {
	if m.fault != nil {
		if err := m.fault("list", dir); err != nil {
			return &os.PathError{Op: "list", Path: dir, Err: err}
		}
	}
	m.mu.Lock()
	if m.killed {
		m.mu.Unlock()
		return errKilled
	}
	var names []string
	for n := range m.dirs[dir] {
		names = append(names, n)
	}
	m.mu.Unlock()
	slices.Sort(names)
	for _, n := range names {
		if err := each(n); err != nil {
			return err
		}
	}
	return nil
}

func (m *memFS) SyncDir(name string) error {
	if err := m.step("syncdir", name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := map[string]*memData{}
	for n, f := range m.dirs[name] {
		now[n] = f
	}
	m.stable[name] = now
	return nil
}

func (m *memFS) Free(string) (int64, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.free, 1 << 40, nil
}

func (m *memFS) Lock(string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.killed {
		return nil, errKilled
	}
	if m.locked {
		return nil, errors.New("in use")
	}
	m.locked = true
	return closer(func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.locked = false
		return nil
	}), nil
}

type closer func() error

func (c closer) Close() error { return c() }

// what a crash leaves of what was not flushed.
type loss int

const (
	killLoses       loss = iota // nothing: the kernel has it
	powerLosesAll               // every name and byte that was not flushed
	powerLosesBytes             // bytes, but not names: files come back with their length and zeros
)

// after is the file system that the next process finds.
func (m *memFS) after(l loss) *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := newMemFS()
	names := m.dirs
	if l == powerLosesAll {
		names = m.stable
	}
	for dir, files := range names {
		next.dirs[dir], next.stable[dir] = map[string]*memData{}, map[string]*memData{}
		for n, f := range files {
			b := bytes.Clone(f.bytes)
			switch l {
			case powerLosesAll:
				b = bytes.Clone(f.synced)
			case powerLosesBytes:
				if !bytes.Equal(f.synced, f.bytes) {
					clear(b)
					copy(b, f.synced)
				}
			}
			kept := &memData{bytes: b, synced: bytes.Clone(b), modified: f.modified}
			next.dirs[dir][n], next.stable[dir][n] = kept, kept
		}
	}
	return next
}

// files counts the files under cas, ac and tmp, and their bytes rounded up.
func (m *memFS) files() (blobs map[string]int, temps int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	blobs = map[string]int{}
	for dir, files := range m.dirs {
		for n, f := range files {
			switch {
			case filepath.Base(dir) == "tmp":
				temps++
			case len(filepath.Base(dir)) == 2:
				blobs[dir+"/"+n] = len(f.bytes)
			default:
				continue
			}
			bytes += charged(int64(len(f.bytes)))
		}
	}
	return blobs, temps, bytes
}

type memFile struct {
	fs   *memFS
	name string
	data *memData
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.fault != nil {
		if err := f.fs.fault("read", f.name); err != nil {
			return 0, err
		}
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.killed {
		return 0, errKilled
	}
	if off >= int64(len(f.data.bytes)) {
		return 0, io.EOF
	}
	n := copy(p, f.data.bytes[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if f.fs.fault != nil {
		if err := f.fs.fault("write", f.name); err != nil {
			f.write(p[:len(p)/2], off) // as a disk that fills up does
			return len(p) / 2, &os.PathError{Op: "write", Path: f.name, Err: err}
		}
	}
	f.fs.mu.Lock()
	err := f.fs.stepLocked()
	torn := err != nil && f.fs.steps == f.fs.killAt
	f.fs.mu.Unlock()
	if torn {
		f.fs.mu.Lock()
		f.fs.steps++ // only this write is torn
		f.fs.mu.Unlock()
		f.write(p[:len(p)/2], off)
	}
	if err != nil {
		return 0, err
	}
	f.write(p, off)
	return len(p), nil
}

func (f *memFile) write(p []byte, off int64) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if need := int(off) + len(p) - len(f.data.bytes); need > 0 {
		f.data.bytes = append(f.data.bytes, make([]byte, need)...)
	}
	copy(f.data.bytes[off:], p)
	f.data.modified = time.Now()
}

func (f *memFile) Sync() error {
	if err := f.fs.step("sync", f.name); err != nil {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.data.synced = bytes.Clone(f.data.bytes)
	return nil
}

func (f *memFile) Stat() (int64, time.Time, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.killed {
		return 0, time.Time{}, errKilled
	}
	return int64(len(f.data.bytes)), f.data.modified, nil
}

func (f *memFile) Close() error                    { return nil }
func (f *memFile) StartWriteback(_, _ int64) error { return nil }
func (f *memFile) Readahead(_, _ int64) error      { return nil }
func (f *memFile) OSFile() *os.File                { return nil }
func (f *memFile) String() string                  { return fmt.Sprintf("%s (%d bytes)", f.name, len(f.data.bytes)) }
