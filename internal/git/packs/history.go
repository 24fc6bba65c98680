package packs

import "sync"

// history remembers how much memory generations took, by repository and kind of request.
type history struct {
	mu struct {
		sync.Mutex
		peaks lru[peakKey, peak]
	}
}

type peakKey struct {
	repo string
	kind string
}

type peak struct {
	bytes   int64
	objects int64 // of the repository then
}

// maxPeaks is about a megabyte.
const maxPeaks = 8192

func newHistory() *history {
	h := &history{}
	h.mu.peaks = newLRU[peakKey, peak]()
	return h
}

// note takes a run in. A higher peak counts at once, a lower one by and by: one run without a bitmap is no reason to plan all
// others like it, but the next one might be.
func (h *history) note(k peakKey, bytes, objects int64) {
	if bytes == 0 { // too short-lived to be seen
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.mu.peaks.get(k); ok && old.bytes > bytes {
		bytes = old.bytes - (old.bytes-bytes)/4
	}
	h.mu.peaks.put(k, peak{bytes, max(objects, 1)})
	if h.mu.peaks.len() > maxPeaks {
		h.mu.peaks.oldest(func(k peakKey, _ peak) bool { h.mu.peaks.drop(k); return false })
	}
}

// predict is the peak of runs like it and a quarter more, grown as the repository has; guess if there were none.
func (h *history) predict(k peakKey, objects, guess int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.mu.peaks.get(k)
	if !ok {
		return guess
	}
	grown := max(1, float64(objects)/float64(p.objects))
	return int64(float64(p.bytes) * grown * 1.25)
}
