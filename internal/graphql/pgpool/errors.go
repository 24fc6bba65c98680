package pgpool

import "fmt"

// Unavailable is the error of a request whose database could not be reached, or that lost its connection.
type Unavailable struct {
	Err error

	// Ran says that the statements may have run, and may have taken effect.
	Ran bool
}

func (u *Unavailable) Error() string { return "the database is not available: " + u.Err.Error() }

func (u *Unavailable) Unwrap() error { return u.Err }

// TooLarge is the error of a request for which PostgreSQL declared a message above Options.MaxMessage. Nothing of it was read.
type TooLarge struct{ Declared, Limit int64 }

func (t *TooLarge) Error() string {
	return fmt.Sprintf("PostgreSQL answers with a message of %d bytes; the limit is %d", t.Declared, t.Limit)
}
