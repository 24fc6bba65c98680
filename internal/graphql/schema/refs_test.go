package schema

import (
	"os"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestPathsOfRelationsMakeTheFieldsOfPostGraphile(t *testing.T) {
	want, err := os.ReadFile("../testdata/refs.graphql")
	if err != nil {
		t.Fatal(err)
	}
	wanted, got := members(string(want)), members(sdlOf(t, schemaOf(t, "postgres", pgtest.Load(t, "../testdata/refs.sql"), "app")))
	for _, name := range namesOf(wanted, got) {
		if wanted[name] != got[name] {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got[name], wanted[name])
		}
	}
}

func TestARefThatLeadsNowhereIsLeftOutAndSaysWhy(t *testing.T) {
	database := pgtest.Load(t, "../testdata/refs.sql")
	pgtest.Exec(t, database, `create schema hidden; create table hidden.x(id int primary key)`)
	for value, want := range map[string]string{
		"a-b via:teams":               "none in GraphQL",
		"a singular plural via:teams": "both singular and plural",
		"a":                           "no path",
		"a via:(":                     "not understood",
		"a via:(org_id)teams":         "not understood",
		"a via:hidden.x":              "not exposed",
		"a via:tags":                  "no such relation",
		"a via:(id)->teams(name)":     "no such relation",
		"a via:teams;people;teams;orgs;(id)->tags":       "no such relation",
		"a to:Team via:teams;people":                     "interfaces and unions",
		"a from:Team via:teams;people":                   "interfaces and unions",
		"name singular via:teams;people":                 "another field",
		"a plural via:teams\n@refVia a via:teams;people": "different tables",
		"a via:teams\n@ref a via:teams":                  "another of that name",
	} {
		pgtest.Exec(t, database, "comment on table app.orgs is E'@ref "+strings.ReplaceAll(value, "\n", `\n`)+"'")
		s := schemaOf(t, "postgres", database, "app")
		if w := strings.Join(s.Warnings(), "\n"); !strings.Contains(w, want) || !strings.Contains(w, "table app.orgs") {
			t.Errorf("%s: %q", value, w)
		}
	}
	for value, want := range map[string]string{"@refVia b via:teams": "no @ref of that name"} {
		pgtest.Exec(t, database, "comment on table app.orgs is '"+value+"'")
		if w := strings.Join(schemaOf(t, "postgres", database, "app").Warnings(), "\n"); !strings.Contains(w, want) {
			t.Errorf("%s: %q", value, w)
		}
	}
	pgtest.Exec(t, database, "comment on table app.orgs is null; comment on table app.people is '@ref o via:teams;orgs'; comment on table app.tasks is '@ref p singular via:people'")
	w := strings.Join(schemaOf(t, "postgres", database, "app").Warnings(), "\n")
	if !strings.Contains(w, "write singular") || !strings.Contains(w, "several relations from app.tasks to app.people") {
		t.Error(w)
	}
}

func FuzzRef(f *testing.F) {
	f.Add(`org to:Org singular via:(person_id)->people(id);(team_id)->"Te ams"(id) behavior:"+list -connection"`)
	f.Add(`a via:"b.c; (d, e)->f"`)
	f.Add(`:"`)
	f.Fuzz(func(t *testing.T, value string) {
		r := parseRef(value)
		if strings.ContainsAny(r.name, ":") {
			t.Errorf("%q has the name %q", value, r.name)
		}
		if steps, ok := parsePath(r.params["via"]); ok {
			for _, s := range steps {
				if s.table == "" || s.near == nil && s.far != nil {
					t.Errorf("%q is %+v", value, steps)
				}
			}
		}
	})
}
