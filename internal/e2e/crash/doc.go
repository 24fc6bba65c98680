// Package crash kills the levee command in the middle of mixed traffic, again and again, and holds it to what it
// acknowledged.
//
// It refuses to know how the server stores anything. After each restart it asks:
//
//   - Is every acknowledged blob and action result there, with the right bytes? The store is larger than all that is
//     written, so nothing may have been evicted.
//   - Is what was under way at the kill either absent or right? Never short, never wrong.
//   - Are there no temporary files left ten seconds after the restart?
//
// What a run has written can be made again from a number, so that the books are small.
package crash
