package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestATagThatPostGraphileKnowsAndThatDoesNothingHereIsWarnedOfByWhatItIsOn(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create table a.item(id int primary key, kind text, constraint u unique (kind)); create type a.c as (x int); create function a.f() returns int language sql stable as 'select 1';
		create function a.g(s a.c) returns int language sql volatile as 'select 1'; comment on function a.g(a.c) is '@arg0variant base';
		create table a.sub(id int primary key references a.item, c a.c); comment on constraint sub_id_fkey on a.sub is '@foreignSimpleFieldName x'; comment on constraint u on a.item is '@omit';
		comment on table a.item is E'@interface mode:relational type:kind\n@type X references:sub\n@nodeIdCodec base64JSON'; comment on column a.item.kind is E'@sortable\n@filterable'; comment on type a.c is '@interface mode:union';
		comment on function a.f() is '@returnType X'; comment on table a.sub is E'@unionMember U\n@implements V\n@nodeIdCodec raw\n@partitionExpose both\n@simpleCollections only\n@uniqueKey c\n@deprecation x\nThe text may say @omit.'`)
	for i := range 9 {
		pgtest.Exec(t, database, fmt.Sprintf("create table a.t%d(id int primary key); comment on table a.t%[1]d is '@omit'", i))
	}
	warned := schemaOf(t, "postgres", database, "a").Warnings()
	for tag, of := range map[string]string{"interface": "table a.item, type a.c", "type": "table a.item", "unionMember": "table a.sub", "implements": "table a.sub", "returnType": "function a.f",
		"nodeIdCodec": "table a.sub", "partitionExpose": "table a.sub", "simpleCollections": "table a.sub", "uniqueKey": "table a.sub", "deprecation": "table a.sub",
		"sortable": "column a.item.kind", "filterable": "column a.item.kind", "foreignSimpleFieldName": "constraint sub_id_fkey of a.sub", "omit": "and 5 more", "arg0variant": "function a.g"} {
		found := ""
		for _, w := range warned {
			if strings.HasPrefix(w, "tag @"+tag+" of ") {
				found += w
			}
		}
		if !strings.Contains(found, of) || strings.Count(found, "tag @") != 1 || tag == "nodeIdCodec" && strings.Contains(found, "a.item") {
			t.Errorf("@%s: %q in %q", tag, found, warned)
		}
	}
	if len(warned) != 15 {
		t.Errorf("%d: %q", len(warned), warned)
	}
}

func TestBehaviorMayBeSpelledAsPostGraphileReadsIt(t *testing.T) {
	for _, name := range []string{"behavior", "behaviour", "behaviors", "behaviours"} {
		tags, _ := parseComment("@" + name + " -insert")
		if matches("resource:insert", true, tags) {
			t.Errorf("@%s is not read", name)
		}
	}
}

func TestAColumnThatSaysThatItHasADefaultNeedNotBeGiven(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create table a.item(id int primary key, made text not null, other text not null); comment on column a.item.made is '@hasDefault'`)
	in := schemaOf(t, "postgres", database, "a").Type("ItemInput")
	if in.Input("made").Type.NonNull || !in.Input("other").Type.NonNull {
		t.Errorf("%+v", in.Inputs)
	}
}
