package residency

// list is a FIFO of nodes that live inside what they link, so that joining and leaving one allocates nothing and
// whoever is in the middle leaves in constant time. container/list allocates an element for each.
type list[T comparable] struct {
	first, last *node[T]
}

// node is in at most one list at a time, and knows which.
type node[T comparable] struct {
	in         *list[T]
	next, prev *node[T]
	value      T
}

func (l *list[T]) pushBack(n *node[T]) {
	n.in, n.prev, n.next = l, l.last, nil
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
}

func (l *list[T]) empty() bool { return l.first == nil }

// leave takes the node out of its list; a node that is in none stays as it is.
func (n *node[T]) leave() {
	l := n.in
	if l == nil {
		return
	}
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.in, n.next, n.prev = nil, nil, nil
}

// moveTo takes the node to the end of l.
func (n *node[T]) moveTo(l *list[T]) {
	n.leave()
	l.pushBack(n)
}
