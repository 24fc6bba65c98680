package schema

import (
	"os"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestTablesThatAreEnumsMakeTheSchemaOfPostGraphile(t *testing.T) {
	want, err := os.ReadFile("../testdata/enums.graphql")
	if err != nil {
		t.Fatal(err)
	}
	s := schemaOf(t, "postgres", pgtest.Load(t, "../testdata/enums.sql"), "app")
	wanted, got := members(string(want)), members(sdlOf(t, s))
	for _, name := range namesOf(wanted, got) {
		if wanted[name] != got[name] {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got[name], wanted[name])
		}
	}
	if len(s.Warnings()) > 0 {
		t.Error(s.Warnings())
	}
}

func TestATableThatCannotBeAnEnumIsServedAsATableAndWarnedOf(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a;
		create table a.levels(n int primary key); insert into a.levels values (1); comment on table a.levels is '@enum';
		create table a.keyless(code text); comment on table a.keyless is '@enum';
		create table a.empties(code text primary key); comment on table a.empties is '@enum';
		create table a.users(id int primary key, level int references a.levels, empty text references a.empties);
		create domain a.lost as text; comment on domain a.lost is '@enum nowhere';
		create domain a.number as int; comment on domain a.number is '@enum levels';
		create table a.uses(id int primary key, lost a.lost, number a.number)`)
	s := schemaOf(t, "postgres", database, "a")
	user := s.Type("User")
	if user.Field("level").Type.Name != "Int" || user.Field("levelByLevel") == nil || user.Field("empty").Type.Name != "String" || user.Field("emptyByEmpty") != nil {
		t.Errorf("%+v", user.Fields)
	}
	if s.Type("Level") == nil || s.Type("Keyless") == nil || s.Type("Empty") != nil {
		t.Error("a table is lost, or one without rows is shown")
	}
	warned := strings.Join(s.Warnings(), "\n")
	for _, want := range []string{"a.levels", "a.keyless", "a.empties", "type a.lost", "type a.number"} {
		if !strings.Contains(warned, want) {
			t.Errorf("nothing is said of %s:\n%s", want, warned)
		}
	}
}

func TestAwkwardLabelsOfTablesAreRenamedAsThoseOfEnumsAre(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create table a.kind(code text primary key); comment on table a.kind is '@enum'; insert into a.kind values ('N/A'), ('n a'), ('true');
		create type a.kind_type as enum ('x'); comment on type a.kind_type is '@name kind'; create table a.thing(id int primary key, kind text references a.kind, other a.kind_type)`)
	s := schemaOf(t, "postgres", database, "a")
	thing := s.Type("Thing")
	kind, other := s.Type(thing.Field("kind").Type.Name), s.Type(thing.Field("other").Type.Name)
	if kind == nil || other == nil || kind.Name == other.Name || len(kind.Values) != 3 || len(other.Values) != 1 {
		t.Fatalf("%+v %+v", kind, other)
	}
	names := ""
	for _, v := range kind.Values {
		names += v.Name + "=" + v.Label + " "
	}
	if names != "N_A=N/A n_a=n a _true=true " {
		t.Error(names)
	}
	if w := strings.Join(s.Warnings(), "\n"); !strings.Contains(w, `"N/A" of table a.kind`) {
		t.Error(w)
	}
}

func TestAFunctionThatGivesRowsOfAnEnumIsLeftOutAndWarnedOf(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create table a.kind(code text primary key); comment on table a.kind is '@enum'; insert into a.kind values ('x');
		create function a.kinds() returns setof a.kind language sql stable as 'select * from a.kind'; create function a.name_of(k a.kind) returns text language sql stable as 'select k.code'`)
	s := schemaOf(t, "postgres", database, "a")
	for f := range s.FieldsOf("Query") {
		if f.Name == "kinds" || f.Name == "nameOf" {
			t.Errorf("%+v", f)
		}
	}
	if w := strings.Join(s.Warnings(), "\n"); !strings.Contains(w, "a.kinds") {
		t.Error(w)
	}
}
