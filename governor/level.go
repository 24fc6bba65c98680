package governor

import "fmt"

// Level is how near the process is to its limit. Levels are ordered: a greater one asks for more.
type Level int32

const (
	Normal Level = iota // no pressure
	Evict               // caches shrink, expensive builds are spaced
	Shed                // new work that would grow memory is shed; what was admitted goes on
)

// String is the word that Status, metrics and logs use.
func (l Level) String() string {
	switch l {
	case Normal:
		return "normal"
	case Evict:
		return "evict"
	case Shed:
		return "shed"
	}
	return fmt.Sprintf("level(%d)", int32(l))
}

// MarshalText makes a level readable in JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

const (
	defaultEvictMark = 0.60
	defaultShedMark  = 0.75

	// hysteresis is how far a share must fall below the mark that raised a level before the level ends. Less than the
	// few per cent by which a live heap wanders between collections would make the level flap.
	hysteresis = 0.05

	// brinkMark is the share of the limit at which even garbage counts, because the kernel cannot wait for a collection.
	brinkMark = 0.95
)

// marks are the shares at which levels start.
type marks struct{ evict, shed float64 }

// level returns what share calls for when the level now is held. It looks at nothing else, so that the whole table can
// be tested.
func (m marks) level(held Level, share float64) Level {
	switch {
	case share >= m.shed:
		return Shed
	case held == Shed && share >= m.shed-hysteresis:
		return Shed
	case share >= m.evict:
		return Evict
	case held >= Evict && share >= m.evict-hysteresis:
		return Evict
	}
	return Normal
}
