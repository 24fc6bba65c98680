package storm

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
)

// Bazel's retry policy for gRPC, from its RemoteRetrier: 100 ms, doubled up to 5 s, each ± 10 %. It ignores RetryInfo.
const (
	ladderFirst  = 100 * time.Millisecond
	ladderLast   = 5 * time.Second
	ladderJitter = 0.1
)

// ladder is the state of one call's retries.
type ladder struct {
	left  int // retries that remain
	total int
	pause time.Duration // the next one, before jitter
}

func newLadder(retries int) *ladder {
	l := &ladder{total: retries}
	l.reset()
	return l
}

// reset begins anew, as Bazel does when an interrupted upload turns out to have made progress.
func (l *ladder) reset() { l.left, l.pause = l.total, ladderFirst }

// next is the pause before the next try; false when the call is to be given up.
func (l *ladder) next(c codes.Code) (time.Duration, bool) {
	if l.left == 0 || !retriable(c) {
		return 0, false
	}
	l.left--
	pause := l.pause
	l.pause = min(2*l.pause, ladderLast)
	return time.Duration(float64(pause) * (1 + ladderJitter*(2*rand.Float64()-1))), true
}

// retriable is what Bazel tries again. Everything else is permanent to it.
func retriable(c codes.Code) bool {
	switch c {
	case codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.Aborted, codes.Internal,
		codes.Unavailable, codes.ResourceExhausted:
		return true
	}
	return false
}
