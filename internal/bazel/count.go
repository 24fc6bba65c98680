package bazel

import "sync/atomic"

// counters of both front ends, since New.
type counters struct {
	acHits, acMisses, acMissesShed, acIncomplete atomic.Int64
	acUpdates, acUpdatesIncomplete               atomic.Int64
	readHits, readMisses                         atomic.Int64
	writesPresent, writesResumed                 atomic.Int64
	batchBlobsFailed                             atomic.Int64
	findMissingDigests, findMissingAbsent        atomic.Int64
	bytesIn, bytesOut                            atomic.Int64
}

// Counters is a snapshot for Status and metrics.
type Counters struct {
	ACHits       int64 `json:"ac_hits"`
	ACMisses     int64 `json:"ac_misses"`      // of them, ac_incomplete
	ACIncomplete int64 `json:"ac_incomplete"`  // a result was there, and something that it refers to was not
	ACMissesShed int64 `json:"ac_misses_shed"` // answered as a miss because the queue was full; not in ac_misses
	ACUpdates    int64 `json:"ac_updates"`

	ACUpdatesIncomplete int64 `json:"ac_updates_incomplete"` // turned away because of absent blobs
	ReadHits            int64 `json:"read_hits"`
	ReadMisses          int64 `json:"read_misses"`
	WritesPresent       int64 `json:"writes_present"` // answered early: the blob was there
	WritesResumed       int64 `json:"writes_resumed"`
	BatchBlobsFailed    int64 `json:"batch_blobs_failed"`
	FindMissingDigests  int64 `json:"find_missing_digests"`
	FindMissingAbsent   int64 `json:"find_missing_absent"`
	BytesIn             int64 `json:"bytes_in"` // of blobs stored, as they came
	BytesOut            int64 `json:"bytes_out"`
}

// Counters returns what both front ends have done.
func (s *Service) Counters() Counters {
	c := &s.count
	return Counters{
		ACHits: c.acHits.Load(), ACMisses: c.acMisses.Load(), ACIncomplete: c.acIncomplete.Load(),
		ACMissesShed: c.acMissesShed.Load(), ACUpdates: c.acUpdates.Load(), ACUpdatesIncomplete: c.acUpdatesIncomplete.Load(),
		ReadHits: c.readHits.Load(), ReadMisses: c.readMisses.Load(),
		WritesPresent: c.writesPresent.Load(), WritesResumed: c.writesResumed.Load(), BatchBlobsFailed: c.batchBlobsFailed.Load(),
		FindMissingDigests: c.findMissingDigests.Load(), FindMissingAbsent: c.findMissingAbsent.Load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(),
	}
}
