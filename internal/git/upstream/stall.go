package upstream

import (
	"sync"
	"time"
)

// stallClock ends a request while upstream is waited for, and only then: who reads an answer slowly is not upstream's fault.
type stallClock struct {
	patience time.Duration
	mu       struct {
		sync.Mutex
		timer *time.Timer
		over  bool
	}
}

// newStallClock runs at once. ended is called on a goroutine of its own when it has run for patience.
func newStallClock(patience time.Duration, ended func()) *stallClock {
	s := &stallClock{patience: patience}
	s.mu.timer = time.AfterFunc(patience, ended)
	return s
}

// run begins anew: upstream is waited for, or has just done something.
func (s *stallClock) run() { s.set(s.patience) }

func (s *stallClock) set(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.over {
		s.mu.timer.Reset(d)
	}
}

// stop is for while something else is waited for.
func (s *stallClock) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.timer.Stop()
}

// end stops it for good, whoever still calls run.
func (s *stallClock) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.over = true
	s.mu.timer.Stop()
}
