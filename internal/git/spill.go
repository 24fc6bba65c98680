package git

import "net/http"

// spillAt is how much of an answer is held before it begins. A list of refs may have megabytes, and many may be asked for at
// once; a short one gets a Content-Length.
const spillAt = 32 * kib

// spill is a body that begins when it has grown.
type spill struct {
	call        *call
	contentType string
	buf         []byte
	err         error
}

// Write never sends less than it keeps, so that small packets become few large writes.
func (s *spill) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if len(s.buf)+len(p) > spillAt {
		if s.send(); s.err != nil {
			return 0, s.err
		}
	}
	s.buf = append(s.buf, p...)
	return len(p), nil
}

func (s *spill) send() {
	c := s.call
	if !c.begun {
		c.begin(http.StatusOK, s.contentType)
	}
	if c.r.Method != http.MethodHead {
		c.progress()
		var n int
		n, s.err = c.w.Write(s.buf)
		c.bytes += int64(n)
	}
	s.buf = s.buf[:0]
}

// end sends the rest, and all if it is little.
func (s *spill) end() error {
	switch {
	case s.err != nil:
		return s.err
	case !s.call.begun:
		return s.call.whole(http.StatusOK, s.contentType, s.buf)
	}
	s.send()
	return s.err
}
