package rpc

import "google.golang.org/grpc/metadata"

// DropMetadata lets go of the request's headers, up to Options.MaxHeaderList of memory that a call would otherwise hold to
// its end. It is for handlers that wait, after whoever wanted the headers has read them: Metadata is empty from then on.
func (st *Stream) DropMetadata() {
	x := &st.ctx
	x.mu.Lock()
	defer x.mu.Unlock()
	st.fields = nil
	x.mu.md, x.mu.values = metadata.MD{}, nil
}
