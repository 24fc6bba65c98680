package gate

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Options of a Gate. The zero value of every field but Name and Limit is safe.
type Options struct {
	// Name appears in every Shed and in Stats. It may label a metric, so it should come from code, not from a client.
	Name string

	// Limit is the cost in use at once, all keys together; at least 1. Too low: callers queue while the machine idles.
	// Too high: the memory plan it stands for does not fit. Gate.SetLimit changes it while the gate runs.
	Limit int64

	// PerKey is the cost in use at once by one key; 0 means no limit but the gate's own. A single cost above it is
	// admitted when its key holds nothing else. Too low: one busy key cannot use an idle gate. Too high: a new key
	// finds the gate full and waits for another's work to end. SetLimit does not scale it.
	PerKey int64

	// PerKeyContended is the same while another key holds or waits; 0 means PerKey. When another key comes, permits
	// that a key holds above it stay; it gets no more until it is below. Too low: with two keys much of the gate is
	// kept free for a third. Too high: it protects nobody. SetLimit does not scale it.
	PerKeyContended int64

	// MaxCost is the largest cost that is admitted; 0 means the limit as it is at that moment. A cost above Limit and
	// up to MaxCost is served alone, when nothing else is held, so the plan must contain it. Anything above is shed at
	// once as TooLarge. Too low: legitimate work is turned away for ever. Too high: one request stops all others.
	MaxCost int64

	// Queue is the number of waiters, all keys together; 0 means that nobody waits and Admit sheds Busy at once. Too
	// low: bursts are shed that would have passed. Too high: the waiters' own memory outgrows its line in the plan.
	Queue int

	// QueuePerKey is the number of waiters of one key; 0 means Queue. Too low: a wide but legitimate client is shed
	// early. Too high: one key takes all the places, and the others are shed as QueueFull.
	QueuePerKey int

	// Wait is the longest time in the queue; it must be set with Queue, and only then. Too low: sheds at every hiccup.
	// Too high: callers give up first, and the place in the queue was for nothing. It also bounds how long one large
	// waiter holds up small ones; see "Large waiters" in the package comment.
	Wait time.Duration

	// Pressure, when it returns true, sheds new admissions with reason Pressure; waiters are still granted. It is
	// called once per admission, outside the lock, and should be no more than an atomic load. Nil means never.
	Pressure func() bool
}

// validate returns every contradiction, each naming the fields that make it.
func (o *Options) validate() error {
	var errs []error
	bad := func(wrong bool, format string, a ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("gate %q: "+format, append([]any{o.Name}, a...)...))
		}
	}
	bad(o.Name == "", "Name is empty; give it one, sheds and metrics are told apart by it")
	bad(o.Limit < 1, "Limit is %d; it must be at least 1", o.Limit)
	bad(o.PerKey < 0, "PerKey is %d; it must not be negative", o.PerKey)
	bad(o.PerKeyContended < 0, "PerKeyContended is %d; it must not be negative", o.PerKeyContended)
	bad(o.MaxCost < 0, "MaxCost is %d; it must not be negative", o.MaxCost)
	bad(o.Queue < 0, "Queue is %d; it must not be negative", o.Queue)
	bad(o.QueuePerKey < 0, "QueuePerKey is %d; it must not be negative", o.QueuePerKey)
	bad(o.Wait < 0, "Wait is %v; it must not be negative", o.Wait)
	bad(o.PerKey > max(o.Limit, 0), "PerKey %d is above Limit %d; lower the one or raise the other", o.PerKey, o.Limit)
	if o.PerKey > 0 {
		bad(o.PerKeyContended > o.PerKey, "PerKeyContended %d is above PerKey %d; lower the one or raise the other",
			o.PerKeyContended, o.PerKey)
	} else {
		bad(o.PerKeyContended > max(o.Limit, 0), "PerKeyContended %d is above Limit %d; lower the one or raise the other",
			o.PerKeyContended, o.Limit)
	}
	bad(o.QueuePerKey > max(o.Queue, 0), "QueuePerKey %d is above Queue %d; lower the one or raise the other", o.QueuePerKey, o.Queue)
	bad(o.Queue > 0 && o.Wait == 0, "Queue is %d but Wait is not set; say how long a waiter may wait", o.Queue)
	bad(o.Queue == 0 && o.Wait > 0, "Wait is %v but Queue is 0, so nobody may wait; set Queue or drop Wait", o.Wait)
	return errors.Join(errs...)
}

// withDefaults resolves the zero values. A PerKey that was not set is no limit at all rather than a copy of Limit, since
// Limit may change.
func (o Options) withDefaults() Options {
	if o.PerKey == 0 {
		o.PerKey = math.MaxInt64
	}
	if o.PerKeyContended == 0 {
		o.PerKeyContended = o.PerKey
	}
	if o.QueuePerKey == 0 {
		o.QueuePerKey = o.Queue
	}
	return o
}
