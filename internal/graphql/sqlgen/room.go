package sqlgen

import "sync"

// room is the memory in which a request's values are read and written. It goes from request to request: made anew for each, it was
// most of the garbage of a list.
type room struct {
	dst     []byte   // JSON
	path    []step   // of the value being written
	stack   [][]byte // columns of the records being read
	cells   [][]byte // of the lists being read
	scratch []byte
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// mostRoom is what is kept of JSON and of cells, each, in bytes, and a fourth of it of other parts. What a large answer needed is
// left to the collector.
const mostRoom = 16 << 10

// leave hands the room on. It refers to nothing of the request any more.
func (r *room) leave() {
	if cap(r.dst) > mostRoom || cellBytes*cap(r.cells) > mostRoom || max(cap(r.scratch), cellBytes*cap(r.stack), cellBytes*cap(r.path)) > mostRoom/4 {
		return
	}
	clear(r.path[:cap(r.path)])
	clear(r.stack[:cap(r.stack)])
	clear(r.cells[:cap(r.cells)])
	*r = room{dst: r.dst[:0], path: r.path[:0], stack: r.stack[:0], cells: r.cells[:0], scratch: r.scratch[:0]}
	rooms.Put(r)
}
