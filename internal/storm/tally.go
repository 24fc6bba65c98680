package storm

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tally counts what one group of clients meets with. All methods may be called at any time.
type tally struct {
	name    string
	began   time.Time
	offered atomic.Uint64
	ok      atomic.Uint64
	retries atomic.Uint64
	bytes   atomic.Int64
	open    atomic.Int64 // calls under way
	tail    atomic.Int64 // nanoseconds, scenario tail
	latency histogram

	verified, lost, wrong atomic.Uint64

	mu struct {
		sync.Mutex
		shed, failed map[Outcome]uint64 // the key's Count is 0
		notes        []string
		broken       []string
		brokenMore   int
	}
}

func newTally(name string) *tally {
	t := &tally{name: name, began: time.Now()}
	t.mu.shed, t.mu.failed = map[Outcome]uint64{}, map[Outcome]uint64{}
	return t
}

// admitted counts a write that was acknowledged. The bytes are counted here and not when they are handed to grpc-go, which
// buffers many that a shed call never sends.
func (t *tally) admitted(b *blob, began time.Time) {
	t.latency.add(time.Since(began))
	t.ok.Add(1)
	t.bytes.Add(b.size)
}

// answer counts an answer that was not OK.
func (t *tally) answer(err error) {
	message := status.Convert(err).Message()
	if !isShed(err) {
		message = "" // of an honest client's failures the promises broken hold the text
	}
	t.turnedAway(codeName(status.Code(err)), message)
}

// turnedAway is answer for a client that has only the words on the wire.
func (t *tally) turnedAway(code, message string) {
	gate, reason, shed := shedText(message)
	key := Outcome{Code: code, Gate: gate, Reason: reason}
	if !shed {
		key.Reason = firstWords(message)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if shed {
		t.mu.shed[key]++
		return
	}
	t.mu.failed[key]++
}

// maxBroken promises of one kind are enough to understand what is wrong.
const maxBroken = 20

func (t *tally) breaks(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.mu.broken, text) {
		return
	}
	if len(t.mu.broken) == maxBroken {
		t.mu.brokenMore++
		return
	}
	t.mu.broken = append(t.mu.broken, text)
}

func (t *tally) note(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.notes = append(t.mu.notes, text)
}

func (t *tally) shedCount() (n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.mu.shed {
		n += c
	}
	return n
}

func (t *tally) failedCount() (n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.mu.failed {
		n += c
	}
	return n
}

// section closes the books.
func (t *tally) section() Section {
	took := time.Since(t.began).Seconds()
	s := Section{
		Name: t.name, Seconds: took,
		Offered: t.offered.Load(), Admitted: t.ok.Load(), Retries: t.retries.Load(),
		Bytes: t.bytes.Load(), BytesPerSecond: float64(t.bytes.Load()) / max(took, 1e-9),
		Latency: t.latency.latency(), TailSeconds: time.Duration(t.tail.Load()).Seconds(),
		Verified: t.verified.Load(), Lost: t.lost.Load(), Wrong: t.wrong.Load(),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Shed, s.Failed = outcomes(t.mu.shed), outcomes(t.mu.failed)
	s.Notes, s.Broken = t.mu.notes, append([]string{}, t.mu.broken...)
	return s
}

func outcomes(m map[Outcome]uint64) []Outcome {
	all := make([]Outcome, 0, len(m))
	for o, n := range m {
		o.Count = n
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Gate, b.Gate), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// shedByGate is how a server says that it turned work away; a shed that no gate decided has another reason after "shed: ".
var shedByGate = regexp.MustCompile(`\bshed by gate (\w+): (\w+)`)

// shedText tells a shed from a failure by the answer's text, which also names the gate.
func shedText(message string) (gate, reason string, shed bool) {
	if m := shedByGate.FindStringSubmatch(message); m != nil {
		return m[1], m[2], true
	}
	if _, rest, ok := strings.Cut(message, "shed: "); ok {
		return "", firstWords(rest), true
	}
	return "", "", false
}

// isShed is shedText of an error.
func isShed(err error) bool {
	_, _, shed := shedText(status.Convert(err).Message())
	return shed
}

// codeName is the code as the protocol's documents write it.
func codeName(c codes.Code) string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return c.String()
}

var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// firstWords keeps a message short enough to be a key; digests and names in it would make each one unique.
func firstWords(message string) string {
	const most = 40
	if i := strings.IndexAny(message, ":;("); i >= 0 {
		message = message[:i]
	}
	return message[:min(len(message), most)]
}
