package catalog

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// assumer reads what it is asked for as a role.
type assumer struct {
	querier
	role string
}

func (a assumer) As(role string) Querier { return assumer{a.querier, role} }

func (a assumer) Query(ctx context.Context, sql string, params []string, each func([][]byte) error) error {
	if a.role == "" {
		return a.querier.Query(ctx, sql, params, each)
	}
	if _, err := a.c.Exec(ctx, "set role "+quote(a.role)).ReadAll(); err != nil {
		return err
	}
	err := a.querier.Query(ctx, sql, params, each)
	_, reset := a.c.Exec(ctx, "reset role").ReadAll()
	return errors.Join(err, reset)
}

func enumsOf(t *testing.T, q Querier, schemas ...string) (c *Catalog, byName map[string]EnumTable) {
	t.Helper()
	c = read(t, q, Options{Schemas: schemas, RolesOfLogin: true})
	byName = map[string]EnumTable{}
	for _, e := range c.Enums {
		byName[strings.TrimSuffix(e.Name+"."+e.Key, ".")] = e
	}
	return c, byName
}

func (c *Catalog) labels(r Range) string { return strings.Join(c.Labels[r.From:][:r.N], "|") }

func TestRowsOfTablesWhoseCommentsSaySoAreTheValuesOfEnums(t *testing.T) {
	c, enums := enumsOf(t, connect(t, "postgres", pgtest.Load(t, "../testdata/enums.sql")), "app")
	for name, want := range map[string]struct {
		labels, notes string
		users         int
	}{
		"colours.colours_pkey":         {"red|green", "Like blood|Like grass", 1},
		"flags.label_key":              {"one|two|three", "The first||Third", 1},
		"flags.short_key":              {"o|t", "The first|Third", 1},
		"hidden_kind.hidden_kind_pkey": {"a|b", "A|B", 1},
		"kind_view":                    {"v1|v2", "a view|a view", 0},
		"unused.unused_pkey":           {"u1", "", 0},
	} {
		e := enums[name]
		if c.labels(e.Labels) != want.labels || c.labels(e.Notes) != want.notes || len(e.Users) != want.users || e.Problem != "" {
			t.Errorf("%s: %+v: %s; %s", name, e, c.labels(e.Labels), c.labels(e.Notes))
		}
	}
	if e := enums["status.status_pkey"]; len(e.Users) != 4 || e.Class == 0 || !e.Primary || e.Column != "code" {
		t.Errorf("%+v", e)
	}
	if e := enums["hidden_kind.hidden_kind_pkey"]; e.Class != 0 || c.Schemas[e.Schema] != "lists" {
		t.Errorf("%+v", e)
	}
	if len(enums) != 8 {
		t.Errorf("%d: %+v", len(enums), enums)
	}
}

