package upstream

import (
	"container/list"
	"sync"
	"time"
)

// recent remembers values and when they were true, of the keys that were put last.
type recent[K comparable, V any] struct {
	most int
	mu   struct {
		sync.Mutex
		at    map[K]*list.Element
		order list.List // of *remembered[K, V], the oldest first
	}
}

type remembered[K comparable, V any] struct {
	key   K
	value V
	at    time.Time
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	r := &recent[K, V]{most: most}
	r.mu.at = map[K]*list.Element{}
	return r
}

// get returns what was put under k no longer than within ago.
func (r *recent[K, V]) get(k K, within time.Duration) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.mu.at[k]
	if e == nil {
		return v, false
	}
	m := e.Value.(*remembered[K, V])
	if time.Since(m.at) >= within {
		return v, false
	}
	return m.value, true
}

// put replaces what is there, unless that is of a later time.
func (r *recent[K, V]) put(k K, v V, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.mu.at[k]; e != nil {
		m := e.Value.(*remembered[K, V])
		if !at.Before(m.at) {
			m.value, m.at = v, at
			r.mu.order.MoveToBack(e)
		}
		return
	}
	if len(r.mu.at) >= r.most {
		oldest := r.mu.order.Front()
		delete(r.mu.at, oldest.Value.(*remembered[K, V]).key)
		r.mu.order.Remove(oldest)
	}
	r.mu.at[k] = r.mu.order.PushBack(&remembered[K, V]{key: k, value: v, at: at})
}

// forget removes k.
func (r *recent[K, V]) forget(k K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.mu.at[k]; e != nil {
		delete(r.mu.at, k)
		r.mu.order.Remove(e)
	}
}
