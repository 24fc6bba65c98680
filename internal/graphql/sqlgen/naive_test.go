package sqlgen

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The naive resolver answers as a reader of the schema would: one simple statement for each object and each list, rows cut in Go.
// It shares nothing with what it is compared with.

// class is a table or view of the sample schema, as it is named in GraphQL and in SQL.
type class struct {
	typ, table, all string
	key             []string          // columns of the primary key
	fields          map[string]string // column by field
	indexed         []string          // fields that conditions and orderings have
	nullable        map[string]bool   // columns
	kinds           map[string]string // of columns that are not as they are in JSON: big, stamp
	one             map[string]link   // relations to one row
	many            map[string]link   // to several
}

// link is a relation: the columns here that are equal to those there.
type link struct {
	to          string
	here, there []string
}

var model = map[string]*class{
	"Forum": {
		table: "forum", all: "allForums", key: []string{"id"},
		fields:  map[string]string{"rowId": "id", "slug": "slug", "name": "name", "createdAt": "created_at"},
		indexed: []string{"rowId", "slug"}, kinds: map[string]string{"created_at": "stamp"},
		many: map[string]link{"postsByForumId": {"Post", []string{"id"}, []string{"forum_id"}}},
	},
	"Post": {
		table: "post", all: "allPosts", key: []string{"id"},
		fields:   map[string]string{"rowId": "id", "forumId": "forum_id", "authorId": "author_id", "headline": "headline", "topic": "topic", "score": "score", "createdAt": "created_at"},
		indexed:  []string{"rowId", "forumId", "authorId", "topic", "score"},
		nullable: map[string]bool{"topic": true}, kinds: map[string]string{"created_at": "stamp"},
		one: map[string]link{
			"forumByForumId": {"Forum", []string{"forum_id"}, []string{"id"}}, "personByAuthorId": {"Person", []string{"author_id"}, []string{"id"}},
			"stat": {"PostStat", []string{"id"}, []string{"post_id"}},
		},
		many: map[string]link{"commentsByPostId": {"Comment", []string{"id"}, []string{"post_id"}}, "postLikesByPostId": {"PostLike", []string{"id"}, []string{"post_id"}}},
	},
	"Person": {
		table: "person", all: "allPeople", key: []string{"id"},
		fields:   map[string]string{"rowId": "id", "username": "username", "lastName": "last_name", "email": "email", "mood": "mood", "bigCount": "big_count"},
		indexed:  []string{"rowId", "username", "email"},
		nullable: map[string]bool{"last_name": true, "email": true}, kinds: map[string]string{"big_count": "big"},
		one: map[string]link{"profileByPersonId": {"Profile", []string{"id"}, []string{"person_id"}}},
		many: map[string]link{
			"postsByAuthorId": {"Post", []string{"id"}, []string{"author_id"}}, "commentsByAuthorId": {"Comment", []string{"id"}, []string{"author_id"}},
			"postLikesByPersonId": {"PostLike", []string{"id"}, []string{"person_id"}},
		},
	},
	"Comment": {
		table: "comment", all: "allComments", key: []string{"id"},
		fields:   map[string]string{"rowId": "id", "postId": "post_id", "authorId": "author_id", "parentCommentId": "parent_comment_id", "body": "body"},
		indexed:  []string{"rowId", "postId", "authorId", "parentCommentId"},
		nullable: map[string]bool{"author_id": true, "parent_comment_id": true}, kinds: map[string]string{"id": "big", "parent_comment_id": "big"},
		one: map[string]link{
			"postByPostId": {"Post", []string{"post_id"}, []string{"id"}}, "personByAuthorId": {"Person", []string{"author_id"}, []string{"id"}},
			"commentByParentCommentId": {"Comment", []string{"parent_comment_id"}, []string{"id"}},
		},
		many: map[string]link{"commentsByParentCommentId": {"Comment", []string{"id"}, []string{"parent_comment_id"}}},
	},
	"PostLike": {
		table: "post_like", all: "allPostLikes", key: []string{"person_id", "post_id"},
		fields:  map[string]string{"personId": "person_id", "postId": "post_id", "likedAt": "liked_at"},
		indexed: []string{"personId", "postId"}, kinds: map[string]string{"liked_at": "stamp"},
		one: map[string]link{"personByPersonId": {"Person", []string{"person_id"}, []string{"id"}}, "postByPostId": {"Post", []string{"post_id"}, []string{"id"}}},
	},
	"Profile": {
		table: "profile", all: "allProfiles", key: []string{"person_id"},
		fields:  map[string]string{"personId": "person_id", "bio": "bio"},
		indexed: []string{"personId"}, nullable: map[string]bool{"bio": true},
		one: map[string]link{"personByPersonId": {"Person", []string{"person_id"}, []string{"id"}}},
	},
	"PostStat": {
		table: "post_stat", all: "allPostStats", key: []string{"post_id"},
		fields:  map[string]string{"postId": "post_id", "nComments": "n_comments"},
		indexed: []string{"postId", "nComments"}, nullable: map[string]bool{"n_comments": true}, kinds: map[string]string{"n_comments": "big"},
		one: map[string]link{"post": {"Post", []string{"post_id"}, []string{"id"}}},
	},
}

