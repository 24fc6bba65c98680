package blobstore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// state is the file of that name: what a run leaves for the next one.
type state struct {
	Version int
	Run     uint64 // of the last process that opened the store
	Boot    string // the machine's boot id then
	BootRun uint64 // the first run of that boot
	Clean   bool   // closed in order: index and files agree
}

const stateVersion = 1

func (d *Disk) readState() (s state, found bool, err error) {
	f, err := d.fs.Open(d.path("state"), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return state{}, false, nil
	}
	if err != nil {
		return state{}, false, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err != nil {
		return state{}, false, err
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Version == 0 {
		d.log.Warn("the blob store's state file is damaged; every blob will be verified when it is first opened", "file", d.path("state"))
		return state{}, false, nil
	}
	if s.Version > stateVersion {
		return state{}, false, fmt.Errorf("%s was written by a newer version (format %d, this one knows %d): use that version, or an empty directory", d.opts.Dir, s.Version, stateVersion)
	}
	return s, true, nil
}

func (d *Disk) writeState(clean bool) error {
	b, err := json.Marshal(state{Version: stateVersion, Run: d.run, Boot: d.opts.boot, BootRun: d.bootRun, Clean: clean})
	if err != nil {
		return err
	}
	f, err := d.fs.Open(d.path("state.tmp"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(append(b, '\n'), 0)
	if err == nil {
		// A run number must never come back after a power cut: names of files are built on it.
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.fs.Rename(d.path("state.tmp"), d.path("state")); err != nil {
		return err
	}
	return d.fs.SyncDir(d.opts.Dir)
}

// loader collects entries by slot, from a snapshot and the journals after it, or from the directories. Buckets and list
// come last, in finish: until then two slots may hold the same key.
type loader struct {
	idx     *index
	lastRun uint64
}

func (l *loader) put(slot uint32, e entry) {
	p := l.idx.ensure(slot)
	if !p.has(flagPending) {
		l.idx.taken++
	}
	*p = e
	p.bits |= flagPending
	l.idx.high = max(l.idx.high, slot+1)
	l.idx.lastTick = max(l.idx.lastTick, e.tick)
	l.lastRun = max(l.lastRun, runOf(e.gen))
}

func (l *loader) remove(slot uint32, gen uint64) {
	if e := l.get(slot); e != nil && e.gen == gen {
		*e = entry{}
		l.idx.taken--
	}
}

// touch may name the slot's former entry: touches are queued apart from puts. It never makes one look older.
func (l *loader) touch(slot uint32, tick uint64) {
	if e := l.get(slot); e != nil {
		e.tick = max(e.tick, tick)
		l.idx.lastTick = max(l.idx.lastTick, tick)
	}
}

func (l *loader) get(slot uint32) *entry {
	if slot >= l.idx.high || l.idx.chunks[slot/chunkLen] == nil {
		return nil
	}
	if e := l.idx.at(slot); e.has(flagPending) {
		return e
	}
	return nil
}

// finish builds buckets and list in order of use. Of two entries of one key the newer generation wins: its file was
// whole before it was journalled, and the older one was on its way out. lost are the others, which are to be removed
// from journal and disk. moved says that slots were renumbered, because the index is smaller than it was: then a
// snapshot must be written before the journal goes on, and files that found no room are the sweep's.
func (l *loader) finish(maxBlobs int) (lost []doomed, moved bool) {
	old := l.idx
	order := make([]uint32, 0, old.taken)
	for slot := range old.high {
		if l.get(slot) != nil {
			order = append(order, slot)
		}
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(old.at(a).tick, old.at(b).tick) })
	if old.high > uint32(maxBlobs) {
		l.idx = newIndex(maxBlobs)
		l.idx.lastTick = old.lastTick
		order = order[max(0, len(order)-maxBlobs):]
		for i, slot := range order {
			order[i] = l.idx.hold()
			*l.idx.at(order[i]) = *old.at(slot)
		}
		moved = true
	}
	x := l.idx
	for slot := x.high; slot > 0; slot-- {
		if e := x.ensure(slot - 1); !e.has(flagPending) {
			*e = entry{next: x.free}
			x.free = slot
		}
	}
	for _, slot := range order {
		e := x.at(slot)
		if other, ok := x.find(e.key()); ok {
			if x.at(other).gen > e.gen {
				lost = append(lost, doomed{slot: slot, victim: victimOf(e)})
				x.release(slot)
				continue
			}
			lost = append(lost, doomed{slot: other, victim: victimOf(x.at(other))})
			x.remove(other)
		}
		x.insert(slot)
	}
	return lost, moved
}

type doomed struct {
	slot uint32
	victim
}

// load reads the newest snapshot and the journals after it. rescanned says that they were absent or damaged and the
// directories were read instead.
func (d *Disk) load(l *loader, known bool) (rescanned bool, err error) {
	snapshots, journals, err := d.indexFiles()
	if err != nil {
		return false, err
	}
	first := uint64(1)
	if n := len(snapshots); n > 0 {
		first = snapshots[n-1]
		err = d.readIndexFile(d.snapshotPath(first), func(f File) error { return readSnapshot(f, first, l) })
		if err != nil && !errors.Is(err, errDamaged) {
			return false, err
		}
		if err != nil {
			return true, d.rescan(l, "the snapshot of the index is damaged")
		}
	}
	journals = slices.DeleteFunc(journals, func(n uint64) bool { return n < first })
	if len(journals) > 0 && journals[0] != first || len(journals) == 0 && (known || len(snapshots) > 0) {
		return true, d.rescan(l, "the journal of the index is missing")
	}
	if len(journals) == 0 {
		return true, d.rescan(l, "") // a new store, or one whose index was deleted to have it rebuilt
	}
	for _, n := range journals {
		err := d.readIndexFile(d.journalPath(n), func(f File) error {
			good, total, err := replayJournal(f, n, l)
			d.mu.oldJournals++
			d.mu.oldJournalBytes += total
			if good < total {
				d.log.Warn("the end of the index's journal is torn; blobs that were not acknowledged are dropped",
					"journal", d.journalPath(n), "bytes", total-good)
			}
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

func (d *Disk) readIndexFile(name string, read func(File) error) error {
	f, err := d.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f)
}

// rescan rebuilds the index from the directories, one stat for every file. Order of use is the order of writing then.
func (d *Disk) rescan(l *loader, why string) error {
	if why != "" {
		d.log.Warn("rebuilding the index of the blob store from its directories", "dir", d.opts.Dir, "why", why)
	}
	*l = loader{idx: newIndex(d.opts.MaxBlobs)}
	slot := uint32(0)
	err := d.eachBlobFile(func(v victim, name string) error {
		f, err := d.fs.Open(name, os.O_RDONLY)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		size, modified, err := f.Stat()
		if err != nil {
			return err
		}
		e := entry{hash: v.key.Hash, gen: v.gen, tick: uint64(modified.UnixMicro()), bits: uint64(size)<<sizeShift | uint64(v.key.Kind)}
		if v.key.Kind == AC {
			e.bits |= flagNoCRC
		}
		l.put(slot, e)
		slot++
		return nil
	})
	if why != "" && err == nil {
		d.log.Info("the index of the blob store is rebuilt", "blobs", slot)
	}
	return err
}

// eachBlobFile walks the files that bear the name of a blob, in the directory where that blob belongs.
func (d *Disk) eachBlobFile(each func(v victim, name string) error) error {
	for kind := CAS; kind <= AC; kind++ {
		for shard := range shards {
			dir := d.shardPath(kind, shard)
			err := d.fs.List(dir, func(name string) error {
				v, ok := parseBlobName(kind, name)
				if !ok || shardOf(v.gen) != shard {
					return nil
				}
				return each(v, filepath.Join(dir, name))
			})
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// indexFiles lists the numbers of snapshots and journals in order.
func (d *Disk) indexFiles() (snapshots, journals []uint64, err error) {
	err = d.fs.List(d.opts.Dir, func(name string) error {
		kind, digits, _ := strings.Cut(name, "-")
		n, err := strconv.ParseUint(digits, 16, 64)
		if err != nil || len(digits) != 16 {
			return nil
		}
		switch kind {
		case "snapshot":
			snapshots = append(snapshots, n)
		case "journal":
			journals = append(journals, n)
		}
		return nil
	})
	slices.Sort(snapshots)
	slices.Sort(journals)
	return snapshots, journals, err
}

// removeIndexFiles removes the snapshots and journals before number.
func (d *Disk) removeIndexFiles(number uint64) error {
	snapshots, journals, err := d.indexFiles()
	for _, n := range snapshots {
		if n < number {
			err = errors.Join(err, ignoreNotExist(d.fs.Remove(d.snapshotPath(n))))
		}
	}
	for _, n := range journals {
		if n < number {
			err = errors.Join(err, ignoreNotExist(d.fs.Remove(d.journalPath(n))))
		}
	}
	return err
}
