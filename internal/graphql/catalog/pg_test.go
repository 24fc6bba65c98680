package catalog

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// querier is one connection.
type querier struct{ c *pgconn.PgConn }

func (q querier) Query(ctx context.Context, sql string, params []string, each func([][]byte) error) error {
	values := make([][]byte, len(params))
	for i, p := range params {
		values[i] = []byte(p)
	}
	rows := q.c.ExecParams(ctx, sql, values, nil, nil, nil)
	for rows.NextRow() {
		if err := each(rows.Values()); err != nil {
			_, _ = rows.Close()
			return err
		}
	}
	_, err := rows.Close()
	return err
}

func connect(t testing.TB, user, database string) querier {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), pgtest.Server(t).URL(user, database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return querier{c}
}

var forum = Options{Schemas: []string{"app_public"}, RolesOfLogin: true}

func read(t testing.TB, q Querier, o Options) *Catalog {
	t.Helper()
	c, err := Read(t.Context(), q, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheForumSchemaIsReadWithWhatItRefersTo(t *testing.T) {
	c := read(t, connect(t, "forum_owner", pgtest.Load(t, "../testdata/forum/schema.sql")), forum)
	names := map[string]int{}
	for _, k := range c.Classes[1:] {
		names[k.Name] = int(k.Columns.N)
	}
	for name, columns := range map[string]int{"person": 20, "type_sample": 45, "post_stat": 2, "address": 3} {
		if names[name] != columns {
			t.Errorf("%s has %d columns, want %d", name, names[name], columns)
		}
	}
	for i := range c.Procs {
		for j := range uint32(c.Procs[i].Args.N) {
			if c.Args[c.Procs[i].Args.From+j].Type == 0 {
				t.Errorf("argument %d of %s has no type", j, c.Procs[i].Name)
			}
		}
	}
}

func TestGrantsOfRolesThatTheLoginMayAssumeCount(t *testing.T) {
	c := read(t, connect(t, "forum_authenticator", pgtest.Load(t, "../testdata/forum/schema.sql")), forum)
	for _, k := range c.Classes[1:] {
		want := map[string]Privileges{"person": Select, "comment": Select | Insert | Delete, "private_note": Select | Insert | Update | Delete}[k.Name]
		if want != 0 && k.Privileges != want {
			t.Errorf("%s: %b, want %b", k.Name, k.Privileges, want)
		}
	}
}

func TestALoginThatRowLevelSecurityDoesNotBindIsToldOf(t *testing.T) {
	database := pgtest.Load(t, "../testdata/forum/schema.sql")
	for user, want := range map[string]Login{
		"postgres":            {Role: "postgres", Superuser: true, BypassRLS: true, Owns: []string{"app_public.comment"}},
		"forum_owner":         {Role: "forum_owner", Owns: []string{"app_public.comment"}},
		"forum_authenticator": {Role: "forum_authenticator"},
	} {
		got, err := ReadLogin(t.Context(), connect(t, user, database), forum)
		if err != nil || got.Role != want.Role || got.Superuser != want.Superuser || got.BypassRLS != want.BypassRLS || strings.Join(got.Owns, ",") != strings.Join(want.Owns, ",") {
			t.Errorf("%s: %+v, %v; want %+v", user, got, err, want)
		}
	}
}

func TestASchemaThatIsNotThereIsNamed(t *testing.T) {
	_, err := Read(t.Context(), connect(t, "postgres", pgtest.Database(t)), Options{Schemas: []string{"nowhere"}})
	if err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Error(err)
	}
}
