package rpc

import (
	"maps"
	"sync/atomic"

	"google.golang.org/grpc/codes"
)

// method is a registered method and its counts.
type method struct {
	name    string
	index   int
	handler Handler
	started atomic.Uint64
	handled [codes.Unauthenticated + 2]atomic.Uint64 // by code; the last is for codes that gRPC does not define
}

func (m *method) count(c codes.Code) { m.handled[min(int(c), len(m.handled)-1)].Add(1) }

// Stats is a snapshot.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	st := Stats{Connections: len(s.mu.conns), Cut: maps.Clone(s.mu.cut)}
	s.mu.Unlock()
	st.Streams = int(s.streams.Load())
	st.BufferedBytes = s.buffered.Load()
	st.Refused = s.refused.Load()
	st.Handled = make(map[MethodCode]uint64)
	st.Started = make(map[string]uint64)
	for _, m := range s.methods {
		m.addTo(&st)
	}
	s.other.addTo(&st)
	return st
}

// addTo reads handled before started, so that a call that ends in between is not seen to end before it began.
func (m *method) addTo(st *Stats) {
	for i := range m.handled {
		if n := m.handled[i].Load(); n > 0 {
			st.Handled[MethodCode{m.name, codes.Code(i).String()}] = n
		}
	}
	st.Started[m.name] = m.started.Load()
}

func (s *Server) countCut(reason string) {
	s.mu.Lock()
	s.mu.cut[reason]++
	s.mu.Unlock()
}
