package pglocal

import (
	"strings"
	"sync"
)

// tail keeps the end of what is written to it.
type tail struct {
	mu struct {
		sync.Mutex
		text []byte
	}
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.text = append(t.mu.text, p...)
	if over := len(t.mu.text) - tailBytes; over > 0 {
		t.mu.text = append(t.mu.text[:0], t.mu.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.mu.text))
}
