package mirror

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/leveehq/levee/internal/git/upstream"
)

// load finds the mirrors of earlier processes, and clears away what those were doing when they ended.
func (s *Store) load() error {
	for _, dir := range []string{s.mirrorsDir(), s.workDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := empty(s.workDir()); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.mirrorsDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if n, ok := numberOf(e.Name()); ok && n > s.seq.Load() {
			s.seq.Store(n)
		}
	}
	for _, e := range entries {
		if err := s.loadOne(e.Name()); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(s.mirrorsDir(), e.Name()), err)
		}
	}
	return nil
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// loadOne takes one directory over, or removes it: what cannot be repaired is cloned anew when it is asked for.
func (s *Store) loadOne(name string) error {
	dir := filepath.Join(s.mirrorsDir(), name)
	n, err := readMeta(dir)
	if errors.Is(err, errNewer) {
		return err
	}
	id := upstream.Repo{Host: n.Host, Path: n.Path}
	number, _ := numberOf(name)
	if err == nil && dirName(id, number) != name {
		err = fmt.Errorf("%s names another repository", metaFile)
	}
	if err == nil && exists(filepath.Join(dir, droppedFile)) {
		s.discard(dir)
		return nil
	}
	if err != nil {
		s.log.Warn("a directory among the mirrors is none, and is removed", "dir", dir, "error", err)
		s.discard(dir)
		return nil
	}
	b := newBare(s, id, dir, n)
	err = b.repair()
	m := s.enter(id)
	defer s.leave(m)
	if err == nil {
		m.take(b)
		return nil
	}
	if !isDamage(err) {
		return err
	}
	s.log.Warn("a mirror is broken; it will be cloned anew", "repo", id.String(), "error", err)
	s.discard(dir)
	if m.mu.bare == nil {
		m.mu.broken = err
	}
	return nil
}

// take keeps the newer of two directories: a process ended before it had removed the older one.
func (m *mirror) take(b *bare) {
	old := m.mu.bare
	if old == nil {
		m.mu.bare, m.mu.broken = b, nil
		return
	}
	this, _ := numberOf(filepath.Base(b.dir))
	other, _ := numberOf(filepath.Base(old.dir))
	if this > other {
		m.mu.bare, old = b, b
	}
	m.s.discard(old.dir)
}

// repair undoes what a process left half done, and checks what is cheap to check. An error is damage.
func (b *bare) repair() (err error) {
	if err := errors.Join(makeRepository(b.dir, b.mu.meta.Format), tidy(b.dir)); err != nil {
		return err
	}
	outlived, err := b.removeDoomed()
	if err != nil {
		return err
	}
	if b.mu.packs, err = openPacks(b.packDir(), b.hash); err != nil {
		return err
	}
	if err := b.repairWants(); err != nil {
		return err
	}
	if b.mu.suspects, err = readSuspects(b.dir, b.hash); err != nil {
		return err
	}
	b.mu.suspects.list = nil
	if !b.mu.meta.Settled {
		if err := b.suspect(suspects{all: true}); err != nil {
			return err
		}
	}
	if outlived || !wholeIndex(filepath.Join(b.packDir(), "multi-pack-index"), b.hash) {
		dropDerived(b.dir)
		b.mu.unfolded = len(b.mu.packs) > 0
	}
	b.mu.used = lastUsed(b.dir)
	b.mu.bytes = diskBytes(b.dir)
	return nil
}

// removeDoomed reports whether there was anything that outlived its process.
func (b *bare) removeDoomed() (outlived bool, err error) {
	if len(b.mu.meta.Doomed) == 0 {
		return false, nil
	}
	for _, name := range b.mu.meta.Doomed {
		for _, dir := range []string{b.packDir(), b.wantsDir()} {
			base := filepath.Join(dir, filepath.Base(name))
			outlived = outlived || exists(base+".pack")
			removePack(base)
		}
	}
	return outlived, b.note(func(m *meta) { m.Doomed = nil })
}

// repairWants drops what no ref reaches if any of it is damaged: it can be had again.
func (b *bare) repairWants() (err error) {
	if b.mu.wants, err = openPacks(b.wantsDir(), b.hash); err == nil {
		return nil
	}
	b.mu.wants = nil
	return empty(b.wantsDir())
}

// tidy removes locks, temporary files and loose refs. Nobody else has the directory, so nobody has the locks; and there are
// no loose refs of ours, which would hide the packed ones.
func tidy(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || !stray(filepath.ToSlash(rel), e) {
			return err
		}
		return os.Remove(path)
	})
}

func stray(rel string, e fs.DirEntry) bool {
	name := e.Name()
	switch {
	case e.IsDir():
		return false
	case strings.HasSuffix(name, ".lock"), strings.HasSuffix(name, ".tmp"), strings.HasPrefix(name, "tmp_"), strings.HasPrefix(name, ".tmp-"):
		return true
	}
	return strings.HasPrefix(rel, "refs/") || rel == "shallow"
}

// wholeIndex tells whether a multi-pack-index is as long as its table of chunks says (gitformat-pack(5)). git does not start
// with one that is not.
func wholeIndex(name string, hash int) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	length, err := size(f)
	if err != nil {
		return false
	}
	var head [12]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[:4]) != "MIDX" || head[4] != 1 {
		return false
	}
	var last [12]byte // of the table: an id of zero, and where the last chunk ends
	if _, err := f.ReadAt(last[:], 12+12*int64(head[6])); err != nil {
		return false
	}
	return binary.BigEndian.Uint32(last[:4]) == 0 && binary.BigEndian.Uint64(last[4:]) == uint64(length)-uint64(hash)
}
