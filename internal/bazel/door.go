package bazel

import (
	"context"
	"strings"

	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/rpc"
	"github.com/leveehq/levee/internal/shedcode"
)

// door decides about a stream when its headers are there, in the connection's reader: it never waits. It knows the method
// and the peer; what the stream is about comes later, with the first message.
//
//   - Calls that must never be shed come from the reserve when the door is full.
//   - Writes beyond half of a connection's streams are shed while the write gate has no room. A build sends its uploads and
//     its look-ups over the same connection: without this, its own look-ups would wait in the client behind its uploads.
func (s *Service) door(i rpc.StreamInfo) (release func(), err error) {
	class, exempt := classOf(i.Method)
	if i.Method == methodWrite && i.OpenSameMethod >= max(1, i.MaxConcurrentStreams/2) {
		if err := s.writeRoom(i.Peer); err != nil {
			return nil, s.doorShed(i, class, err)
		}
	}
	p, err := s.gates.streams.TryAdmit(i.Peer, 1)
	if err != nil && exempt {
		p, err = s.gates.exempt.TryAdmit(i.Peer, 1)
	}
	if err != nil {
		return nil, s.doorShed(i, class, err)
	}
	return p.Release, nil
}

// writeRoom tells whether a write would be admitted now. It asks by trying, so that it knows of waiters and pressure as
// the gate does, and gives back at once.
func (s *Service) writeRoom(peer string) error {
	p, err := s.gates.write.TryAdmit(peer, s.opt.identityCost())
	p.Release()
	return err
}

// doorShed leaves the record that a handler would have left.
func (s *Service) doorShed(i rpc.StreamInfo, class shedcode.Class, err error) error {
	err = s.codes.GRPC(class, err)
	if s.log != nil {
		s.log.Call(context.Background(), accesslog.Record{Proto: "grpc", Method: i.Method, Code: rpcCode(err).String(), Key: i.Peer, Err: err})
	}
	return err
}

// classOf is what a method is to the table of sheds; exempt ones are never shed while the reserve lasts.
func classOf(method string) (class shedcode.Class, exempt bool) {
	switch method {
	case methodWrite, methodBatchUpdate, methodUpdateAR:
		return shedcode.BazelWrite, false
	case methodGetAR:
		return shedcode.BazelAC, false
	case methodCapabilities, methodQueryWrite:
		return shedcode.BazelRead, true
	}
	return shedcode.BazelRead, strings.HasPrefix(method, "/grpc.health.v1.")
}
