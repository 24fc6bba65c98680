package mirror

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leveehq/levee/internal/git/upstream"
)

// dirName is the same for all copies of one mirror; n tells them apart. A hash needs no escaping, folds no case, and is never
// too long, whatever a repository is called.
func dirName(id upstream.Repo, n uint64) string {
	sum := sha256.Sum256([]byte(id.Host + "\x00" + id.Path))
	return hex.EncodeToString(sum[:16]) + "." + strconv.FormatUint(n, 10)
}

// numberOf is dirName's n.
func numberOf(name string) (uint64, bool) {
	_, n, ok := strings.Cut(name, ".")
	number, err := strconv.ParseUint(n, 10, 64)
	return number, ok && err == nil
}

func (s *Store) mirrorsDir() string { return filepath.Join(s.o.Dir, "mirrors") }
func (s *Store) workDir() string    { return filepath.Join(s.o.Dir, "work") }

// newWork makes a directory in work/.
func (s *Store) newWork() (string, error) {
	dir := filepath.Join(s.workDir(), strconv.FormatUint(s.seq.Add(1), 10))
	return dir, os.Mkdir(dir, 0o700)
}

func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// A process that is killed while it starts a child leaves that one with the lock, until it execs or follows.
	for range 20 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s is in use by another process; stop it or choose another directory", dir)
	}
	return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
}

// meta is levee.json: what of a mirror is in no file of git's.
type meta struct {
	Version int    `json:"version"`
	Host    string `json:"host"`
	Path    string `json:"path"`
	Format  string `json:"object_format"`

	// Settled says that the refs are whole and that suspects are listed. It is false while refs change: a process that dies
	// then leaves a mirror in which every object is a suspect.
	Settled bool `json:"settled"`

	Asked    time.Time         `json:"asked"`              // when upstream last confirmed the refs
	Packed   time.Time         `json:"packed"`             // when all was last packed anew; first: when it was cloned
	Repacked bool              `json:"repacked,omitempty"` // it was, since
	Links    map[string]string `json:"symrefs,omitempty"`  // symbolic refs other than HEAD
	Doomed   []string          `json:"doomed,omitempty"`   // packs that are only there for those who had them open
}

const (
	metaVersion = 1
	metaFile    = "levee.json"
	droppedFile = "dropped" // whoever finds it in a mirror removes the mirror
)

func readMeta(dir string) (m meta, err error) {
	b, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%s: %w", metaFile, err)
	}
	switch {
	case m.Version > metaVersion:
		return m, errNewer
	case m.Version < 1 || m.Host == "" || m.Path == "" || hashLen(m.Format) == 0:
		return m, fmt.Errorf("%s is not whole", metaFile)
	}
	return m, nil
}

var errNewer = errors.New("written by a newer version: use that version, or an empty directory")

func (m meta) write(dir string) error {
	b, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, metaFile), append(b, '\n'))
}

// replaceFile makes name hold b, or leaves it as it was, even if power is cut.
func replaceFile(name string, b []byte) error {
	tmp := name + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(tmp)
		return err
	}
	return os.Rename(tmp, name)
}

// hashLen is the length of an object id in bytes, 0 for a format that is not known.
func hashLen(format string) int {
	switch format {
	case "sha1":
		return 20
	case "sha256":
		return 32
	}
	return 0
}

// noHead is what HEAD names where upstream has none: git takes no directory for a repository that has no HEAD.
const noHead = "refs/levee/no-head"

// makeRepository writes what git init would, but for what nobody needs. It repairs one, too, but for HEAD.
func makeRepository(dir, format string) error {
	for _, sub := range []string{"objects/pack", "objects/info", "refs/heads", "wants/pack"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	version, extension := 0, ""
	if format != "sha1" {
		version, extension = 1, "[extensions]\n\tobjectFormat = "+format+"\n"
	}
	config := fmt.Sprintf("[core]\n\trepositoryFormatVersion = %d\n\tbare = true\n\tlogAllRefUpdates = false\n%s"+
		"[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n", version, extension)
	return os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600)
}

// linkWants makes wants/ an alternate: git finds what is there, and counts it to no ref.
func linkWants(dir string) error {
	name := filepath.Join(dir, "objects", "info", "alternates")
	want := []byte("../wants\n")
	if have, err := os.ReadFile(name); err == nil && bytes.Equal(have, want) {
		return nil
	}
	return replaceFile(name, want)
}