func init() {
	for name, c := range model {
		c.typ = name
	}
}

// few replaces the sample's rows by a handful, with many nulls and ties among them.
const few = `
truncate app_public.comment, app_public.post_like, app_public.post, app_public.private_note, app_public.profile, app_public.person, app_public.forum restart identity cascade;
insert into app_public.forum (slug, name, created_at) select 'f' || i, 'Forum ' || (i % 2), '2024-01-01Z'::timestamptz + i * interval '1 day' from generate_series(1, 5) i;
insert into app_public.person (username, first_name, last_name, email, mood, big_count, created_at)
select 'u' || (7 * i) % 11, 'F', case when i % 3 > 0 then 'L' || i % 2 end, case when i % 3 > 0 then 'u' || i || '@x' end, 'OK', 9007199254740993 + i % 3, '2024-01-01Z' from generate_series(1, 9) i;
insert into app_public.post (forum_id, author_id, headline, topic, score, created_at)
select 1 + i % 3, 1 + (i * 5) % 7, 'H "' || i || E'"\\ \n\tü', case when i % 4 > 0 then 't' || i % 2 end, i % 3, '2024-06-01Z'::timestamptz + i % 4 * interval '1 us' from generate_series(1, 16) i;
insert into app_public.comment (post_id, author_id, parent_comment_id, body, created_at)
select 1 + (i * 3) % 10, case when i % 4 > 0 then 1 + i % 9 end, case when i > 6 and i % 3 > 0 then 1 + i % 6 end, 'c' || i, '2024-07-01Z' from generate_series(1, 30) i;
insert into app_public.post_like select 1 + i % 5, 1 + (i * 3) % 16, '2024-08-01Z'::timestamptz + i * interval '1 s' from generate_series(1, 20) i on conflict do nothing;
insert into app_public.profile select id, case when id % 4 > 0 then 'bio ' || id end from app_public.person where id % 2 = 0;
`

type row map[string]any

// naive reads rows, remembering them: the data does not change.
type naive struct {
	db   *session
	page int // rows of a list without first and last
	seen map[string][]row
}

func (n *naive) rows(sql string, params ...string) []row {
	key := sql + "\x00" + strings.Join(params, "\x00")
	if rows, ok := n.seen[key]; ok {
		return rows
	}
	var out []row
	err := n.db.Query(context.Background(), sql, params, func(cols [][]byte) error {
		d := json.NewDecoder(bytes.NewReader(cols[0]))
		d.UseNumber()
		r := row{}
		out = append(out, r)
		return d.Decode(&r)
	})
	if err != nil {
		panic(fmt.Sprintf("%s: %v", sql, err))
	}
	n.seen[key] = out
	return out
}

// sorted is an ordering: a field, or "" for the primary key.
type sorted struct {
	field string
	desc  bool
}

// list reads the rows for which columns have values, "" being null, in order.
func (n *naive) list(c *class, columns, values []string, order []sorted) []row {
	sql := "select to_jsonb(t) from app_public." + c.table + " t where true"
	var params []string
	for i, column := range columns {
		if values[i] == "" {
			sql += " and t." + column + " is null"
			continue
		}
		params = append(params, values[i])
		sql += fmt.Sprintf(" and lower(t.%s::text) = lower($%d)", column, len(params)) // email is citext, and nothing else differs by case
	}
	var by []string
	for _, o := range order {
		names := c.key
		if o.field != "" {
			names = []string{c.fields[o.field]}
		}
		for _, name := range names {
			by = append(by, direction("t."+name, o.desc))
		}
	}
	for _, name := range c.key {
		by = append(by, direction("t."+name, len(order) > 0 && order[0].desc))
	}
	return n.rows(sql+" order by "+strings.Join(by, ", "), params...)
}

func direction(column string, desc bool) string {
	if desc {
		return column + " desc nulls first"
	}
	return column + " asc nulls last"
}

// leaf is the JSON of a column.
func (c *class) leaf(r row, column string) any {
	v := r[column]
	if v == nil {
		return nil
	}
	switch c.kinds[column] {
	case "big":
		return v.(json.Number).String()
	case "stamp":
		at, err := time.Parse(time.RFC3339Nano, v.(string))
		if err != nil {
			panic(err)
		}
		return at.UTC().Format("2006-01-02T15:04:05.000000+00:00")
	}
	return v
}

func (c *class) id(r row) string {
	parts := []any{c.typ}
	for _, column := range c.key {
		parts = append(parts, c.leaf(r, column))
	}
	text, _ := json.Marshal(parts)
	return base64.StdEncoding.EncodeToString(text)
}

func textOf(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func texts(r row, columns []string) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = textOf(r[c])
	}
	return out
}

// fewRows is an engine over the handful, and the resolver.
func fewRows(t testing.TB, o Options) (*Engine, *session, *naive) {
	e, s := forum(t, o)
	if _, err := s.c.Exec(t.Context(), few).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return e, s, &naive{db: s, page: o.Limits.Page, seen: map[string][]row{}}
}
