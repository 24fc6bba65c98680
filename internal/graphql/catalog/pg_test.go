package catalog

import (
	"context"
	"runtime"
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
	c := read(t, connect(t, "forum_owner", pgtest.Load(t, "../testdata/forum.sql")), forum)
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
	c := read(t, connect(t, "forum_authenticator", pgtest.Load(t, "../testdata/forum.sql")), forum)
	for _, k := range c.Classes[1:] {
		want := map[string]Privileges{"person": Select, "comment": Select | Insert | Delete, "private_note": Select | Insert | Update | Delete}[k.Name]
		if want != 0 && k.Privileges != want {
			t.Errorf("%s: %b, want %b", k.Name, k.Privileges, want)
		}
	}
}

func TestAnyChangeOfTheSchemaOrOfTheLoginChangesTheFingerprint(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `
		create schema a; create table a.t(id int primary key, x text); create type a.e as enum ('one');
		create function a.f(i int) returns int language sql immutable as 'select i';
		do $$ begin create role print_login login; exception when duplicate_object then null; end $$;
		alter role print_login nobypassrls; grant usage on schema a to print_login; grant select on a.t to print_login;
		create schema other; create table other.u(id int);`)
	q := connect(t, "print_login", database)
	o := Options{Schemas: []string{"a"}}
	print := func() string {
		p, err := Fingerprint(t.Context(), q, o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before := print()
	for _, change := range []string{
		"alter table a.t add column y int", "alter table a.t drop column y", "alter table a.t alter x set not null", "comment on table a.t is 'text'",
		"comment on column a.t.x is 'text'", "comment on constraint t_pkey on a.t is 'text'", "comment on function a.f is 'text'", "grant insert on a.t to print_login",
		"revoke insert on a.t from print_login", "grant update (x) on a.t to print_login", "create policy p on a.t using (true)", "alter policy p on a.t using (false)",
		"alter table a.t enable row level security", "alter type a.e add value 'two'", "alter type a.e rename value 'two' to 'three'",
		"create or replace function a.f(i int) returns int language sql stable as 'select i'", "create index on a.t(x)", "create unique index u on a.t(x)",
		"alter table a.t add constraint uq unique using index u", "create view a.v as select 1 as one", "alter role print_login bypassrls", "alter role print_login nobypassrls",
		"alter table a.t owner to print_login", "alter schema a owner to print_login",
	} {
		pgtest.Exec(t, database, change)
		after := print()
		if after == before {
			t.Errorf("%s: not noticed", change)
		}
		before = after
	}
	for _, harmless := range []string{"insert into a.t values (1, 'x')", "create table other.w(id int)", "analyze a.t", "vacuum freeze pg_catalog.pg_class"} {
		pgtest.Exec(t, database, harmless)
		if print() != before {
			t.Errorf("%s: noticed", harmless)
		}
	}
}

func TestALoginThatRowLevelSecurityDoesNotBindIsToldOf(t *testing.T) {
	database := pgtest.Load(t, "../testdata/forum.sql")
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

// tables makes n tables of eleven columns, each with a key, two indexes and a foreign key to the one before.
func tables(t testing.TB, n int) string {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, "create schema a")
	const batch = 500 // a transaction locks all it makes
	for from := 1; from <= n; from += batch {
		pgtest.Exec(t, database, strings.NewReplacer("$from", itoa(from), "$to", itoa(min(n, from+batch-1))).Replace(`do $do$ begin for i in $from..$to loop
			execute format('create table a.some_table_%s(id bigserial primary key, parent_id bigint %s, title text not null, body text, topic text, score int default 0, state text, price numeric, owner_id uuid, created_at timestamptz not null default now(), updated_at timestamptz)',
				i, case when i > 1 then format('references a.some_table_%s', i - 1) end);
			execute format('create index on a.some_table_%s(parent_id)', i);
		end loop; end $do$`))
	}
	return database
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func TestTheSizeIsThatOfTheHeap(t *testing.T) {
	for _, n := range []int{9, 1000} {
		q := connect(t, "postgres", tables(t, n))
		const copies = 8
		kept := make([]*Catalog, copies)
		before := liveHeap()
		for i := range kept {
			kept[i] = read(t, q, Options{Schemas: []string{"a"}})
		}
		each := (liveHeap() - before) / copies
		size := kept[0].Size()
		if size < each*8/10 || size > each*12/10 {
			t.Errorf("%d tables: Size says %d bytes, the heap grew by %d", n, size, each)
		}
		t.Logf("%d tables: %d bytes", n, size)
		runtime.KeepAlive(kept)
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{9, 100, 1000} {
		b.Run(itoa(n)+"tables", func(b *testing.B) {
			q := connect(b, "postgres", tables(b, n))
			for b.Loop() {
				read(b, q, Options{Schemas: []string{"a"}})
			}
		})
	}
}
