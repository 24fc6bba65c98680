package blobstore

import "context"

// slots bounds the system calls that a disk may stall, and so the threads they pin. It is a plain semaphore and not a
// gate: who may write was decided before, here only the disk is shared, in no order worth keeping.
//
// A slot of reads, writes and sums is held for system calls or computing only, never while waiting for another slot, a
// client or the journal. Who holds one of the evictors' waits for writes and the journal, and nobody who holds those waits
// for an evictor.
type slots chan struct{}

func (s slots) acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s slots) release() { <-s }
