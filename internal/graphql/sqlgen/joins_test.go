package sqlgen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// led is a schema of relations that lead to one row, or seem to.
const led = `
create role led_visitor;
create schema led;
grant usage on schema led to led_visitor;
create table led.country (code text primary key, name text);
insert into led.country values ('a', 'A-land'), ('b', 'B-land');
create table led.owner (id int primary key, country text references led.country, name text, words text[] not null default '{x,y}', hidden boolean not null default false);
insert into led.owner values (1, 'a', 'one'), (2, null, 'two');
insert into led.owner values (3, 'b', 'three', '{}', true);
alter table led.owner enable row level security;
create policy shown on led.owner to led_visitor using (not hidden);
create function led.owner_label(o led.owner) returns text language plpgsql stable as $$ begin if o.id is null then raise 'called without a row'; end if; return 'label ' || o.id; end $$;
create table led.spot (x int, y int, note text, primary key (x, y));
insert into led.spot values (1, 1, 'origin'), (1, 2, 'up');
create table led.thing (id int primary key, owner_id int references led.owner, maker_id int references led.owner, x int, y int, foreign key (x, y) references led.spot);
insert into led.thing values (1, 1, 3, 1, 2), (2, 3, 1, 1, null), (3, null, 2, null, null), (4, 2, null, 1, 1);
create index on led.thing (owner_id); create index on led.thing (maker_id); create index on led.thing (x, y);
create table led.stamp (thing_id int primary key references led.thing, text text);
insert into led.stamp values (2, 'stamped');
create view led.doubled as select i as id, 'n' || i as name from generate_series(1, 4) i union all select 2, 'n2 again';
comment on view led.doubled is '@primaryKey id';
create table led.base (id int primary key, name text);
create table led.heir () inherits (led.base);
insert into led.base values (1, 'first'); insert into led.heir values (1, 'first of the heir');
create table led.late (id int primary key deferrable initially deferred, name text);
insert into led.late values (1, 'early');
comment on table led.thing is E'@foreignKey (id) references doubled (id)|@fieldName double\n@foreignKey (id) references base (id)|@fieldName base\n@foreignKey (id) references late (id)|@fieldName late';
grant select on all tables in schema led to led_visitor;
`

