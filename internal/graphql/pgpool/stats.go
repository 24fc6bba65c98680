package pgpool

// Stats is a snapshot.
type Stats struct {
	Budget  int `json:"budget"`
	Open    int `json:"open"`    // connections that the server may count as ours, with those being made and being closed
	Idle    int `json:"idle"`    // those that nobody uses
	InUse   int `json:"in_use"`  // permits out
	Waiting int `json:"waiting"` // requests without a connection

	Opened   uint64            `json:"opened"`   // since New
	Closed   map[string]uint64 `json:"closed"`   // by cause; every cause is present
	Failures uint64            `json:"failures"` // connections that could not be made
	FastFail uint64            `json:"fast_fail"` // requests turned away because the last attempt to connect failed just now
	Requests uint64            `json:"requests"`
	Repeated uint64            `json:"repeated"` // on a fresh connection, or with a statement prepared anew
	Resets   uint64            `json:"resets"`   // of sessions, after a dirty request
	Canceled uint64            `json:"canceled"` // statements that PostgreSQL was asked to stop

	// Databases are the ones with most connections, at most 20.
	Databases []DatabaseStats `json:"databases,omitempty"`
}

// DatabaseStats is the part of one database.
type DatabaseStats struct {
	Name    string `json:"name"`
	Open    int    `json:"open"`
	Idle    int    `json:"idle"`
	Waiting int    `json:"waiting"`
	Down    bool   `json:"down,omitempty"` // the last attempt to connect failed
}
