package sqlgen

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// odd is a schema of what is rare: names that SQL generators use themselves, promises that are not kept, rights to a part.
const odd = `
create role odd_visitor;
create schema odd;
create schema "Ext ""ra";
create extension citext schema "Ext ""ra";
grant usage on schema odd, "Ext ""ra" to odd_visitor;
create table odd.contact (id serial primary key, message text not null, secret text default 'hush');
grant insert (message) on odd.contact to odd_visitor;
grant usage on all sequences in schema odd to odd_visitor;
create table odd.letter (id int primary key, subject text, sealed text default 'wax', owner text);
grant select (id, subject), insert (id, subject), update (subject) on odd.letter to odd_visitor;
create table odd.t1 (t1 text primary key, t2 int, t3 "Ext ""ra".citext unique, "m""?" text);
insert into odd.t1 values ('a', 1, 'ABC', 'q'), ('b', 2, 'def', null), ('c', 1, 'GHI', null);
create index on odd.t1 (t2);
create function odd.t1_label(t1 odd.t1, t2 int default 7) returns text language sql stable as $$ select $1.t1 || ':' || $2 $$;
create function odd.t1_same(r odd.t1) returns setof odd.t1 language sql stable as $$ select * from odd.t1 x where x.t2 = r.t2 order by x.t1 $$;
create table odd.t2 (id int primary key, t1 text references odd.t1, note text);
insert into odd.t2 values (1, 'a', 'x'), (2, 'a', 'y'), (3, null, 'z');
create index on odd.t2 (t1);
create view odd.twice as select 1 as id, 'one' as name union all select 1, 'two' union all select 2, 'three';
comment on view odd.twice is '@primaryKey id';
create function odd.no_row() returns odd.t1 language plpgsql volatile as $$ declare r odd.t1; begin return r; end $$;
create function odd.gaps() returns setof odd.t1 language sql volatile as $$ select x from (values (1, (select t from odd.t1 t where t1 = 'a')), (2, null), (3, (select t from odd.t1 t where t1 = 'b'))) v(n, x) order by n $$;
create function odd.stable_gaps() returns setof odd.t1 language sql stable as $$ select x from (values (1, (select t from odd.t1 t where t1 = 'a')), (2, null), (3, (select t from odd.t1 t where t1 = 'b'))) v(n, x) order by n $$;
create sequence odd.calls;
create function odd.once() returns int language sql volatile as $$ select nextval('odd.calls')::int $$;
create function odd.pairs(out a int, out b text) returns setof record language sql volatile as $$ select i, 'b' || i from generate_series(1, 3) i $$;
create function odd.refer(out one odd.t1, out n int, out nobody odd.t1) language plpgsql volatile as $$ begin insert into odd.t2 values (90 + (select count(*) from odd.t2), 'b', 'new'); select * into one from odd.t1 where t1.t1 = 'b'; end $$;
create function odd.refers() returns table (one odd.t1, n int) language plpgsql volatile as $$ begin insert into odd.t2 values (90 + (select count(*) from odd.t2), 'c', 'new'); return query select x, null::int from odd.t1 x order by x.t1; end $$;
create function odd.sundry(out a char(4), out b inet, out c boolean, out d text[], out e numeric, out f text, out g odd.t1[], out h "Ext ""ra".citext, out i timestamptz, out j float8) language sql volatile as
	$$ select 'ab'::char(4), inet '10.0.0.1', true, array['x,y', null, '"{'], 1.50, E'{a,"b"}\n', array[(select t from odd.t1 t where t1 = 'a'), null], 'Ci'::"Ext ""ra".citext, '2024-02-03 04:05:06Z'::timestamptz, 0.1::float8 $$;
create function odd.words() returns setof text language sql volatile as $$ values ('one'), (null), ('three, "4"') $$;
create table odd.keyless (a int, b text);
insert into odd.keyless values (1, 'x'), (2, 'y'), (3, null);
grant select on odd.t1, odd.t2 to odd_visitor;
`

