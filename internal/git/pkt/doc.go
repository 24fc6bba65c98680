// Package pkt reads and writes git's wire format: pkt-lines, side-bands, and the requests of protocol v0, v1 and v2.
//
// It refuses to open anything, to run git and to know of HTTP: bytes in, a Request or an error that names the line out. No
// length or count that a client writes is believed before the bytes are there.
//
// Sources: gitprotocol-common(5), gitprotocol-pack(5), gitprotocol-v2(5).
package pkt

// OID is an object id in lower-case hex, 40 or 64 digits.
type OID string

// Limits of a Request; zero values are right.
type Limits struct {
	// Bytes of the body, after its content encoding is undone. 0 is 16 MiB.
	Bytes int64
	// Lines of wants, haves, shallows and ref prefixes together. 0 is 400,000.
	Lines int
}

// Request is one POST to git-upload-pack.
type Request struct {
	Version int    // 0, 1 or 2
	Command string // of v2: "ls-refs", "fetch", "object-info", "bundle-uri"; of v0 and v1 always "fetch"; "" is the 4-byte probe
	Body    []byte // as it came, to be fed to git upload-pack --stateless-rpc

	Agent        string
	Caps         []string // sorted; without agent, session-id and object-format
	ObjectFormat string   // "sha1" if not said

	// Of a fetch.
	Wants, Haves, Shallows []OID // sorted, each once
	WantRefs               []string
	Depth                  int
	DeepenSince            string
	DeepenNot              []string
	DeepenRelative         bool
	Filter                 string
	Done                   bool // the response may have a pack
	WaitForDone            bool

	// Of ls-refs.
	RefPrefixes   []string
	Peel, Symrefs bool
	Unborn        bool
}

// ErrTooLarge is wrapped by errors of what is above Limits.
var ErrTooLarge error

// ParseV2 reads a v2 request. An error says which line is wrong and what was expected.
func ParseV2(body []byte, l Limits) (*Request, error) { panic("contract") }

// ParseV0 reads what follows a v0 or v1 advertisement: wants with capabilities, shallows, depth, haves, done. Several rounds
// of haves may follow each other, with flush packets between.
func ParseV0(version int, body []byte, l Limits) (*Request, error) { panic("contract") }

// SidebandSize is the largest payload of a side-band packet for what the client asked: 65515 with side-band-64k or v2, 995
// with side-band, 0 without either (the pack is sent bare).
func (r *Request) SidebandSize() int { panic("contract") }

// Progress tells whether the client wants band 2.
func (r *Request) Progress() bool { panic("contract") }

// Tellable tells whether the answer is a packfile section alone, so that it may begin before anything is known: v2, done, no
// acknowledgments, shallow-info or wanted-refs to come (gitprotocol-v2, "fetch").
func (r *Request) Tellable() bool { panic("contract") }

// Canonical is what two requests must share for their answers to be the same but for progress: everything that changes the
// answer, sorted; never agent, session-id or no-progress.
func (r *Request) Canonical() [32]byte { panic("contract") }
