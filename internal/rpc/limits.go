package rpc

// Figures for the memory plan, held to the truth by TestMeasuredSizes….

const (
	// EarlyBytes bounds, over the whole server, what streams may hold beyond the door window because their clients
	// have not yet acknowledged our SETTINGS.
	EarlyBytes = 2 << 20

	// FreeBytes is the most that the server's free lists hold.
	FreeBytes = freeChunks*chunkSize + freeReadBufs*readBufSize

	// MessageWindow is by how much ReadMessage opens a stream's window for an admitted message, and so what it may
	// hold besides the message itself.
	MessageWindow = 256 << 10
)
