package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// builtins are tables, and what the type of a row is called beside columns of the types that they are called like. PostGraphile 5.1.5
// has the same names for those that it serves. It makes one type of the two otherwise, without the table's columns, and does not start
// for queries.
var builtins = []struct{ table, rows string }{
	{"intervals", "IntervalRecord"}, {"points", "Point"}, {"queries", "QueryRecord"}, {"mutations", "MutationRecord"}, {"nodes", "NodeRecord"}, {"page_infos", "PageInfoRecord"},
	{"dates", "DateRecord"}, {"strings", "StringRecord"}, {"ints", "IntRecord"}, {"uuids", "Uuid"}, {"jsons", "Json"}, {"cursors", "CursorRecord"}, {"ids", "Id"},
	{"floats", "FloatRecord"}, {"booleans", "BooleanRecord"}, {"times", "TimeRecord"}, {"datetimes", "DatetimeRecord"}, {"big_ints", "BigIntRecord"}, {"big_floats", "BigFloatRecord"},
}

func TestATableThatIsCalledLikeABuiltInTypeHasAllThatATableHas(t *testing.T) {
	database := pgtest.Database(t)
	sql := "create schema a;"
	for _, b := range builtins {
		sql += strings.ReplaceAll(`create table a.T (id int primary key, name text); create index on a.T (name);
			create table a.of_T (id int primary key, owner_id int references a.T); create index on a.of_T (owner_id);`, "T", b.table)
	}
	pgtest.Exec(t, database, sql+`create table a.thing (id int primary key, iv interval, pt point, d date, u uuid, j json, t text, f float8, b boolean, ti time, ts timestamptz, i8 int8, n numeric)`)
	s := schemaOf(t, "postgres", database, "a")
	var sdl strings.Builder
	if err := s.WriteSDL(&sdl); err != nil {
		t.Fatal(err)
	}
	loaded, err := gqlparser.LoadSchema(&ast.Source{Input: sdl.String()})
	if err != nil {
		t.Fatal(err)
	}
	warnings := strings.Join(s.Warnings(), "\n")
	for _, b := range builtins {
		plain := strings.TrimSuffix(b.rows, "Record") == b.rows
		if told := strings.Contains(warnings, "table a."+b.table+" is called "+b.rows); told == plain {
			t.Errorf("%s: told of %v: %s", b.table, told, warnings)
		}
		for name, fields := range wholeTable(b.rows) {
			typ := loaded.Types[name]
			for _, f := range fields {
				if typ == nil || typ.Fields.ForName(f) == nil {
					t.Errorf("%s: %s has no %s", b.table, name, f)
				}
			}
		}
	}
	for field, name := range map[string]string{"iv": "Interval", "pt": "PointRecord", "d": "Date", "u": "UUID", "j": "JSON", "t": "String", "f": "Float", "b": "Boolean", "ti": "Time", "ts": "Datetime", "i8": "BigInt", "n": "BigFloat"} {
		if typ := loaded.Types["Thing"].Fields.ForName(field).Type.Name(); typ != name {
			t.Errorf("a column is of type %s, want %s", typ, name)
		}
	}
	for _, w := range s.Warnings() { // Query.id is always there, as it is at PostGraphile
		if !slices.ContainsFunc([]string{"is called", "is not called", "query id of table a.ids is left out"}, func(part string) bool { return strings.Contains(w, part) }) {
			t.Error(w)
		}
	}
}

// wholeTable is all types of a table, with fields that each must have.
func wholeTable(rows string) map[string][]string {
	field := strings.ToLower(rows[:1]) + rows[1:]
	return map[string][]string{
		rows: {"id", "rowId", "name"}, rows + "Connection": {"nodes"}, rows + "Edge": {"node"}, rows + "Condition": {"name"}, rows + "Input": {"name"}, rows + "Patch": {"name"},
		"Create" + rows + "Payload": {field}, "Update" + rows + "Payload": {field}, "Delete" + rows + "Payload": {field},
		"Query":    {field + "ByRowId"},
		"Mutation": {"create" + rows, "update" + rows, "update" + rows + "ByRowId", "delete" + rows, "delete" + rows + "ByRowId"},
	}
}