func TestATableThatCannotBeAnEnumSaysWhy(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create role enum_login login noinherit`)
	pgtest.Exec(t, database, `create schema a; grant usage on schema a to enum_login; create schema hidden`)
	for name, sql := range map[string]string{
		"composite": "create table a.composite(a text, b text, primary key (a, b)); insert into a.composite values ('x', 'y')",
		"number":    "create table a.number(n int primary key); insert into a.number values (1)",
		"empty":     "create table a.empty(code text primary key)",
		"many":      "create table a.many(code text primary key); insert into a.many select i from generate_series(1, 1001) i",
		"long":      "create table a.long(code text primary key); insert into a.long values (repeat('x', 201))",
		"broken":    "create view a.broken as select 'x'::text as code, (1/0)::text as description",
		"most":      "create table a.most(code text primary key, description text); insert into a.most select i, repeat('y', 2000) from generate_series(1, 1000) i",
		"secret":    "create table a.secret(code text primary key); insert into a.secret values ('x')",
		"text":      "create table a.text(code text primary key); insert into a.text values ('x')",
	} {
		pgtest.Exec(t, database, sql)
		if name != "secret" {
			pgtest.Exec(t, database, "grant select on a."+name+" to enum_login")
		}
		kind, tags := "table", "@behavior -insert\n@enum"
		if name == "broken" {
			kind, tags = "view", "@enum\n@primaryKey code"
		}
		if name == "text" {
			tags = "What a text says is no tag:\n@enum"
		}
		pgtest.Exec(t, database, "comment on "+kind+" a."+name+" is '"+tags+"'")
	}
	pgtest.Exec(t, database, `drop view a.broken; create function a.fails() returns text language plpgsql as $$ begin raise undefined_column; end $$;
		create view a.broken as select a.fails() as code; comment on view a.broken is E'@enum\n@primaryKey code'; grant select on a.broken to enum_login`)
	c, enums := enumsOf(t, connect(t, "enum_login", database), "a")
	for name, want := range map[string]string{"composite.composite_pkey": "more than one column", "number.number_pkey": "no text", "empty.empty_pkey": "no rows", "many.many_pkey": "1000",
		"long.long_pkey": "200", "broken": "cannot be read", "secret.secret_pkey": "no role", "most.most_pkey": ""} {
		e, ok := enums[name]
		if !ok || !strings.Contains(e.Problem, want) || (e.Problem == "") != (want == "") || e.NoRows != (want == "no rows") || (e.Labels.N > 0) != (want == "") {
			t.Errorf("%s: %+v, want %q", name, e, want)
		}
	}
	if _, ok := enums["text.text_pkey"]; ok {
		t.Error("a tag within the text counts")
	}
	most := enums["most.most_pkey"]
	if most.Labels.N != MaxEnumLabels || len(c.Labels[most.Notes.From]) != maxNoteLength {
		t.Errorf("%+v", most)
	}
}

func TestRowsOfEnumsAreReadAsARoleThatMay(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create role enum_reader; create role enum_passer login noinherit; grant enum_reader to enum_passer;
		create schema a; grant usage on schema a to enum_reader; create table a.kind(code text primary key, hidden bool); insert into a.kind values ('x', false), ('y', true);
		comment on table a.kind is '@enum'; grant select on a.kind to enum_reader; alter table a.kind enable row level security; create policy p on a.kind to enum_reader using (not hidden)`)
	c, enums := enumsOf(t, assumer{querier: connect(t, "enum_passer", database)}, "a")
	if e := enums["kind.kind_pkey"]; c.labels(e.Labels) != "x" {
		t.Errorf("%+v", e)
	}
}

func TestRowsOfEnumsAreInTheFingerprintAndNoOthers(t *testing.T) {
	database := pgtest.Load(t, "../testdata/enums.sql")
	q := connect(t, "postgres", database)
	print := func() string {
		s, err := Fingerprint(t.Context(), q, Options{Schemas: []string{"app"}, RolesOfLogin: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := print()
	for _, sql := range []string{
		"insert into app.unused values ('u2')", "update app.colours set say = 'Like wine' where name = 'red'", "insert into lists.hidden_kind values ('c')",
		"delete from lists.hidden_kind where code = 'c'", "update app.flags set short = 'w' where short is null", "comment on table lists.hidden_kind is E'@enum\n@enumName kind'",
		"create or replace view app.kind_view as select unnest(array['v1', 'v2', 'v3']) as code, 'a view'::text as description", "comment on table lists.hidden_kind is null",
	} {
		pgtest.Exec(t, database, sql)
		after := print()
		if after == before {
			t.Errorf("%s: not noticed", sql)
		}
		before = after
	}
	for _, sql := range []string{"insert into app.flags values (9, 'nine')", "insert into app.thing (id, status) values (77, 'open')", "insert into lists.hidden_kind values ('d')"} {
		pgtest.Exec(t, database, sql)
		if noticed := print() != before; noticed != strings.Contains(sql, "flags") {
			t.Errorf("%s: noticed is %v", sql, noticed)
		}
		before = print()
	}
}
