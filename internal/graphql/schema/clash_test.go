package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestWhatClashesIsRenamedWithAWarningAndNothingVanishes(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a;
		create domain a.date as text; create type a.childs as enum ('x'); create type a.post_patch as (a int); comment on type a.childs is '@name child';
		create table a.child(id int primary key, row_id int, "ID" int, "ä" int, a int, kind a.childs, day a.date);
		create table a.children(id int primary key);
		create table a.post(id int primary key, p a.post_patch); create table a.post_connection(id int primary key);
		create function a.many(a_b int, "aB" int) returns int language sql stable as 'select 1';
		create function a.create_post() returns int language sql volatile as 'select 1'`)
	s := schemaOf(t, "postgres", database, "a")
	warnings := strings.Join(s.Warnings(), "\n")
	for name, kind := range map[string]Kind{"Child": Object, "ChildRecord": Object, "ChildRecord2": Enum, "DateRecord": Scalar, "Post": Object, "PostConnection": Object,
		"PostConnectionRecord": Object, "PostPatchRecord": Object} {
		typ := s.Type(name)
		if typ == nil || typ.Kind != kind {
			t.Errorf("type %s: %+v", name, typ)
		}
	}
	child := s.Type("Child")
	var names []string
	for _, f := range child.Fields {
		names = append(names, f.Name)
	}
	if want := []string{"id", "rowId", "rowId2", "rowId3", "a", "a2", "kind", "day"}; !slices.Equal(names, want) {
		t.Errorf("fields %v, want %v", names, want)
	}
	if f := child.Field("kind"); f.Type.Name != "ChildRecord2" {
		t.Errorf("kind is of type %s", f.Type)
	}
	if args := s.RootField("Query", "many").Args; args[0].Name != "aB" || args[1].Name != "aB_2" || args[1].Bind.Index != 1 {
		t.Errorf("%+v", args)
	}
	if f := s.RootField("Mutation", "createPost"); f.Bind.Op != OpProcMutation || s.Type("CreatePostInput").Input("post") != nil {
		t.Errorf("createPost is half a function: %+v", f)
	}
	for _, part := range []string{"table a.children is called ChildRecord", `column "row_id" of a.child is called rowId2`, "type a.date is called DateRecord", "function a.create_post has that name"} {
		if !strings.Contains(warnings, part) {
			t.Errorf("no warning says %q:\n%s", part, warnings)
		}
	}
}

func TestFieldsComeOneByOneAsTheyComeTogether(t *testing.T) {
	s := schemaOf(t, "forum_owner", pgtest.Load(t, "../testdata/forum/schema.sql"), "app_public")
	for _, name := range []string{"Query", "Mutation", "Post", "Nothing"} {
		var got, want []string
		for f := range s.FieldsOf(name) {
			got = append(got, f.Name)
		}
		if typ := s.Type(name); typ != nil {
			for _, f := range typ.Fields {
				want = append(want, f.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		for range s.FieldsOf(name) {
			break // which ends the walk
		}
	}
}
