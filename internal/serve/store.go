package serve

import (
	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/metrics"
)

// lateStore is the store's place in the services from Build on; the store itself comes when Run opens it, which is
// before a listener is served that could bring work. So a plan can be made without touching the disk.
type lateStore struct {
	blobstore.Store // nil until open

	disk *blobstore.Disk
}

func (s *lateStore) open(o blobstore.Options) error {
	d, err := blobstore.OpenDisk(o)
	if err != nil {
		return err
	}
	s.Store, s.disk = d, d
	return nil
}

// Stats are zero before open. The HTTP front end's /status looks for this method.
func (s *lateStore) Stats() blobstore.Stats {
	if s.disk == nil {
		return blobstore.Stats{}
	}
	return s.disk.Stats()
}

// warning is what an operator should know of the store now; "" is nothing.
func (s *lateStore) warning() string {
	switch s.Stats().Shedding {
	case "":
		return ""
	case "min_free":
		return "the store sheds writes (min_free): the file system has less free than store.min_free; remove other files, or lower it"
	default:
		return "the store sheds writes (disk_full): the file system, or its quota, is full; remove other files, or lower store.max_size"
	}
}

func (s *lateStore) metrics() metrics.Store {
	st := s.Stats()
	return metrics.Store{
		Bytes: st.Bytes, UploadBytes: st.Reserved, UnlinkingBytes: st.Unlinking, MaxBytes: st.MaxSize,
		Blobs: int64(st.Blobs), MaxBlobs: int64(st.MaxBlobs),
		ActiveUploads: int64(st.UploadsActive), ParkedUploads: int64(st.UploadsParked),
		EvictedBlobs: st.Evictions, EvictedBytes: st.EvictedBytes, Forgotten: st.Forgotten,
		FreeBytes: st.FreeDisk, MinFreeBytes: st.MinFree, Shedding: st.Shedding,
	}
}

// dirtyBytes are pages that are dirty or being written: the store starts write-back at 8 MiB over all uploads, and a
// slow disk may still be at the batch before.
const dirtyBytes = 16 << 20

func (s *lateStore) addLines(k *levee.Kernel, o blobstore.Options) {
	k.AddLine(levee.Line{Account: "uploads", Kind: levee.KindGo, Units: int64(o.MaxUploads), Unit: "upload", PerUnit: blobstore.ParkedUploadBytes,
		Note:  "Unfinished uploads that wait to be resumed; those under way are paid for by their permits.",
		InUse: func() int64 { return int64(s.Stats().UploadsParked) * blobstore.ParkedUploadBytes }})
	k.AddLine(levee.Line{Account: "dirty_pages", Kind: levee.KindKernel, Units: dirtyBytes, Unit: "byte", PerUnit: 1,
		Note: "Stored bytes on their way to the disk."})
	k.AddStatus("store", func() any { return s.Stats() })
}

func (s *lateStore) addIndexLine(k *levee.Kernel, maxBlobs int) {
	k.AddLine(levee.Line{Account: "index", Kind: levee.KindGo, Units: int64(maxBlobs), Unit: "blob", PerUnit: blobstore.BytesPerBlob,
		Setting: "store.max_blobs", Note: "Where each blob is and when it was last used.",
		InUse: func() int64 { return int64(s.Stats().Blobs) * blobstore.BytesPerBlob }})
}
