// Package governor says how near a process is to its memory limit, as one of three levels.
//
// It refuses to act: it evicts nothing and sheds nothing. Whoever holds memory asks [Governor.Level], which is one
// atomic load, and acts on the answer. It also refuses to believe what is not pressure: clean page cache, active or
// inactive, reclaimable slab, and a Go heap that merely waits for its next collection.
//
// # The model
//
// Every quarter of a second the governor computes two shares and takes the greater:
//
//   - use: memory that nobody can reclaim, over the limit. In [Group] scope this is what the control group's own
//     counters show; in [Process] scope it is this process and its watched children alone.
//   - heap: the Go heap found live by the last collection (or, if greater, the bytes charged by [Options].Charges),
//     over GOMEMLIMIT.
//
// Marks turn the greater share into a level:
//
//	share  0 ──────────── 0.55 ── 0.60 ─────────── 0.70 ── 0.75 ─────────── 1
//	        normal          ▲ evict starts            ▲ shed starts
//	                    evict ends                shed ends
//
// Go's collector has a cliff near 0.8 of GOMEMLIMIT: from there it may be held back to half of the CPU, and the process
// then passes its limit. Marks of 0.85 and 0.92, as suit V8, would come after the cliff. Below 0.60 collection
// costs what it costs anywhere, so an earlier mark would buy nothing.
//
// Between two escalations there is a fresh collection, because what looks like use may be garbage. While the level is
// above normal and nothing has been collected for two seconds, the governor collects by itself: a level that waits for
// somebody to allocate would never fall in a server that sheds everything. At shed it does so sooner if that is cheap.
//
// Three more rules override the shares. A meter that cannot be read counts as at least evict, and says so. A process
// whose use, garbage included, has reached 0.95 of the limit counts as at least evict and returns its free memory to
// the kernel at once: GOMEMLIMIT keeps it from getting there alone, so somebody else in the group has grown. And a
// collector that has had to hold itself back while a share is above the evict mark counts as shed: that is the death
// spiral, and less work is the only way out of it.
package governor
