package schema

import (
	"os"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestEveryBuiltInTypeIsCalledAsPostGraphileCallsIt(t *testing.T) {
	want, err := os.ReadFile("../testdata/types.graphql")
	if err != nil {
		t.Fatal(err)
	}
	wanted, got := members(string(want)), members(sdlOf(t, schemaOf(t, "postgres", pgtest.Load(t, "../testdata/types.sql"), "app")))
	for _, name := range namesOf(wanted, got) {
		if wanted[name] != got[name] {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got[name], wanted[name])
		}
	}
}

func TestATableThatIsCalledLikeAShapeKeepsItsNameAndTheShapeGetsAnother(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create table a.points(id int primary key, name text); create table a.circles(id int primary key, at point, way path)`)
	s := schemaOf(t, "postgres", database, "a")
	if typ := s.Type("Point"); typ == nil || typ.Field("name") == nil {
		t.Errorf("%+v", typ)
	}
	at := s.Type("Circle").Field("at").Type.Name
	if typ := s.Type(at); at == "Point" || typ == nil || typ.Field("x") == nil {
		t.Errorf("a point is %s: %+v", at, typ)
	}
	if typ := s.Type(at + "Input"); typ == nil || typ.Input("x") == nil {
		t.Errorf("%+v", typ)
	}
	if typ := s.Type("Path"); typ.Field("points").Type.Name != at || s.Type("PathInput").Input("points").Type.Name != at+"Input" {
		t.Errorf("%+v", typ)
	}
	if w := strings.Join(s.Warnings(), "\n"); !strings.Contains(w, "pg_catalog.point") || !strings.Contains(w, "a.points") {
		t.Error(w)
	}
}

func TestTablesCalledLikeShapesKeepTheirNamesWhereThereAreNoShapes(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create table a.points(id int primary key); create table a.lines(id int primary key); create table a.circles(id int primary key)`)
	s := schemaOf(t, "postgres", database, "a")
	for _, name := range []string{"Point", "Line", "Circle"} {
		if typ := s.Type(name); typ == nil || typ.Field("rowId") == nil {
			t.Errorf("%s is %+v", name, typ)
		}
	}
	if len(s.Warnings()) > 0 {
		t.Error(s.Warnings())
	}
}

func TestWhatOnlySearchEnginesReadIsNotShownInArraysEither(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create table a.page(id int primary key, words tsvector, all_words tsvector[], asked tsquery[])`)
	if typ := schemaOf(t, "postgres", database, "a").Type("Page"); len(typ.Fields) != 2 {
		t.Errorf("%+v", typ.Fields)
	}
}
