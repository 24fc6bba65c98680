package graphql

import (
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestARowThatIsAddedToATableOfAnEnumBecomesAValueThoughTheLoginMayNotReadIt(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema s; create table s.state (code text primary key); insert into s.state values ('one'); comment on table s.state is '@enum';
		create table s.note (id int primary key, state text references s.state); insert into s.note values (1, 'one');
		drop role if exists enum_anonymous; create role enum_anonymous; drop role if exists enum_login; create role enum_login login noinherit; grant enum_anonymous to enum_login;
		grant usage on schema s to enum_anonymous; grant select on s.note, s.state to enum_anonymous`)
	tenant := Tenant{DatabaseURL: pgtest.Server(t).URL("enum_login", database), Schemas: []string{"s"}, Auth: auth.Options{AnonymousRole: "enum_anonymous"}}
	_, url := serve(t, Options{Tenants: []Tenant{tenant}, Watch: 50 * time.Millisecond})
	if status, body := ask(t, url, `{ noteByRowId(rowId: 1) { state } __type(name: "State") { enumValues { name } } }`); status != 200 || !strings.Contains(body, `"state":"one"`) || !strings.Contains(body, `[{"name":"one"}]`) {
		t.Fatal(status, body)
	}
	pgtest.Exec(t, database, `insert into s.state values ('two'); update s.note set state = 'two'`)
	until(t, "the new row is a value", func() bool {
		_, body := ask(t, url, `{ noteByRowId(rowId: 1) { state } }`)
		return strings.Contains(body, `"state":"two"`)
	})
}
