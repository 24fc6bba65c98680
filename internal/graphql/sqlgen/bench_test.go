package sqlgen

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
)

// replay is a DB that answers every statement with the row that the true one gave.
type replay struct {
	DB
	row [][]byte
}

func (r *replay) DoAll(ctx context.Context, statements []Statement) error {
	if r.row == nil {
		each := statements[0].Each
		statements = slices.Clone(statements)
		statements[0].Each = func(row [][]byte) error {
			for _, v := range row {
				r.row = append(r.row, slices.Clone(v))
			}
			return each(row)
		}
		return r.DB.DoAll(ctx, statements)
	}
	return statements[0].Each(r.row)
}

func BenchmarkExecute(b *testing.B) {
	e, s := forum(b, Options{})
	for _, c := range []struct {
		name, query string
		vars        map[string]any
	}{
		{"look-up", `query($id: Int!) { postByRowId(rowId: $id) { id rowId topic score } }`, map[string]any{"id": json.Number("7")}},
		{"list", `{ allPosts(first: 50) { nodes { rowId topic score createdAt } pageInfo { hasNextPage endCursor } } }`, nil},
		{"nested", `{ allForums(first: 5) { nodes { slug postsByForumId(first: 5) { edges { cursor node { rowId commentsByPostId(first: 5) { nodes { rowId body } } } } } } } }`, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			db := &replay{DB: s}
			r := Request{Query: c.query, Variables: c.vars}
			if first, err := e.Execute(b.Context(), db, r); err != nil || first.Invalid || len(first.Errors) > 0 {
				b.Fatalf("%v %+v", err, first)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Execute(b.Context(), db, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
