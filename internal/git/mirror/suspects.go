package mirror

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// suspects are objects that may be reachable from no ref any more. The list may name some that are: that costs a question to
// upstream, and no more.
type suspects struct {
	all  bool     // too many to list, or the list was lost
	n    int      // how many there are
	list [][]byte // sorted; nil while the mirror idles, see bare.forget
}

const (
	suspectsFile = "suspects"

	// mostSuspects bounds the list of one mirror, 2 MiB in memory. Above it all objects are suspects, until all is packed anew.
	mostSuspects = 1 << 15
)

func (s suspects) none() bool { return !s.all && s.n == 0 }

func (s suspects) has(oid string) bool {
	if s.all {
		return true
	}
	_, found := slices.BinarySearchFunc(s.list, rawOID(oid), bytes.Compare)
	return found
}

// with adds more. It leaves s as it is: others read it.
func (s suspects) with(more [][]byte) suspects {
	if s.all || len(s.list)+len(more) > mostSuspects {
		return suspects{all: true}
	}
	list := append(slices.Clone(s.list), more...)
	slices.SortFunc(list, bytes.Compare)
	list = slices.CompactFunc(list, bytes.Equal)
	return suspects{n: len(list), list: list}
}

// write makes a file of names without anything between them. One byte is no list, and stands for all.
func (s suspects) write(dir string) error {
	b := bytes.Join(s.list, nil)
	if s.all {
		b = []byte{0}
	}
	return replaceFile(filepath.Join(dir, suspectsFile), b)
}

func readSuspects(dir string, hash int) (s suspects, err error) {
	b, err := os.ReadFile(filepath.Join(dir, suspectsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if len(b)%hash != 0 || len(b)/hash > mostSuspects {
		return suspects{all: true}, nil
	}
	for ; len(b) > 0; b = b[hash:] {
		s.list = append(s.list, b[:hash:hash])
	}
	s.n = len(s.list)
	return s, nil
}

// oidLines collects the first words of rev-list's lines, up to a number; what is above it counts.
type oidLines struct {
	hash int
	most int
	rest []byte
	list [][]byte
	over bool
}

func (l *oidLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			break
		}
		l.rest = rest
		oid, _, _ := bytes.Cut(line, []byte(" "))
		if len(l.list) >= l.most {
			l.over, l.rest = true, nil
			return 0, errEnough
		}
		raw := rawOID(string(oid))
		if len(raw) != l.hash {
			return 0, fmt.Errorf("unexpected line %.80q", line)
		}
		l.list = append(l.list, raw)
	}
	l.rest = append([]byte(nil), l.rest...)
	return len(p), nil
}

func (l *oidLines) names() (names []string) {
	for _, raw := range l.list {
		names = append(names, hex.EncodeToString(raw))
	}
	return names
}

var errEnough = errors.New("that is enough")
