package packs

import "container/list"

// lru is a table that knows the order of use. It does not lock, and drops nothing by itself.
type lru[K comparable, V any] struct {
	entries map[K]*list.Element
	order   *list.List // the latest in front
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any]() lru[K, V] {
	return lru[K, V]{entries: make(map[K]*list.Element), order: list.New()}
}

func (l *lru[K, V]) len() int { return len(l.entries) }

// get counts as use.
func (l *lru[K, V]) get(k K) (v V, ok bool) {
	e, ok := l.entries[k]
	if !ok {
		return v, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

func (l *lru[K, V]) put(k K, v V) {
	if e, ok := l.entries[k]; ok {
		e.Value.(*entry[K, V]).value = v
		l.order.MoveToFront(e)
		return
	}
	l.entries[k] = l.order.PushFront(&entry[K, V]{k, v})
}

func (l *lru[K, V]) drop(k K) {
	if e, ok := l.entries[k]; ok {
		l.order.Remove(e)
		delete(l.entries, k)
	}
}

// oldest yields from the one whose last use is longest ago; the current one may be dropped meanwhile.
func (l *lru[K, V]) oldest(yield func(K, V) bool) {
	for e := l.order.Back(); e != nil; {
		before := e.Prev()
		if one := e.Value.(*entry[K, V]); !yield(one.key, one.value) {
			return
		}
		e = before
	}
}
