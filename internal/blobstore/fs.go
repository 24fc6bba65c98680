package blobstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// FS is the part of a file system that a Disk needs. It is the seam at which tests put slow, full and failing disks
// and processes killed between two calls. Errors are those of package os.
type FS interface {
	Open(name string, flag int) (File, error)
	Rename(from, to string) error // replaces atomically
	Remove(name string) error
	MkdirAll(name string) error
	// List calls each with the name of every entry of dir, in no order, without holding them all in memory.
	List(dir string, each func(name string) error) error
	SyncDir(name string) error // renames into and removals from name survive a power cut
	Free(dir string) (free, total int64, err error)
	// Lock takes the file name for this process; it fails at once if another one has it.
	Lock(name string) (io.Closer, error)
}

// File is an open file of an FS.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (size int64, modified time.Time, err error)
	Sync() error
	StartWriteback(off, n int64) error // asks for dirty pages to be written, without waiting for them
	Readahead(off, n int64) error      // asks for pages to be read, without waiting for them
	OSFile() *os.File                  // for sendfile; nil if there is none
}

type osFS struct{}

// Open never updates access times: a read that dirties an inode would wait behind the journal of a stalled disk.
func (osFS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag|unix.O_NOATIME, 0o600)
	if errors.Is(err, os.ErrPermission) { // only a file's owner may ask for O_NOATIME
		f, err = os.OpenFile(name, flag, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Rename(from, to string) error { return unix.Rename(from, to) }
func (osFS) Remove(name string) error     { return unix.Unlink(name) }
func (osFS) MkdirAll(name string) error   { return os.MkdirAll(name, 0o700) }

func (osFS) List(dir string, each func(name string) error) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(512)
		for _, n := range names {
			if err := each(n); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (osFS) SyncDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (osFS) Free(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, fmt.Errorf("%s is in use by another process; stop it or choose another directory", filepath.Dir(name))
		}
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}

type osFile struct{ *os.File }

func (f osFile) OSFile() *os.File { return f.File }

func (f osFile) Stat() (int64, time.Time, error) {
	i, err := f.File.Stat()
	if err != nil {
		return 0, time.Time{}, err
	}
	return i.Size(), i.ModTime(), nil
}

func (f osFile) StartWriteback(off, n int64) error {
	return unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
}

func (f osFile) Readahead(off, n int64) error {
	return unix.Fadvise(int(f.Fd()), off, n, unix.FADV_WILLNEED)
}
