// Package upstream speaks to the Git hosts that Levee stands in front of.
//
// It refuses to speak to a host that is not named in its Options, to an address in a private range unless that is allowed,
// to follow a redirect to another host, to keep or print a credential, and to try again before an upstream's Retry-After is
// over. It keeps nothing on disk.
//
// All that leaves goes through one place, in this order:
//
//	a slot of the host ──▶ the host's back-off ──▶ the dial guard ──▶ upstream ──▶ the stall clock ──▶ the caller
//
// Sources: gitprotocol-http(5), gitprotocol-v2(5), RFC 9110 (redirects, Retry-After, hop-by-hop fields).
package upstream
