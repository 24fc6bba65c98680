package schema

import (
	"bytes"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

const textType, enumTypeID, rowTypeID = 1, 2, 3

// twoTables is a catalog of two tables, the second referring to the first, with an enum and a function.
func twoTables(table, other, column, label, function, comment string) *catalog.Catalog {
	const all = catalog.Select | catalog.Insert | catalog.Update | catalog.Delete | catalog.Execute
	const can = catalog.CanSelect | catalog.CanInsert | catalog.CanUpdate | catalog.Indexed
	return &catalog.Catalog{
		Schemas: []string{"s"}, Exposed: 1,
		Classes: []catalog.Class{{},
			{OID: 1, Name: table, Comment: comment, Kind: 'r', Privileges: all, Updatable: all, Type: rowTypeID, Columns: catalog.Range{From: 0, N: 2}, Keys: catalog.Range{From: 0, N: 1}},
			{OID: 2, Name: other, Kind: 'r', Privileges: all, Updatable: all, Columns: catalog.Range{From: 2, N: 2}, Keys: catalog.Range{From: 1, N: 1}},
		},
		Columns: []catalog.Column{
			{Name: "id", Type: textType, Number: 1, Flags: can | catalog.NotNull}, {Name: column, Type: enumTypeID, Number: 2, Flags: can},
			{Name: column, Type: textType, Number: 1, Flags: can}, {Name: label, Type: textType, Number: 2, Flags: can},
		},
		Keys: []catalog.Key{{Class: 1, Numbers: catalog.Range{From: 0, N: 1}, Primary: true}, {Class: 2, Numbers: catalog.Range{From: 0, N: 1}}},
		ForeignKeys: []catalog.ForeignKey{{Name: "f", Comment: comment, Class: 2, Foreign: 1, Numbers: catalog.Range{From: 1, N: 1},
			ForeignNumbers: catalog.Range{From: 0, N: 1}, Indexed: true}},
		Types: []catalog.Type{{}, {OID: 25, Name: "text", Kind: 'b', Schema: 0},
			{Name: label, Comment: comment, Kind: 'e', Labels: catalog.Range{From: 0, N: 2}}, {Name: table, Kind: 'c', Class: 1}},
		Procs: []catalog.Proc{{Name: function, Comment: comment, Volatility: 's', Set: true, Privileges: all, Returns: rowTypeID, Args: catalog.Range{From: 0, N: 1}}},
		Args:  []catalog.Arg{{Name: column, Type: textType, Mode: 'i'}}, Numbers: []int16{1, 2}, Labels: []string{label, column},
	}
}

// Whatever a tenant calls its tables, the schema is one that a client can read, or an error says which comment is wrong.
func FuzzNew(f *testing.F) {
	f.Add("post", "comment", "body", "up", "search_posts", "@behavior -insert\ntext")
	f.Add("Query", "query", "__x", "N/A", "node", "@name query")
	f.Add("post", "posts", "id", "row_id", "all_posts", "@deprecated\n@fieldName a b")
	f.Add("post", "post_connection", "", "*", "post", "@name 1\n\"\"\"")
	f.Fuzz(func(t *testing.T, table, other, column, label, function, comment string) {
		s, err := New(twoTables(table, other, column, label, function, comment))
		if err != nil {
			return
		}
		var sdl bytes.Buffer
		if err := s.WriteSDL(&sdl); err != nil {
			t.Fatal(err)
		}
		if _, err := gqlparser.LoadSchema(&ast.Source{Input: sdl.String()}); err != nil {
			t.Errorf("%v\n%s", err, sdl.String())
		}
	})
}
