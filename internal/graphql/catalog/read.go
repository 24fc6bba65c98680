package catalog

import "context"

// Options say what to read.
type Options struct {
	// Schemas are exposed, in order. Naming one that is not there is an error.
	Schemas []string

	// Roles are those that requests may run as; none means the login role alone. Privileges are the union of theirs.
	// With RolesOfLogin, every role that the login may assume is one of them.
	Roles        []string
	RolesOfLogin bool
}

// Querier runs one SQL statement with parameters in text form, and hands out each row's columns in text form (nil is
// NULL), valid during the call only. All statements of one Read see one snapshot if the Querier gives them one.
type Querier interface {
	Query(ctx context.Context, sql string, params []string, each func(row [][]byte) error) error
}

// Read reads the catalog.
func Read(ctx context.Context, q Querier, o Options) (*Catalog, error) { panic("contract") }

// Fingerprint changes whenever a Catalog read now could differ from one read before, and whenever the safety of the login
// could (Login). It costs the database as little as a scoped read can.
func Fingerprint(ctx context.Context, q Querier, o Options) (string, error) { panic("contract") }

// Login says what the connection's role could do in spite of row level security.
type Login struct {
	Role      string
	Superuser bool
	BypassRLS bool
	Owns      []string // exposed tables with row level security, not forced, that it owns or may own by membership; at most ten
}

// ReadLogin reads it.
func ReadLogin(ctx context.Context, q Querier, o Options) (Login, error) { panic("contract") }

// Comment returns the text that Column.Comment stands for.
func (c *Catalog) Comment(id uint32) string { panic("contract") }

// Size is the memory that the catalog keeps reachable, in bytes, by walking its structures.
func (c *Catalog) Size() int64 { panic("contract") }
