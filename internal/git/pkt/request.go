package pkt

import (
	"errors"
	"slices"
	"strings"
)

// OID is an object id in lower-case hex, 40 or 64 digits.
type OID string

// Limits of a Request; zero values are right.
type Limits struct {
	// Bytes of the body, after its content encoding is undone. 0 is 16 MiB.
	Bytes int64
	// Lines of the body: wants, haves, shallows, ref prefixes and all others. 0 is 400,000.
	Lines int
}

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = 16 << 20
	}
	if l.Lines == 0 {
		l.Lines = 400_000
	}
	return l
}

// ErrTooLarge is wrapped by errors of what is above Limits.
var ErrTooLarge = errors.New("the request is too large")

// Request is one POST to git-upload-pack. It holds its body twice, and 16 bytes for each object id: up to 2.4 times the body;
// five times, if somebody sends many lines of another kind, each as short as can be. Its strings are parts of one copy of the
// body: clone what is to outlive it.
type Request struct {
	Version int    // 0, 1 or 2
	Command string // of v2: "ls-refs", "fetch", "object-info", "bundle-uri"; of v0 and v1 always "fetch"; "" is the 4-byte probe
	Body    []byte // as it came, to be fed to git upload-pack --stateless-rpc

	Agent        string
	Caps         []string // sorted; without agent, session-id and object-format. Of v2, the arguments that are mere words, too
	ObjectFormat string   // "sha1" if not said

	// Of a fetch.
	Wants, Haves, Shallows []OID // sorted, each once
	WantRefs               []string
	Depth                  int
	DeepenSince            string
	DeepenNot              []string
	DeepenRelative         bool
	Filter                 string
	Done                   bool // the client ends the negotiation: see also EndsInPack
	WaitForDone            bool

	// Of ls-refs.
	RefPrefixes   []string
	Peel, Symrefs bool
	Unborn        bool

	// What Canonical has to know besides: the arguments of a command that are not taken apart here, and haves in more than one
	// round, since each round has an answer.
	rest string
}

// has looks for one of the capabilities.
func (r *Request) has(capability string) bool {
	_, found := slices.BinarySearch(r.Caps, capability)
	return found
}

// SidebandSize is the largest payload of a side-band packet for what the client asked: 65515 with side-band-64k or v2, 995
// with side-band, 0 without either (the pack is sent bare).
func (r *Request) SidebandSize() int {
	switch {
	case r.Version == 2, r.has("side-band-64k"):
		return Sideband64k
	case r.has("side-band"):
		return Sideband
	}
	return 0
}

// Progress tells whether the client wants band 2.
func (r *Request) Progress() bool { return r.SidebandSize() > 0 && !r.has("no-progress") }

// EndsInPack tells whether the answer has a pack whatever the two sides have in common: the client is done, or has nothing
// (git upload-pack of v2 then does not wait for a done). The answer to any other fetch may have one, too, when upload-pack
// finds that it knows enough.
func (r *Request) EndsInPack() bool {
	if r.Command != "fetch" || len(r.Wants)+len(r.WantRefs) == 0 {
		return false
	}
	return r.Done || r.Version == 2 && len(r.Haves) == 0
}

// Tellable tells whether the answer is a packfile section alone, so that it may begin before anything is known: v2, done, no
// acknowledgments, shallow-info, wanted-refs or packfile-uris to come, and nothing but the pack in the side-band
// (gitprotocol-v2(5), "fetch").
func (r *Request) Tellable() bool {
	if r.Version != 2 || !r.Done || !r.EndsInPack() {
		return false
	}
	shallow := len(r.Shallows) > 0 || r.Depth > 0 || r.DeepenSince != "" || len(r.DeepenNot) > 0
	return !shallow && len(r.WantRefs) == 0 && !r.has("sideband-all") && !r.hasPackfileURIs()
}

func (r *Request) hasPackfileURIs() bool {
	return slices.ContainsFunc(r.Caps, func(c string) bool { return strings.HasPrefix(c, "packfile-uris=") })
}
