package child

import (
	"io"
	"sync/atomic"
)

// source remembers why its reader failed: the child only says that its input was cut off.
type source struct {
	r      io.Reader
	err    atomic.Pointer[error]
	closed atomic.Bool
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if s.closed.Load() { // by us, and so no failure
		return n, io.EOF
	}
	s.err.CompareAndSwap(nil, &err)
	return n, err
}

// close ends a Read that would go on for a child that is gone.
func (s *source) close() {
	if s == nil {
		return
	}
	s.closed.Store(true)
	if c, ok := s.r.(io.Closer); ok {
		_ = c.Close()
	}
}

func (s *source) failed() error {
	if s == nil {
		return nil
	}
	return load(&s.err)
}

// sink remembers why its writer failed: the child dies of SIGPIPE, and says nothing.
type sink struct {
	w   io.Writer
	err atomic.Pointer[error]
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// ReadFrom leaves the size of the buffer to a writer that has its own.
func (s *sink) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(s.w, readerOnly{r})
	if err != nil {
		s.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (s *sink) failed() error {
	if s == nil {
		return nil
	}
	return load(&s.err)
}

func load(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

// readerOnly hides an *os.File's WriteTo, which would look for a socket to splice to.
type readerOnly struct{ io.Reader }
