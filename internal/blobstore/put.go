package blobstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"os"
)

// Put implements Store. It does in one go what Create, Write and Commit do, without an upload's state.
func (d *Disk) Put(ctx context.Context, key Key, data []byte) error {
	n := int64(len(data))
	if n > d.opts.MaxBlob {
		return tooLarge(n, d.opts.MaxBlob)
	}
	crc := uint32(0)
	if key.Kind == CAS {
		if sum := sha256.Sum256(data); sum != key.Hash {
			return digestError(sum, key.Hash)
		}
	} else {
		crc = crc32.Checksum(data, castagnoli)
	}
	if key.Kind == CAS && d.has(key) {
		return nil // before room is made for it
	}
	if err := d.room(); err != nil {
		return err
	}
	if err := d.reserve(ctx, charged(n)); err != nil {
		return err
	}
	v := victim{temp: true, charge: charged(n)}
	made := false
	taken, err := d.publish(ctx, key, n, crc, func(gen uint64, path string) (err error) {
		v.gen = gen
		made, err = d.placeData(ctx, data, d.tempPath(gen), path)
		return err
	})
	if taken {
		return err
	}
	d.mu.Lock()
	d.mu.reserved -= v.charge
	d.mu.unlinking += v.charge
	d.mu.Unlock()
	if !made {
		d.removed(v, nil)
	} else {
		_ = d.unlink(context.WithoutCancel(ctx), nil, []victim{v})
	}
	return err
}

// placeData writes a file and renames it. made says that a temporary file remains.
func (d *Disk) placeData(ctx context.Context, data []byte, temp, path string) (made bool, err error) {
	if err := d.writes.acquire(ctx); err != nil {
		return false, err
	}
	defer d.writes.release()
	f, err := d.fs.Open(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return false, d.writeError("creating a file", err)
	}
	if len(data) > 0 {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil && len(data) >= dirtyMin {
		_ = f.StartWriteback(0, int64(len(data)))
	}
	if err == nil && d.opts.Durability == Fsync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return true, d.writeError("writing", err)
	}
	d.space.written.Add(int64(len(data)))
	if err := d.rename(temp, path); err != nil {
		return true, d.writeError("renaming", err)
	}
	return false, nil
}

// has is Lookup for one key.
func (d *Disk) has(key Key) bool {
	var size [1]int64
	d.Lookup([]Key{key}, size[:])
	return size[0] >= 0
}
