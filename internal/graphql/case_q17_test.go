package graphql

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// telling are words of the database, the code or the secrets of these tests that no client may read.
var telling = []string{"the-secret", "4711", "select", "insert into", "127.0.0.1", "localhost", "app:", "pa55word", "goroutine", ".go:", "note_pkey", "(id)", "key value",
	"row-level", "policy", "plpgsql", "nil pointer", "no_such", "connection", "authentication", "violates", "division"}

// masked holds that an answer says nothing of its cause, and returns the line of the log that has its id.
func (c *caseRig) masked(a answered, status int, code string) (line string) {
	c.Helper()
	if a.status != status || a.code() != code {
		c.Errorf("%d %s, want %d %s: %s", a.status, a.code(), status, code, a.text)
	}
	for _, word := range telling {
		if strings.Contains(strings.ToLower(a.text), word) {
			c.Errorf("%q is told: %s", word, a.text)
		}
	}
	id := regexp.MustCompile(`log as ([0-9a-f]{16})\.`).FindStringSubmatch(a.text)
	if id == nil {
		c.Errorf("there is no id: %s", a.text)
		return ""
	}
	for line := range strings.Lines(c.log.String()) {
		if strings.Contains(line, "id="+id[1]) {
			return line
		}
	}
	c.Errorf("the log does not have %s", id[1])
	return ""
}

func TestQ17ErrorsOfTheDatabaseAreAnIDThatIsInTheLog(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta")+`create table ta.link(id int primary key, note_id bigint references ta.note deferrable initially deferred); insert into ta.link values (4711); grant select, insert on ta.link to visitor;`)
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}})
	for _, e := range []struct{ query, inTheLog string }{
		{`{ fails(kind: "cast") }`, "the-secret-4711"},
		{`{ fails(kind: "zero") }`, "division by zero"},
		{`{ fails(kind: "raise own") }`, "own kind"},
		{`mutation { createNote(input: {note: {rowId: "1", owner: "u1"}}) { clientMutationId } }`, "note_pkey"},
		{`mutation { createLink(input: {link: {rowId: 4711}}) { clientMutationId } }`, "Key (id)=(4711) already exists"},
		{`mutation { createNote(input: {note: {rowId: "7", owner: "u2"}}) { clientMutationId } }`, "row-level security"},
		{`mutation { createLink(input: {link: {rowId: 1, noteId: "4711"}}) { clientMutationId } }`, "Key (note_id)=(4711) is not present"},
	} {
		a := c.ask("ta", e.query, sub(t, "u1"))
		if line := c.masked(a, http.StatusOK, "DATABASE_ERROR"); !strings.Contains(line, e.inTheLog) {
			t.Errorf("%s: the log has %q", e.query, line)
		}
	}
}

func TestQ17ADatabaseThatCannotBeReachedIsNotNamed(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	refused := visitors(t, database, "refused")
	refused.DatabaseURL = "postgres://app:pa55word@127.0.0.1:1/no_such_database?sslmode=disable"
	absent := visitors(t, "no_such_database", "absent")
	stranger := visitors(t, database, "stranger")
	stranger.DatabaseURL = pgtest.Server(t).URL("no_such_login", database)
	c := startCase(t, Options{Tenants: []Tenant{refused, absent, stranger}})
	for name, inTheLog := range map[string]string{"refused": "connection refused", "absent": "no_such_database", "stranger": "no_such_login"} {
		for range 20 { // requests meet one outage, and the log does not repeat itself
			a := c.ask(name, allNotes)
			if line := c.masked(a, http.StatusServiceUnavailable, CodeUnavailable); !a.turnedAway() || !strings.Contains(line, inTheLog) {
				t.Errorf("%s: %s: the log has %q", name, a.text, line)
			}
		}
	}
	if n := strings.Count(c.log.String(), "cannot connect to PostgreSQL"); n != 3 || strings.Contains(c.log.String(), "pa55word") {
		t.Errorf("%d records: %s", n, c.log.String())
	}
}

func TestQ17AFaultOfOursIsAnIDThatIsInTheLogWithItsStack(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	missing := visitors(t, database, "no_such_schema")
	missing.Name = "missing"
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta"), missing}})
	if line := c.masked(c.ask("missing", allNotes), http.StatusInternalServerError, "INTERNAL_ERROR"); !strings.Contains(line, "no_such_schema") {
		t.Errorf("the log has %q", line)
	}
	good := c.service.byName["ta"].verifier
	c.service.byName["ta"].verifier = nil
	if line := c.masked(c.ask("ta", allNotes), http.StatusInternalServerError, "INTERNAL_ERROR"); !strings.Contains(line, "nil pointer") || !strings.Contains(line, "goroutine") {
		t.Errorf("the log has %q", line)
	}
	c.service.byName["ta"].verifier = good
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	if used := c.service.gates.requests.Stats().InUse; used != 0 {
		t.Errorf("%d permits are held after the panic", used)
	}
}

func TestQ17WhatIsListedShowsMessageHintAndCode(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	for _, listed := range [][]string{nil, {"LV001"}} {
		c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, PassErrors: listed})
		shown, other, want := "raise", "raise own", [3]string{"no more than three", "ask for two", "P0001"}
		if listed != nil {
			shown, other, want = other, shown, [3]string{"own kind", "own hint", "LV001"}
		}
		a := c.ask("ta", fmt.Sprintf(`{ fails(kind: %q) }`, shown))
		if len(a.Errors) != 1 || [3]any{a.Errors[0].Message, a.Errors[0].Extensions["hint"], a.Errors[0].Extensions["code"]} != [3]any{want[0], want[1], want[2]} {
			t.Errorf("%d %s", a.status, a.text)
		}
		if strings.Contains(a.text, "detail") || strings.Contains(a.text, "PL/pgSQL") {
			t.Errorf("more is shown: %s", a.text)
		}
		c.masked(c.ask("ta", fmt.Sprintf(`{ fails(kind: %q) }`, other)), http.StatusOK, "DATABASE_ERROR")
	}
}

func TestQ17WithoutIntrospectionNothingIsSuggested(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	guesses := []string{`{ allNote { nodes { rowId } } }`, `{ allNotes { nodes { bodi } } }`, `{ allNotes(frst: 1) { nodes { body } } }`, `{ allNotes(orderBy: [PRIMARY_KEY_AS]) { nodes { body } } }`,
		`mutation { createNote(input: {not: {rowId: "1"}}) { clientMutationId } }`, `{ nap(second: 1) }`, `query ($a: NoteInpu) { who }`, `{ ... on Querry { who } }`, `{ __schema { types { name } } }`, `{ __type(name: "Note") { name } }`}
	for _, off := range []bool{false, true} {
		c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, Limits: document.Limits{NoIntrospection: off}})
		suggestions := 0
		for _, query := range guesses {
			a := c.ask("ta", query)
			suggestions += strings.Count(a.text, "Did you mean")
			if off && (len(a.Errors) == 0 || a.Data != nil) {
				t.Errorf("%s is answered: %s", query, a.text)
			}
		}
		if (suggestions > 0) == off {
			t.Errorf("introspection off %v: %d suggestions", off, suggestions)
		}
	}
}