func ledSchema(t *testing.T, role string) (*Engine, *session) {
	t.Helper()
	database := pgtest.Database(t)
	pgtest.Exec(t, "postgres", "drop role if exists led_visitor")
	pgtest.Exec(t, database, led)
	t.Cleanup(func() { pgtest.Exec(t, database, "drop schema led cascade; drop role led_visitor") })
	s := connect(t, "postgres", database)
	e := New(schemaOf(t, s, "led"), Options{})
	if role != "" {
		if _, err := s.c.Exec(t.Context(), "set role "+role).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	return e, s
}

// joinsOf is how many joins the statements since the last call have.
func joinsOf(s *session) (n int) {
	for _, st := range s.asks {
		n += strings.Count(st.SQL, " left join ")
	}
	s.asks = nil
	return n
}

func TestRelationsToOneRowAreJoinedBehindTheLimit(t *testing.T) {
	e, db := ledSchema(t, "")
	expect(t, e, db, `{ allThings(first: 2, offset: 1, orderBy: PRIMARY_KEY_DESC) { nodes { rowId ownerByOwnerId { name words countryByCountry { name } } } edges { cursor node { spotByXAndY { note } stampByThingId { text } } } totalCount } }`,
		`{"allThings":{"nodes":[{"rowId":3,"ownerByOwnerId":null},{"rowId":2,"ownerByOwnerId":{"name":"three","words":[],"countryByCountry":{"name":"B-land"}}}],`+
			`"edges":[{"cursor":"WyIwNmZkMWNmOTIxIiwzXQ==","node":{"spotByXAndY":null,"stampByThingId":null}},{"cursor":"WyIwNmZkMWNmOTIxIiwyXQ==","node":{"spotByXAndY":null,"stampByThingId":{"text":"stamped"}}}],"totalCount":4}}`)
	sql := db.asks[0].SQL
	if n := joinsOf(db); n != 4 || strings.Index(sql, " left join ") < strings.Index(sql, " limit 2") {
		t.Errorf("%d joins in %s", n, sql)
	}
	expect(t, e, db, `{ allThings(last: 2) { nodes { rowId spotByXAndY { note x } } } }`,
		`{"allThings":{"nodes":[{"rowId":3,"spotByXAndY":null},{"rowId":4,"spotByXAndY":{"note":"origin","x":1}}]}}`)
	expect(t, e, db, `{ allOwners(orderBy: PRIMARY_KEY_DESC, first: 1) { nodes { thingsByOwnerId { nodes { rowId ownerByOwnerId { rowId } } } } } }`,
		`{"allOwners":{"nodes":[{"thingsByOwnerId":{"nodes":[{"rowId":2,"ownerByOwnerId":{"rowId":3}}]}}]}}`)
}

func TestRowsThatAPolicyHidesAreNotJoined(t *testing.T) {
	e, db := ledSchema(t, "led_visitor")
	expect(t, e, db, `{ allThings { nodes { rowId ownerByOwnerId { name } ownerByMakerId { rowId } } } }`,
		`{"allThings":{"nodes":[{"rowId":1,"ownerByOwnerId":{"name":"one"},"ownerByMakerId":null},{"rowId":2,"ownerByOwnerId":null,"ownerByMakerId":{"rowId":1}},`+
			`{"rowId":3,"ownerByOwnerId":null,"ownerByMakerId":{"rowId":2}},{"rowId":4,"ownerByOwnerId":{"name":"two"},"ownerByMakerId":null}]}}`)
	if n := joinsOf(db); n != 2 {
		t.Errorf("%d joins", n)
	}
}

func TestSelectionsOfOneRelationShareItsJoin(t *testing.T) {
	e, db := ledSchema(t, "")
	expect(t, e, db, `{ allThings(first: 1) { nodes { a: ownerByOwnerId { name } b: ownerByOwnerId { rowId countryByCountry { code } } c: ownerByMakerId { name } } edges { node { ownerByOwnerId { c: countryByCountry { name } } } } } }`,
		`{"allThings":{"nodes":[{"a":{"name":"one"},"b":{"rowId":1,"countryByCountry":{"code":"a"}},"c":{"name":"three"}}],"edges":[{"node":{"ownerByOwnerId":{"c":{"name":"A-land"}}}}]}}`)
	if n := joinsOf(db); n != 3 {
		t.Errorf("%d joins", n)
	}
}

func TestNothingIsWorkedOutForARowThatIsNotThere(t *testing.T) {
	e, db := ledSchema(t, "")
	expect(t, e, db, `{ allThings(condition: { rowId: 3 }) { nodes { ownerByOwnerId { label } ownerByMakerId { label thingsByOwnerId { totalCount } } } } }`,
		`{"allThings":{"nodes":[{"ownerByOwnerId":null,"ownerByMakerId":{"label":"label 2","thingsByOwnerId":{"totalCount":1}}}]}}`)
}

func TestAKeyThatMayHaveSeveralRowsIsNotJoined(t *testing.T) {
	e, db := ledSchema(t, "")
	got := ask(t, e, db, `{ allThings { nodes { rowId double { name } base { name } late { name } } } }`, nil)
	nodes, _ := at(got.Data, "allThings", "nodes").([]any)
	if len(nodes) != 4 || len(got.Errors) > 0 {
		t.Fatalf("%d things, %+v", len(nodes), got.Errors)
	}
	if n := joinsOf(db); n != 0 {
		t.Errorf("%d joins to what is no key", n)
	}
	expect(t, e, db, `{ allThings(first: 1) { nodes { double { name } late { name } } } lateByRowId(rowId: 1) { name } }`, `{"allThings":{"nodes":[{"double":{"name":"n1"},"late":{"name":"early"}}]},"lateByRowId":{"name":"early"}}`)
	if got := ask(t, e, db, `{ baseByRowId(rowId: 1) { name } }`, nil); at(got.Data, "baseByRowId", "name") == nil || len(got.Errors) > 0 {
		t.Errorf("two rows of a base and its heir have one key: %+v", got)
	}
}

func TestJoinsBeyondWhatPostgreSQLPlansTogetherAreSubSelects(t *testing.T) {
	var tables, columns, fields, want strings.Builder
	for i := range maxJoins + 2 {
		fmt.Fprintf(&tables, "create table wide.p%d (id int primary key, n int); insert into wide.p%[1]d values (1, %[1]d);", i)
		fmt.Fprintf(&columns, ", p%d int default 1 references wide.p%[1]d", i)
		fmt.Fprintf(&fields, " p%dByP%[1]d { n }", i)
		fmt.Fprintf(&want, `,"p%dByP%[1]d":{"n":%[1]d}`, i)
	}
	database := pgtest.Database(t)
	pgtest.Exec(t, database, "create schema wide; "+tables.String()+" create table wide.hub (id int primary key"+columns.String()+"); insert into wide.hub values (1)")
	s := connect(t, "postgres", database)
	expect(t, New(schemaOf(t, s, "wide"), Options{}), s, "{ allHubs { nodes { rowId"+fields.String()+" } } }", `{"allHubs":{"nodes":[{"rowId":1`+want.String()+"}]}}")
	if n := joinsOf(s); n != maxJoins {
		t.Errorf("%d joins, not %d", n, maxJoins)
	}
}

func TestTablesMayBeAsWideAsPostgreSQLAllows(t *testing.T) {
	var columns, fields strings.Builder
	for i := range 890 {
		fmt.Fprintf(&columns, ", c%d int default %[1]d", i)
		fmt.Fprintf(&fields, " c%d", i)
	}
	database := pgtest.Database(t)
	pgtest.Exec(t, database, "create schema wide; create table wide.a (id int primary key"+columns.String()+"); create table wide.b (id int primary key, a_id int references wide.a"+columns.String()+
		"); create index on wide.b (a_id); insert into wide.a values (1); insert into wide.b values (1, 1)")
	s := connect(t, "postgres", database)
	e := New(schemaOf(t, s, "wide"), Options{})
	got := ask(t, e, s, "{ allBs { nodes {"+fields.String()+" aByAId {"+fields.String()+" } } edges { node {"+fields.String()+" } } } }", nil)
	if len(got.Errors) > 0 || fmt.Sprint(at(got.Data, "allBs", "nodes", 0, "aByAId", "c889"), at(got.Data, "allBs", "edges", 0, "node", "c888")) != "889888" {
		t.Errorf("%.300s", fmt.Sprint(got))
	}
}
