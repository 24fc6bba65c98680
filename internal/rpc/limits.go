package rpc

// Figures for the memory plan. Tests hold them to a server that is measured from outside.

const (
	// ConnBytes is the most that a connection takes on the Go heap, stacks included, without its streams: a hostile one
	// with its header table full of empty fields, and flooding us with requests whose answers it does not read. An
	// honest idle one takes an eighth.
	ConnBytes = 60 << 10

	// streamBytes is what a waiting stream takes besides its window: its state, a header list of usual size, and its
	// handler's goroutine.
	streamBytes = 5 << 10

	// EarlyBytes bounds, over the whole server, what streams may hold beyond the door window because their clients
	// have not yet acknowledged our SETTINGS.
	EarlyBytes = 2 << 20

	// FreeBytes is the most that the server's free lists hold.
	FreeBytes = freeChunks*chunkSize + freeReadBufs*readBufSize

	// MessageWindow is by how much ReadMessage opens a stream's window for an admitted message, and so what it may
	// hold besides the message itself.
	MessageWindow = 256 << 10
)

// StreamBytes is what a stream takes that waits with its window full, however small its frames were: whole chunks, one
// of them being read and one being filled.
func StreamBytes(window int) int64 {
	chunks := (window+chunkPayload-1)/chunkPayload + 1
	return int64(chunks)*chunkSize + streamBytes
}

// WindowIn is the largest window whose bytes take no more than mem bytes of memory, however they arrive: they are packed
// into chunks, and one more chunk than would do is held when a handler reads between two arrivals. Windows that small
// clients would choke on are not given, so the least is 1 KiB, and two chunks of memory.
func WindowIn(mem int) int {
	return max(1<<10, (mem/chunkSize-1)*chunkPayload)
}

// GrownWindowIn is WindowIn for a window that is read and filled at the same time, which takes partly used chunks at both
// ends of what the reader has taken, too.
func GrownWindowIn(mem int) int { return WindowIn(mem - (spareChunks-1)*chunkSize) }

// spareChunks are those that may be partly used: the one being read, the last one that the reader took, and the one being
// filled.
const spareChunks = 3
