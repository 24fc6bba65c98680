package sqlgen

// Statement is one SQL statement of a transaction.
type Statement struct {
	SQL    string
	Params [][]byte // in text format; nil is NULL

	// Reads says that it changes nothing, so it may be run again if the connection was lost.
	Reads bool

	// Each gets each row's columns in binary format, valid during the call only. Nil skips the rows.
	Each func(row [][]byte) error
}
