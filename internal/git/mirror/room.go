package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// makeRoom evicts until n bytes more fit: mirrors that nobody uses, the least recently used first.
func (s *Store) makeRoom(n int64) error {
	if s.o.MaxBytes == 0 {
		return nil
	}
	for {
		have, victim := s.weigh()
		if have+n <= s.o.MaxBytes {
			return nil
		}
		if victim == nil {
			return fmt.Errorf("%w: %d bytes are in use and cannot be evicted now, %d more are needed, and git.max_size is %d: raise it",
				ErrNoRoom, have, n, s.o.MaxBytes)
		}
		s.log.Info("a mirror is evicted to make room", "repo", victim.id.String())
		victim.drop(nil)
	}
}

// weigh counts all bytes, and finds the mirror to give way.
func (s *Store) weigh() (total int64, victim *mirror) {
	total = s.incoming.Load() + s.leaving.Load()
	var oldest time.Time
	for _, m := range s.all() {
		bytes, used, idle := m.weight()
		total += bytes
		if idle && (victim == nil || used.Before(oldest)) {
			victim, oldest = m, used
		}
	}
	return total, victim
}

// weight is of the mirror's bare; idle says that it has one which nobody uses.
func (m *mirror) weight() (bytes int64, used time.Time, idle bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.mu.bare
	if b == nil {
		return 0, used, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.bytes, b.mu.used, len(b.mu.held) == 0 && m.mu.syncing == nil
}

// The time of last use is that of a file.
func setUsed(dir string, used time.Time) {
	_ = os.Chtimes(filepath.Join(dir, metaFile), time.Time{}, used)
}

func lastUsed(dir string) time.Time {
	i, err := os.Stat(filepath.Join(dir, metaFile))
	if err != nil {
		return time.Time{}
	}
	return i.ModTime()
}

// globQuote makes a path match itself.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
