package rpc

import (
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ReadMessage reads the next message whole: io.EOF when the client has half-closed. One longer than limit is
// RESOURCE_EXHAUSTED before any of it is held, and one that does not fit the door window waits for
// Options.AdmitMessage first.
//
// It must be complete within Options.MessageTimeout, counted from the call, without the time spent waiting for
// admission. Else the call ends with DEADLINE_EXCEEDED: a slow line is nobody's fault for good, so the code must be one
// that clients retry (FAILED_PRECONDITION and INVALID_ARGUMENT are final to Bazel), and of those it is the one that
// says what happened.
func (st *Stream) ReadMessage(limit int64) ([]byte, error) {
	st.deadline = time.Now().Add(st.c.s.o.MessageTimeout)
	defer st.SetReadDeadline(time.Time{})
	n, err := st.NextMessage()
	if err != nil {
		return nil, err
	}
	return st.readBody(nil, n, limit)
}

// readBody reads the message whose prefix said n, into b if that is not nil.
func (st *Stream) readBody(b []byte, n, limit int64) ([]byte, error) {
	o := &st.c.s.o
	if n > limit {
		return nil, status.Errorf(codes.ResourceExhausted, "message of %d bytes is above the limit of %d", n, limit)
	}
	if n > int64(o.DoorWindow) {
		if o.AdmitMessage != nil {
			release, err := o.AdmitMessage(&st.ctx, st, n)
			if err != nil {
				return nil, err
			}
			if release != nil {
				st.releases = append(st.releases, release)
			}
		}
		st.GrowWindow(int(min(n+prefixLen, MessageWindow)))
	}
	st.deadline = time.Now().Add(o.MessageTimeout)
	if b == nil {
		b = make([]byte, n)
	}
	_, err := io.ReadFull(st, b)
	if err == io.EOF && n == 0 {
		err = nil
	}
	return b, err
}

// compressedError is for a message whose compressed flag is set.
func (st *Stream) compressedError() error {
	return status.Error(codes.Internal, "the message is compressed, without a grpc-encoding that says how: send messages uncompressed")
}