// oddSchema is an engine over it, and a session as role, "" for the superuser.
func oddSchema(t testing.TB, role string) (*Engine, *session) {
	t.Helper()
	database := pgtest.Database(t)
	pgtest.Exec(t, "postgres", "drop role if exists odd_visitor")
	pgtest.Exec(t, database, odd)
	t.Cleanup(func() {
		pgtest.Exec(t, database, "drop schema odd, \"Ext \"\"ra\" cascade; drop role odd_visitor")
	})
	s := connect(t, "postgres", database)
	e := New(schemaOf(t, s, "odd"), Options{})
	if role != "" {
		if _, err := s.c.Exec(t.Context(), "set role "+role).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	return e, s
}

// expect compares the data with JSON in which blanks do not matter.
func expect(t *testing.T, e *Engine, db DB, query, want string) {
	t.Helper()
	response, err := e.Execute(t.Context(), db, Request{Query: query, Variables: map[string]any{}})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if got := response.Data.String(); got != want || len(response.Errors) > 0 {
		t.Errorf("%s\ngave %s, %+v\nnot  %s", query, got, response.Errors, want)
	}
}

func TestARoleThatMayOnlyInsertInserts(t *testing.T) {
	e, db := oddSchema(t, "odd_visitor")
	expect(t, e, db, `mutation { createContact(input: { clientMutationId: "c", contact: { message: "hello" } }) { clientMutationId } }`,
		`{"createContact":{"clientMutationId":"c"}}`)
}

func TestAChangeReturnsOnlyTheColumnsThatAreAskedFor(t *testing.T) {
	e, db := oddSchema(t, "odd_visitor")
	expect(t, e, db, `mutation { createLetter(input: { letter: { rowId: 1, subject: "s" } }) { letter { rowId subject } letterEdge { node { id } } query { letterByRowId(rowId: 1) { subject } } } }`,
		`{"createLetter":{"letter":{"rowId":1,"subject":"s"},"letterEdge":{"node":{"id":"WyJMZXR0ZXIiLDFd"}},"query":{"letterByRowId":{"subject":"s"}}}}`)
	expect(t, e, db, `mutation { updateLetterByRowId(input: { rowId: 1, letterPatch: { subject: "u" } }) { letter { subject } } }`, `{"updateLetterByRowId":{"letter":{"subject":"u"}}}`)
}

func TestReadingTakesRightsToWhatIsReadAndNoMore(t *testing.T) {
	e, db := oddSchema(t, "odd_visitor")
	for i := range 3 {
		ask(t, e, db, fmt.Sprintf(`mutation { createLetter(input: { letter: { rowId: %d, subject: "s%[1]d" } }) { clientMutationId } }`, i), nil)
	}
	expect(t, e, db, `{ allLetters(first: 1, offset: 1) { nodes { subject } totalCount pageInfo { hasNextPage endCursor } } }`,
		`{"allLetters":{"nodes":[{"subject":"s1"}],"totalCount":3,"pageInfo":{"hasNextPage":true,"endCursor":"WyIyN2YzNWNiMTA0IiwxXQ=="}}}`)
	expect(t, e, db, `{ allLetters(last: 1) { nodes { id subject } } letterByRowId(rowId: 2) { subject } }`, `{"allLetters":{"nodes":[{"id":"WyJMZXR0ZXIiLDJd","subject":"s2"}]},"letterByRowId":{"subject":"s2"}}`)
}

func TestColumnsMayHaveTheNamesOfAliases(t *testing.T) {
	e, db := oddSchema(t, "")
	expect(t, e, db, `{ allT1S(orderBy: T2_DESC) { nodes { t1 t2 m label same { nodes { t1 } } t2SByT1 { totalCount nodes { t1ByT1 { label(t2: 8) } } } } } }`,
		`{"allT1S":{"nodes":[{"t1":"b","t2":2,"m":null,"label":"b:7","same":{"nodes":[{"t1":"b"}]},"t2SByT1":{"totalCount":0,"nodes":[]}},`+
			`{"t1":"c","t2":1,"m":null,"label":"c:7","same":{"nodes":[{"t1":"a"},{"t1":"c"}]},"t2SByT1":{"totalCount":0,"nodes":[]}},`+
			`{"t1":"a","t2":1,"m":"q","label":"a:7","same":{"nodes":[{"t1":"a"},{"t1":"c"}]},"t2SByT1":{"totalCount":2,"nodes":[{"t1ByT1":{"label":"a:8"}},{"t1ByT1":{"label":"a:8"}}]}}]}}`)
	expect(t, e, db, `mutation { updateT1ByT1(input: { t1: "b", t1Patch: { t2: 5 } }) { t1 { t1 label same { nodes { t2 } } } } }`,
		`{"updateT1ByT1":{"t1":{"t1":"b","label":"b:7","same":{"nodes":[{"t2":5}]}}}}`)
}

func TestTypesOfAnExtensionCompareAsTheirs(t *testing.T) {
	e, db := oddSchema(t, "")
	expect(t, e, db, `{ t1ByT3(t3: "aBc") { t1 t3 } allT1S(condition: { t3: "DEF" }) { nodes { t1 } } }`, `{"t1ByT3":{"t1":"a","t3":"ABC"},"allT1S":{"nodes":[{"t1":"b"}]}}`)
}

func TestAKeyThatIsUniqueByPromiseOnlyGivesOneRow(t *testing.T) {
	e, db := oddSchema(t, "")
	got := ask(t, e, db, `{ twiceByRowId(rowId: 1) { name } }`, nil)
	if name := at(got.Data, "twiceByRowId", "name"); name != "one" && name != "two" || len(got.Errors) > 0 {
		t.Errorf("got %+v", got)
	}
}

func TestRowsOfNullsAreNoRows(t *testing.T) {
	e, db := oddSchema(t, "")
	expect(t, e, db, `mutation { noRow(input: {}) { result { t1 label } t1Edge { cursor } } }`, `{"noRow":{"result":null,"t1Edge":null}}`)
	expect(t, e, db, `mutation { gaps(input: {}) { result { t1 label } } }`, `{"gaps":{"result":[{"t1":"a","label":"a:7"},null,{"t1":"b","label":"b:7"}]}}`)
	expect(t, e, db, `mutation { gaps(input: {}) { result { t1 } } }`, `{"gaps":{"result":[{"t1":"a"},null,{"t1":"b"}]}}`)
	expect(t, e, db, `{ stableGaps { nodes { t1 label } edges { node { t1 } } totalCount } }`,
		`{"stableGaps":{"nodes":[{"t1":"a","label":"a:7"},null,{"t1":"b","label":"b:7"}],"edges":[{"node":{"t1":"a"}},{"node":null},{"node":{"t1":"b"}}],"totalCount":3}}`)
}

func TestAFunctionIsCalledOnceHoweverOftenItsResultIsUsed(t *testing.T) {
	e, db := oddSchema(t, "")
	expect(t, e, db, `mutation { a: once(input: {}) { result again: result } b: once(input: {}) { clientMutationId } c: once(input: {}) { result } }`,
		`{"a":{"result":1,"again":1},"b":{"clientMutationId":null},"c":{"result":3}}`)
}

func TestSetsOfRecordsAndValuesArePayloads(t *testing.T) {
	e, db := oddSchema(t, "")
	expect(t, e, db, `mutation { pairs(input: {}) { result { b a } x: result { a } } words(input: {}) { result query { allKeylesses(first: 2) { nodes { a } pageInfo { endCursor hasNextPage } } } } }`,
		`{"pairs":{"result":[{"b":"b1","a":1},{"b":"b2","a":2},{"b":"b3","a":3}],"x":[{"a":1},{"a":2},{"a":3}]},`+
			`"words":{"result":["one",null,"three, \"4\""],"query":{"allKeylesses":{"nodes":[{"a":1},{"a":2}],"pageInfo":{"endCursor":"WyJuYXR1cmFsIiwyXQ==","hasNextPage":true}}}}}`)
}

func TestRelationsOfARecordThatAChangeGivesAreThoseAfterIt(t *testing.T) {
	e, db := oddSchema(t, "")
	expect(t, e, db, `mutation { refer(input: {}) { result { n one { t1 t2SByT1 { totalCount nodes { note } } } nobody { t1 } } } }`,
		`{"refer":{"result":{"n":null,"one":{"t1":"b","t2SByT1":{"totalCount":1,"nodes":[{"note":"new"}]}},"nobody":null}}}`)
	expect(t, e, db, `mutation { refers(input: {}) { result { one { t1 label t2SByT1 { totalCount } } } again: result { n } } }`,
		`{"refers":{"result":[{"one":{"t1":"a","label":"a:7","t2SByT1":{"totalCount":2}}},{"one":{"t1":"b","label":"b:7","t2SByT1":{"totalCount":1}}},{"one":{"t1":"c","label":"c:7","t2SByT1":{"totalCount":1}}}],`+
			`"again":[{"n":null},{"n":null},{"n":null}]}}`)
}

func TestARecordArrivesAsItWasGiven(t *testing.T) {
	e, db := oddSchema(t, "")
	if _, err := db.c.Exec(t.Context(), "set timezone = 'UTC'").ReadAll(); err != nil {
		t.Fatal(err)
	}
	expect(t, e, db, `mutation { sundry(input: {}) { result { a b c d e f g { t1 } h i j } } }`,
		`{"sundry":{"result":{"a":"ab  ","b":"10.0.0.1","c":true,"d":["x,y",null,"\"{"],"e":"1.50","f":"{a,\"b\"}\n","g":[{"t1":"a"},null],"h":"Ci","i":"2024-02-03T04:05:06.000000+00:00","j":0.1}}}`)
}

func TestTablesWithoutKeyArePagedByPosition(t *testing.T) {
	e, db := oddSchema(t, "")
	expect(t, e, db, `{ allKeylesses(last: 2) { nodes { a } edges { cursor } pageInfo { hasPreviousPage } } }`,
		`{"allKeylesses":{"nodes":[{"a":2},{"a":3}],"edges":[{"cursor":"WyJuYXR1cmFsIiwyXQ=="},{"cursor":"WyJuYXR1cmFsIiwzXQ=="}],"pageInfo":{"hasPreviousPage":true}}}`)
	expect(t, e, db, `{ allKeylesses(after: "WyJuYXR1cmFsIiwyXQ==") { nodes { b a } } }`, `{"allKeylesses":{"nodes":[{"b":null,"a":3}]}}`)
}

// shedding lets so many transactions through and sheds the others.
type shedding struct {
	DB
	left int
}

var errShed = errors.New("shed")

func (s *shedding) DoAll(ctx context.Context, statements []Statement) error {
	if s.left--; s.left < 0 {
		return errShed
	}
	return s.DB.DoAll(ctx, statements)
}

func TestNothingIsAnsweredByAnErrorOnceSomethingIsDone(t *testing.T) {
	e, db := oddSchema(t, "")
	const query = `mutation { a: once(input: {}) { result } b: once(input: {}) { result } }`
	response, err := e.Execute(t.Context(), &shedding{db, 1}, Request{Query: query})
	if err != nil {
		t.Fatalf("the first field is done, and the client is told to try all again: %v", err)
	}
	if response.Data.String() != `{"a":{"result":1},"b":null}` || len(response.Errors) != 1 || !errors.Is(response.Errors[0].Cause, errShed) || response.Errors[0].Extensions["code"] != CodeNotDone {
		t.Errorf("got %s, %+v", response.Data, response.Errors)
	}
	if _, err = e.Execute(t.Context(), &shedding{db, 0}, Request{Query: query}); !errors.Is(err, errShed) {
		t.Errorf("nothing is done, and the answer is %v", err)
	}
}

func TestWhatFailsInAPayloadIsEitherUndoneOrAnswered(t *testing.T) {
	e, db := oddSchema(t, "")
	if _, err := db.c.Exec(t.Context(), "create or replace function odd.t1_label(t1 odd.t1, t2 int default 7) returns text language sql stable as 'select (1 / 0)::text'").ReadAll(); err != nil {
		t.Fatal(err)
	}
	got := ask(t, e, db, `mutation { createT1(input: { t1: { t1: "new" } }) { t1 { t1 label } } }`, nil)
	there := at(ask(t, e, db, `{ t1ByT1(t1: "new") { t1 } }`, nil).Data, "t1ByT1") != nil
	if len(got.Errors) != 1 || there != (at(got.Data, "createT1") != nil) {
		t.Errorf("the row is there: %v; the answer is %+v", there, got)
	}
}

// losing loses the first transaction when it was sent, and sheds the others.
type losing struct{ lost bool }

func (l *losing) DoAll(context.Context, []Statement) error {
	if l.lost {
		return errShed
	}
	l.lost = true
	return fmt.Errorf("%w: the line is dead", ErrUnknown)
}

func TestAFieldThatMayBeDoneIsSaidToBeUnknownAndNotOneToTryAgain(t *testing.T) {
	e, _ := oddSchema(t, "")
	response, err := e.Execute(t.Context(), &losing{}, Request{Query: `mutation { a: once(input: {}) { result } b: once(input: {}) { result } }`})
	if err != nil {
		t.Fatalf("something may be done, and the client is told to try again: %v", err)
	}
	if response.Data.String() != `{"a":null,"b":null}` || len(response.Errors) != 2 || response.Errors[0].Extensions["code"] != CodeUnknown || response.Errors[1].Extensions["code"] != CodeNotDone {
		t.Errorf("got %s, %+v", response.Data, response.Errors)
	}
}

func TestAClientThatHasLeftIsToldNothing(t *testing.T) {
	e, _ := oddSchema(t, "")
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if r, err := e.Execute(ctx, &losing{}, Request{Query: `mutation { a: once(input: {}) { result } b: once(input: {}) { result } }`}); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v, %+v", err, r)
	}
}
