package document

import (
	"io"
	"testing"
)

func benchmarkParse(b *testing.B, s Schema, query string) {
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := Parse(s, query, "", Limits{}); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

func BenchmarkLookUpAmongTenThousandTables(b *testing.B) {
	benchmarkParse(b, wide(10_000), `query ($id: Int!) { table5000ByRowId(rowId: $id) { id column1 column2 column3 } }`)
}

func BenchmarkTypicalQuery(b *testing.B) {
	benchmarkParse(b, forum(b), `query ($n: Int = 10, $c: PostCondition) {
		allPosts(first: $n, condition: $c, orderBy: [SCORE_DESC]) {
			totalCount pageInfo { hasNextPage endCursor }
			nodes { ...P commentsByPostId(first: 5) { nodes { body personByAuthorId { username } } } }
		}
	} fragment P on Post { rowId headline summary(length: 20) personByAuthorId { fullName } }`)
}

func BenchmarkCoerce(b *testing.B) {
	v := variablesFor(b, `$i: PostInput!, $n: Int = 5, $o: [PostOrderBy!]`)
	sent := variablesOf(b, `{"i": {"forumId": 1, "authorId": 2, "headline": "h"}, "o": ["SCORE_DESC"]}`)
	b.ReportAllocs()
	for b.Loop() {
		vars, errs := v.Coerce(sent)
		if len(errs) > 0 {
			b.Fatal(errs)
		}
		v.Shape(vars)
	}
}

func BenchmarkIntrospection(b *testing.B) {
	s := forum(b)
	b.ReportAllocs()
	for b.Loop() {
		introspect(b, s, io.Discard, toolsQuery, "")
	}
}
