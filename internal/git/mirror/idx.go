package mirror

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pack is one pack of a repository, whose index is looked into here rather than by a child: whether an object is there is
// asked for every lazy fetch.
type pack struct {
	base   string // path without ".pack"
	hash   int    // length of an object id
	bytes  int64
	fanout [256]uint32
}

func (p *pack) name() string   { return filepath.Base(p.base) }
func (p *pack) objects() int64 { return int64(p.fanout[255]) }

var errBadPack = errors.New("damaged pack")

// Format of an index: gitformat-pack(5), "Version 2 pack-*.idx files".
const (
	idxHeader  = 8
	idxFanout  = 256 * 4
	packHeader = 12
)

// openPack reads the head of an index and compares it with its file and its pack, which costs a few reads: it finds files
// that were cut or do not belong together, not flipped bits.
func openPack(base string, hash int) (*pack, error) {
	idx, err := os.Open(base + ".idx")
	if err != nil {
		return nil, err
	}
	defer idx.Close()
	file, err := os.Open(base + ".pack")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	idxSize, err := size(idx)
	if err != nil {
		return nil, err
	}
	packSize, err := size(file)
	if err != nil {
		return nil, err
	}
	p := &pack{base: base, hash: hash, bytes: packSize}
	if err := p.readIndex(idx, idxSize); err != nil {
		return nil, fmt.Errorf("%w %s.idx: %w", errBadPack, p.name(), err)
	}
	if err := p.compare(idx, idxSize, file, packSize); err != nil {
		return nil, fmt.Errorf("%w %s: %w", errBadPack, p.name(), err)
	}
	return p, nil
}

func size(f *os.File) (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}

func (p *pack) readIndex(idx io.ReaderAt, length int64) error {
	var head [idxHeader + idxFanout]byte
	if _, err := idx.ReadAt(head[:], 0); err != nil {
		return fmt.Errorf("too short: %w", err)
	}
	if !bytes.Equal(head[:idxHeader], []byte("\xfftOc\x00\x00\x00\x02")) {
		return errors.New("not an index of version 2")
	}
	last := uint32(0)
	for i := range p.fanout {
		n := binary.BigEndian.Uint32(head[idxHeader+4*i:])
		if n < last {
			return errors.New("its counts go down")
		}
		p.fanout[i], last = n, n
	}
	least := idxHeader + idxFanout + p.objects()*int64(p.hash+8) + 2*int64(p.hash)
	if rest := length - least; rest < 0 || rest%8 != 0 || rest > 8*p.objects() {
		return fmt.Errorf("%d bytes do not fit %d objects", length, p.objects())
	}
	return nil
}

// compare looks whether the index is of this pack, and the pack as long as it was: its last bytes are its checksum.
func (p *pack) compare(idx io.ReaderAt, idxSize int64, file io.ReaderAt, packSize int64) error {
	var head [packHeader]byte
	if _, err := file.ReadAt(head[:], 0); err != nil {
		return fmt.Errorf("too short: %w", err)
	}
	if n := binary.BigEndian.Uint32(head[8:]); !bytes.Equal(head[:4], []byte("PACK")) || int64(n) != p.objects() {
		return fmt.Errorf("its head does not fit its index of %d objects", p.objects())
	}
	sum, recorded := make([]byte, p.hash), make([]byte, p.hash)
	if _, err := file.ReadAt(sum, max(packSize-int64(p.hash), 0)); err != nil {
		return err
	}
	if _, err := idx.ReadAt(recorded, idxSize-2*int64(p.hash)); err != nil {
		return err
	}
	if !bytes.Equal(sum, recorded) {
		return errors.New("its end is not what its index says")
	}
	return nil
}

// fewNames are read at once when a search has come that close.
const fewNames = 64

// has looks raw up in the index.
func (p *pack) has(idx io.ReaderAt, raw []byte) (bool, error) {
	if len(raw) != p.hash {
		return false, nil
	}
	lo, hi := uint32(0), p.fanout[raw[0]]
	if raw[0] > 0 {
		lo = p.fanout[raw[0]-1]
	}
	names := make([]byte, fewNames*p.hash)
	at := func(i uint32) int64 { return idxHeader + idxFanout + int64(i)*int64(p.hash) }
	for hi-lo > fewNames {
		mid := lo + (hi-lo)/2
		name := names[:p.hash]
		if _, err := idx.ReadAt(name, at(mid)); err != nil {
			return false, err
		}
		switch c := bytes.Compare(raw, name); {
		case c == 0:
			return true, nil
		case c < 0:
			hi = mid
		default:
			lo = mid + 1
		}
	}
	names = names[:int(hi-lo)*p.hash]
	if _, err := idx.ReadAt(names, at(lo)); err != nil {
		return false, err
	}
	for ; len(names) > 0; names = names[p.hash:] {
		if bytes.Equal(names[:p.hash], raw) {
			return true, nil
		}
	}
	return false, nil
}

// openPacks opens all of a directory, the largest first. An index without its pack, or a pack without index, is damage.
func openPacks(dir string, hash int) ([]*pack, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var packs []*pack
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".pack")
		if !ok {
			if base, ok = strings.CutSuffix(e.Name(), ".idx"); !ok || exists(filepath.Join(dir, base+".pack")) {
				continue
			}
		}
		p, err := openPack(filepath.Join(dir, base), hash)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w %s: one of its files is missing", errBadPack, base)
		}
		if err != nil {
			return nil, err
		}
		packs = append(packs, p)
	}
	sortPacks(packs)
	return packs, nil
}

func sortPacks(packs []*pack) {
	slices.SortFunc(packs, func(a, b *pack) int {
		return cmp.Or(cmp.Compare(b.objects(), a.objects()), cmp.Compare(a.base, b.base))
	})
}

// absent returns those of oids that are in none of packs, in order.
func absent(packs []*pack, oids []string) ([]string, error) {
	for _, p := range packs {
		if len(oids) == 0 {
			return nil, nil
		}
		idx, err := os.Open(p.base + ".idx")
		if err != nil {
			return nil, err
		}
		oids, err = p.without(idx, oids)
		idx.Close()
		if err != nil {
			return nil, fmt.Errorf("%w %s.idx: %w", errBadPack, p.name(), err)
		}
	}
	return oids, nil
}

func (p *pack) without(idx io.ReaderAt, oids []string) (rest []string, err error) {
	for _, o := range oids {
		found, err := p.has(idx, rawOID(o))
		if err != nil {
			return nil, err
		}
		if !found {
			rest = append(rest, o)
		}
	}
	return rest, nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
