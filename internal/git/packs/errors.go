package packs

import (
	"errors"
	"fmt"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"golang.org/x/sys/unix"
)

// TooLarge is a request whose generation is predicted to take more memory than all of them together may have. It can be
// forwarded upstream, or refused by this name; waiting does not help.
type TooLarge struct {
	Repo  string
	Bytes int64 // predicted
	Shed  *gate.Shed
}

func (e *TooLarge) Error() string {
	return fmt.Sprintf("a pack of %s is predicted to take %d MiB of memory, more than the %d MiB that all may have: raise git.memory, fetch less at once, or set git.too_large",
		e.Repo, e.Bytes>>20, e.Shed.Limit>>20)
}

func (e *TooLarge) Unwrap() error { return e.Shed }

// refusedError is upload-pack's refusal, when it can only be told on band 3.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// tell is what a client is told on band 3. Paths and other innards are for the log.
func tell(err error) string {
	var shed *gate.Shed
	var large *TooLarge
	var refused *refusedError
	var exit *child.ExitError
	switch {
	case errors.As(err, &large):
		return large.Error()
	case errors.As(err, &shed):
		return fmt.Sprintf("the Git cache is busy (%s); try again in %v", shed.Reason, shed.RetryAfter.Round(time.Second))
	case errors.As(err, &refused):
		return refused.text
	case errors.Is(err, errDetached):
		return errDetached.Error()
	case errors.As(err, &exit) && exit.OutOfMemory:
		return "making the pack took more memory than was planned for it; try again"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "the Git cache's disk is full; try again later"
	}
	return "the pack cannot be made; the Git cache's log says why"
}

// outcome of an error.
func outcome(err error, canceled bool) string {
	switch {
	case canceled:
		return Canceled
	case errors.As(err, new(*TooLarge)), errors.As(err, new(*refusedError)):
		return Refused
	case errors.Is(err, gate.ErrShed):
		return Shed
	}
	return Failed
}
