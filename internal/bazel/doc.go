// Package bazel serves the Remote Execution API's caches (REAPI v2 over gRPC) and Bazel's HTTP cache protocol.
//
// It refuses to run actions, to keep bytes itself (a blobstore.Store does), to open listeners, and to hold memory that no
// line of the plan contains: before a call may grow, it passes the gate whose permits are counted in the bytes that it is
// about to hold.
//
// The gates, in the order in which a call meets them:
//
//	door          streams open at once; a stream that waits holds its door window and no more
//	write         ByteStream.Write, HTTP PUT: window, copy buffer and decoder of an admitted upload
//	batch_update  BatchUpdateBlobs, UpdateActionResult: the message
//	read          ByteStream.Read, HTTP GET: a chunk in flight, not the stream
//	batch_read    BatchReadBlobs, GetTree: the response
//	ac            GetActionResult: the entry, the trees' digests and what is inlined
//	find_missing  FindMissingBlobs: the response, which is as large as the request at worst
//	cpu           zstd of large chunks; held while computing only, never across input or output
//
// No call holds one of these permits while it waits for another, with two exceptions that cannot close a circle: the door's,
// which never waits, and cpu's, whose holder asks for nothing else.
package bazel
