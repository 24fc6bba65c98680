package pgpool

import "strings"

// A request that only reads is undone. Its settings and statements run in a savepoint of a transaction that is READ ONLY, and
// PostgreSQL takes back all that a rollback does: settings and roles that were not local, temporary tables, cursors, what was about
// to be heard or told. Session locks are what is left, since the transaction may not draw numbers from sequences. That is safer than
// a list of resets, and takes half of their time: 8 of 18 microseconds. The transaction itself commits, for operators watch the
// share of those that do not.
//
// All of it is one pipeline, so that PostgreSQL answers once. If a step fails, the rest is skipped, and undo is sent.
//
// With default_transaction_deferrable, what is READ ONLY and serializable would wait until nobody writes, before its time limit is set.
var (
	undoneBegin = [...]plain{{"begin read only not deferrable", "BEGIN"}, {"savepoint levee", "SAVEPOINT"}}
	undoneEnd   = [...]plain{{"rollback to savepoint levee", "ROLLBACK"}, {"select pg_catalog.pg_advisory_unlock_all()", "SELECT 1"}, {"commit", "COMMIT"}}

	messageUndo = appendQuery(nil, "rollback; "+resetSession)
)

// plain is a statement without parameters, and what PostgreSQL answers if it is that which ran: a function can prepare another under
// its name.
type plain struct{ sql, tag string }

// undoes tells whether r runs so. Behind a pooler there is the reset of the pooler's other clients, too, which is not sent twice. A
// tenant that has a setting of the transaction itself means to have it as it says.
func (c *conn) undoes(r *Request) bool {
	if !r.ReadOnly || c.known == nil {
		return false
	}
	for _, s := range r.Settings {
		if len(s.Name) > len("transaction_") && strings.EqualFold(s.Name[:len("transaction_")], "transaction_") {
			return false
		}
	}
	return true
}

// undo ends a transaction that has failed.
func (c *conn) undo() error {
	c.resetting = true
	_, err := c.net.Write(messageUndo)
	return err
}
