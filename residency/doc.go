// Package residency keeps instances that are expensive to build and to hold: it builds each once, leases it while it is
// used, and evicts by bytes.
//
// What it refuses to do: a cache does not measure memory (it is told its budget, the peak of a build and the size of
// each instance), does not know what an instance is, never builds a key twice at once, never takes an instance from
// under a lease before DrainTimeout, and starts no goroutine but for a build or a Close that runs.
//
// The picture:
//
//	Lease(key) -- resident --> lease                  budget = Heap - Base
//	   |                         ^     Release        +--------------------------------------+
//	   | cold                    |        |           | resident | draining | closing | T    |
//	   v                         |        v           +--------------------------------------+
//	flight, one per key --> Build, Size --> resident --- Evict, or room for a build ---> draining
//	   in order, when a slot is free and T fits              (room: idle ones only)          | last Release
//	                                                        charged until it returns: Close <'
//
// The rules:
//
//   - A build begins when what is charged and T, the peak of one build, fit the budget together. The instances idle for
//     longest are closed first, and the build waits for that without a slot: the peak is residents and one build.
//   - Waiters leave, the build goes on. Its success fills the cache, leased to those who still wait before any of them
//     wakes; its failure is the answer of its key for 1 s, then 2 s, up to 30 s, unless it is transient.
//   - Refresh builds the successor of an instance beside it; the two change places when it is there.
//   - An instance that is detached drains, is closed once, and is charged until Close returns. What it leaves behind is
//     removed by identity: a late Close never touches its successor.
//   - When all is leased a build is shed as Overloaded. A key whose own former instance is in the way is shed as
//     Rotating: what it would wait for may be held by the caller itself.
//
// # Knobs
//
// Heap - Base too low: keys push one another out, and each request is a build. BuildPeak too low: a build exceeds the
// plan. WaitTimeout too high: callers sit through other keys' builds. DrainTimeout too low: long uses end midway.
package residency
