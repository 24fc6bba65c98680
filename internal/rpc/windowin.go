package rpc

// WindowIn is the largest window whose bytes take no more than mem bytes of memory, however they arrive: they are packed
// into chunks, and one more chunk than would do is held when a handler reads between two arrivals. Windows that small
// clients would choke on are not given, so the least is 1 KiB, and two chunks of memory.
func WindowIn(mem int) int {
	return max(1<<10, (mem/chunkSize-1)*chunkPayload)
}
