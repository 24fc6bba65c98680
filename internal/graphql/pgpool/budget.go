package pgpool

import "context"

// Budget owns the connections to all databases.
type Budget struct{ o Options }

// New validates o and starts nothing.
func New(o Options) (*Budget, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Budget{o: o}, nil
}

// Run closes connections that were idle for long, until ctx is done.
func (b *Budget) Run(ctx context.Context) error { panic("contract") }

// Close sheds who waits and whoever comes, and returns when the connections are closed or ctx is done.
func (b *Budget) Close(ctx context.Context) error { panic("contract") }

// Stats costs a few allocations for each database that has connections.
func (b *Budget) Stats() Stats { panic("contract") }

// Database is a handle on the database of a URL.
type Database struct{ b *Budget }

// Database returns a handle. It connects to nothing; handles with equal URLs share their connections.
func (b *Budget) Database(url string) (*Database, error) { panic("contract") }

// Name is user, host, port and database, without credentials.
func (d *Database) Name() string { panic("contract") }

// Close releases the handle; it may be called more than once. The last one closes the connections as they come back.
func (d *Database) Close() { panic("contract") }

// Do runs a request for key, the one that fairness is between.
func (d *Database) Do(ctx context.Context, key string, r Request) error { panic("contract") }
