// Package pkt reads and writes git's wire format: pkt-lines, side-bands, and the requests of protocol v0, v1 and v2.
//
// It refuses to open anything, to run git and to know of HTTP: bytes in, a Request or an error that names the line out. No
// length or count that a client writes is believed before the bytes are there.
//
//	body ──▶ ParseV2, ParseV0 ──▶ Request                          what a client asks
//	lines ──▶ Writer ──▶ … ──▶ Reader ──▶ packets                  what is said to an upstream, and what it answers
//	pack ──▶ Muxer ──▶ … ──▶ Reader ──▶ Demuxer ──▶ pack, progress, *RemoteError
//
// Sources: gitprotocol-common(5), gitprotocol-pack(5), gitprotocol-v2(5).
package pkt
