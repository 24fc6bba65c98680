package bazel

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/shedcode"
)

// write serves ByteStream.Write. What can be answered without storing is answered before the permit: a call that is wrong,
// or whose blob is there, never waits behind those that are right.
func (s *Service) write(c *call) error {
	u, err := newUploadStream(c)
	if err != nil {
		return err
	}
	if err := c.setInstance(u.res.instance); err != nil {
		return err
	}
	if done, err := s.writeEarly(c, u); done || err != nil {
		return err
	}
	z, err := s.openZstd(u)
	if err != nil {
		return err
	}
	cost := s.opt.identityCost()
	if z != nil {
		cost = z.cost
	}
	p, err := c.admit(s.gates.write, shedcode.BazelWrite, cost)
	if err != nil {
		return err
	}
	defer p.Release()
	if p.Waited() > 0 { // another upload may have stored it meanwhile
		if done, err := s.writeEarly(c, u); done || err != nil {
			return err
		}
	}
	u.most = s.opt.writeWindow()
	switch {
	case z == nil:
		err = s.writeIdentity(c, u)
	case u.res.size <= smallBlob:
		err = s.writeSmallZstd(c, u, z)
	default:
		err = s.writeZstd(c, u, z)
	}
	if err != nil {
		return err
	}
	s.count.bytesIn.Add(c.bytes)
	return c.committed(u)
}

// writeEarly answers a call that needs no storing, and refuses one that can never be stored.
func (s *Service) writeEarly(c *call, u *uploadStream) (done bool, err error) {
	d := u.res.digest
	if d.impossible() {
		return false, status.Errorf(codes.InvalidArgument, "digest %v names nothing: a blob of no bytes has the hash of no bytes, and no other has", d)
	}
	switch size := s.storedSize(d); {
	case size == d.size:
		s.count.writesPresent.Add(1)
		return true, c.committed(u)
	case size >= 0:
		return false, status.Errorf(codes.InvalidArgument, "digest %v: the blob of this hash has %d bytes", d, size)
	}
	if most := s.opt.MaxBlob; most > 0 && d.size > most {
		return false, status.Errorf(codes.InvalidArgument, "blob %v has %d bytes, and at most %d are accepted (bazel.max_blob)", d, d.size, most)
	}
	return false, nil
}

// storedSize is the size of the blob with d's hash, or -1.
func (s *Service) storedSize(d digest) int64 {
	if d.empty() {
		return 0
	}
	keys, sizes := [1]blobstore.Key{d.key()}, [1]int64{}
	s.store.Lookup(keys[:], sizes[:])
	return sizes[0]
}

// committed answers a write: the full size, or -1 for a compressed one, whose client cannot compare sizes (REAPI).
func (c *call) committed(u *uploadStream) error {
	r := &bytestream.WriteResponse{CommittedSize: u.res.size}
	if u.res.zstd {
		r.CommittedSize = -1
	}
	return c.reply(r)
}

// writeIdentity stores the data as it comes. When the stream breaks, what arrived is parked for the client to go on.
func (s *Service) writeIdentity(c *call, u *uploadStream) error {
	ctx, cancel := linger(c.ctx())
	defer cancel()
	up, named, err := s.beginUpload(ctx, u)
	if err != nil {
		return err
	}
	defer up.Abort()
	park := func() {
		if named {
			up.Park()
		}
	}
	err = copyUpload(up, u, u.res.size-up.Written())
	switch {
	case u.err != io.EOF && u.err != nil: // the stream's own error comes first: the store was only fed by it
		if status.Code(u.err) != codes.InvalidArgument {
			park()
		}
		return u.err
	case err != nil:
		return s.writeError(u.res.digest, err)
	case !u.finish && up.Written() < u.res.size:
		at := up.Written()
		park()
		return status.Errorf(codes.InvalidArgument, "the stream ended at byte %d of %d without finish_write; it can be resumed there", at, u.res.size)
	}
	if err := u.afterFinish(); err != nil {
		return err
	}
	if err := up.Commit(ctx); err != nil {
		return s.writeError(u.res.digest, err)
	}
	return nil
}

// linger returns a context that lives a little longer than ctx, so that what a client sent before it went is stored, and
// can be resumed after.
func linger(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lingerFor, cancel) })
	return late, func() {
		stop()
		cancel()
	}
}

const lingerFor = time.Second

// beginUpload resumes or begins the upload under the call's resource name. named tells whether it can be parked.
func (s *Service) beginUpload(ctx context.Context, u *uploadStream) (up blobstore.Upload, named bool, err error) {
	name := u.res.upload
	if u.offset > 0 {
		up, err := s.resume(ctx, name, u.offset)
		return up, true, err
	}
	up, err = s.store.Create(ctx, u.res.key(), u.res.size, 0)
	if err != nil {
		return nil, false, s.writeError(u.res.digest, err)
	}
	// The same name in two calls at once: both go on, the second without a name to resume under. The first to finish
	// stores the blob, and for the store the other is an upload of what is there.
	switch err := up.Name(name); {
	case errors.Is(err, blobstore.ErrBusy):
		return up, false, nil
	case err != nil:
		up.Abort()
		return nil, false, s.writeError(u.res.digest, err)
	}
	return up, true, nil
}

func (s *Service) resume(ctx context.Context, name string, offset int64) (blobstore.Upload, error) {
	up, err := s.store.Resume(ctx, name)
	switch {
	case errors.Is(err, blobstore.ErrNotExist):
		return nil, status.Errorf(codes.InvalidArgument, "write_offset is %d, but nothing of this upload is held: begin at 0", offset)
	case errors.Is(err, blobstore.ErrBusy):
		return nil, status.Error(codes.Aborted, "another call is writing this resource name: query its write status and go on from there")
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "the upload cannot be resumed now: %v", err)
	}
	if at := up.Written(); at != offset {
		up.Park()
		return nil, status.Errorf(codes.InvalidArgument, "write_offset is %d, but %d bytes of this upload are held: go on from there, or begin at 0", offset, at)
	}
	s.count.writesResumed.Add(1)
	return up, nil
}

// copyUpload moves data to the store in full buffers, so that tiny messages do not become tiny writes to disk. size is how
// much is expected; one byte more is read so that the store sees what is too long.
func copyUpload(up blobstore.Upload, r io.Reader, size int64) error {
	buf := getBuffer(min(copyBuffer, size+1))
	defer putBuffer(buf)
	for {
		n, err := readUntilFull(r, *buf)
		if n > 0 {
			if _, err := up.Write((*buf)[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readUntilFull is io.ReadFull, but for an error that is always the reader's own.
func readUntilFull(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

// queryWriteStatus is never shed. For a name that nothing is known of the answer is that nothing is committed, rather than
// the NOT_FOUND of bytestream.proto: Bazel asks before it tries again, and would give the upload up.
func (s *Service) queryWriteStatus(c *call) error {
	var req bytestream.QueryWriteStatusRequest
	if err := c.small(&req); err != nil {
		return err
	}
	r, err := parseWrite(req.ResourceName)
	if err != nil {
		return invalid(err)
	}
	if err := c.setInstance(r.instance); err != nil {
		return err
	}
	if !r.impossible() && s.storedSize(r.digest) == r.size {
		return c.reply(&bytestream.QueryWriteStatusResponse{CommittedSize: r.size, Complete: true})
	}
	n, _ := s.store.Committed(r.upload)
	return c.reply(&bytestream.QueryWriteStatusResponse{CommittedSize: n})
}
