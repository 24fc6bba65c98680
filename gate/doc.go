// Package gate admits work by cost, fairly between keys, and turns away what it cannot hold.
//
// What it refuses to do: a gate does not measure memory (it is told its limit), does not know protocols (whoever asked
// turns a *Shed into a status code), does not start goroutines, does not take a permit back, and remembers nothing of a
// key that neither holds nor waits.
//
// The algorithm:
//
//   - A waiter holds nothing. The limit of all keys and the limit of one key are decided together, under one lock, at
//     the moment of the grant: a hot key at its own limit waits beside the others, never on top of their room.
//   - Among the keys that have a waiter and are below their own limit, turns go round (deficit round robin). A turn is
//     worth the largest cost now waiting, rounded up to a power of two but at most the limit; what is left of it is kept
//     for the key's next turn. A key that comes is reached when each of the others has had one turn, and within a key
//     the first to come is the first to go.
//
// The picture, of a gate with Limit 8 and PerKeyContended 4:
//
//	Admit(key, cost)                    waiters, FIFO within a key        permits out: 7 of 8
//	   |                                                                 +------------------+
//	   |-- room, nobody before it -------------------------------------> | A A A A          |
//	   |                                                                 | B C C            |
//	   |-- queue has a place -> turn --> B: 1 1                          +------------------+
//	   |                               > C: 3  <- its turn, 1 is free          |
//	   |                                 (A: 1 1 1 at its own limit)           | Release
//	   |                                 aside: 8                              |
//	   `-- no place, too large, late --> *Shed{Reason, RetryAfter}      next turn <-'
//
// A caller with somebody at the other end of a connection can be told its position while it waits, and wait longer or
// shorter than the others: AdmitWith.
//
// # Large waiters
//
// A waiter whose turn has come but that does not fit gathers: what is released is kept for it, so that a stream of
// small ones cannot starve it. While it keeps back room that another waiter could use, a clock runs. After a sixteenth
// of Options.Wait it steps aside, the others pass (those of its own key too, the one exception to FIFO), and for as
// long again nobody may gather. Then it gathers once more, twice as long; never longer than a quarter of Wait. So one
// large waiter delays small ones by at most Wait/4 at a stretch, and each stretch is followed by a pause as long in
// which they pass. Where no permit is held for longer than Wait/16 it is served the first time it gathers; where none
// is held for longer than Wait/4, within its Wait.
//
// A cost above the limit needs an empty gate and gathers like any other. A cost above the limit of its key needs a key
// that holds nothing; the waiters behind it in its own key wait with it, at most until its Wait is over.
//
// # Knobs
//
// Limit too low: the machine idles while callers queue. Too high: the plan no longer fits the memory it was made for.
// Queue too short: a burst that would have passed in a moment is shed. Too long: waiters cost memory and are served
// after they gave up. Wait too short: sheds at every hiccup. Too long: the caller's own time-out comes first, and the
// work it asked for is done for nobody. PerKey and PerKeyContended too low: one busy key cannot use an idle machine.
// Too high: a key that is new finds no room until another's work ends.
package gate
