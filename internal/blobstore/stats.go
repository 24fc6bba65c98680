package blobstore

import "time"

// Stats is a snapshot of a Disk. Bytes on disk are Bytes + Reserved + Unlinking, and never above MaxSize.
type Stats struct {
	Blobs, MaxBlobs int
	Bytes           int64 // stored blobs, each rounded up to 4 KiB
	Reserved        int64 // unfinished uploads
	Unlinking       int64 // evicted or aborted, their files not removed yet
	MaxSize         int64
	MaxBlob         int64

	UploadsActive, UploadsParked, MaxUploads int

	Evictions    uint64 // blobs evicted for room since the start
	EvictedBytes uint64
	Forgotten    uint64 // blobs whose files were found removed or damaged

	JournalBytes  int64 // what a start after a crash would replay
	SnapshotBytes int64
	OldestAccess  time.Time // last use of the blob that is evicted next; zero if there is none

	FreeDisk int64 // of the file system, when last asked
	MinFree  int64
	Shedding string // "", "disk_full" or "min_free"
}

// Stats never touches the disk.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	s := Stats{
		Blobs: d.mu.idx.live, MaxBlobs: d.opts.MaxBlobs,
		Bytes: d.mu.used, Reserved: d.mu.reserved, Unlinking: d.mu.unlinking + d.mu.stuck,
		MaxSize: d.opts.MaxSize, MaxBlob: d.opts.MaxBlob,
		UploadsActive: d.mu.uploads.count - d.mu.uploads.parked, UploadsParked: d.mu.uploads.parked, MaxUploads: d.opts.MaxUploads,
		Evictions: d.mu.evictions, EvictedBytes: d.mu.evictedBytes,
		JournalBytes: d.mu.journalBytes + d.mu.oldJournalBytes, SnapshotBytes: d.mu.snapshotBytes,
	}
	if slot, ok := d.mu.idx.oldest(); ok {
		s.OldestAccess = time.UnixMicro(int64(d.mu.idx.at(slot).tick))
	}
	d.mu.Unlock()
	s.Forgotten = d.forgotten.Load()
	s.FreeDisk = d.space.free.Load()
	s.MinFree = d.opts.MinFree
	s.Shedding, _ = d.Shedding()
	return s
}
