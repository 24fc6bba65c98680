package pgpool

import (
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestValuesHaveTheFormThatTheyAreReadInWhateverTheDatabasesDefaultIs(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, "postgres", `alter database `+database+` set datestyle = 'SQL, DMY'; alter database `+database+` set bytea_output = 'escape'`)
	b, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close(t.Context()) }()
	d, err := b.Database(pgtest.Server(t).URL("postgres", database))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 { // the second time behind a reset of the session
		var got []string
		err = d.Do(t.Context(), "x", Request{Statements: []Statement{{SQL: `select '2020-02-01 10:00'::timestamp::text, '\xff'::bytea::text`, TextResults: true, Each: func(row [][]byte) error {
			got = []string{string(row[0]), string(row[1])}
			return nil
		}}}})
		if err != nil || strings.Join(got, " ") != `2020-02-01 10:00:00 \xff` {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestTwoConnectionsNeverNameAStatementAlike(t *testing.T) {
	a, b := newStatements(10).get("", "select 1").name, newStatements(10).get("", "select 1").name
	if a == b {
		t.Errorf("both are %s", a)
	}
}
