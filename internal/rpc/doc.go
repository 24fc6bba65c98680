// Package rpc serves gRPC over HTTP/2 with the memory of every stream bounded by design.
//
// It refuses to buffer a message for a handler, to let a stream hold more than the window it was granted, to queue
// output for a client that does not read, and to start a goroutine for a call that the door turns away. It speaks
// cleartext HTTP/2 with prior knowledge, and gRPC only: no compression, no HTTP/1.1, no push, no priorities.
//
// What a stream may hold:
//
//		client ──DATA──▶ window ──▶ chunks ──▶ Read ──▶ handler
//		                   ▲                    │
//		                   └── WINDOW_UPDATE ◀──┘   only what was read is granted again
//
//	  - A new stream may hold Options.DoorWindow bytes. Its handler sees a message's length and first bytes, answers early
//	    if it can, waits for its permit, and only then calls GrowWindow: so a waiter costs one door window.
//	  - Received bytes are packed into fixed chunks, so a window of one-byte frames costs what a window of full ones does.
//	  - The connection's window is credited on receipt. It bounds nothing; otherwise the waiting streams of a connection
//	    would starve the admitted ones beside them.
//
// Output has no queue. A handler writes to the socket itself, holding the connection's output turn; control frames
// collect in a small buffer that leaves with the next write. A client that does not read stops its handlers, then
// the reader, and is cut after Options.WriteStall.
//
// Lock order: conn.mu before Stream.recv.mu; conn.ctrl.mu is a leaf. No lock is held over I/O or a callback, but for
// the output turn, which is a channel because waiting for it must be cancellable.
package rpc
