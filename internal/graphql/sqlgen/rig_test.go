package sqlgen

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// session is a DB that runs every transaction on one connection, and remembers what it was asked.
type session struct {
	c    *pgconn.PgConn
	asks []Statement
}

func connect(t testing.TB, user, database string) *session {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), pgtest.Server(t).URL(user, database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return &session{c: c}
}

func (s *session) DoAll(ctx context.Context, statements []Statement) error {
	s.asks = append(s.asks, statements...)
	if _, err := s.c.Exec(ctx, "begin").ReadAll(); err != nil {
		return err
	}
	for _, st := range statements {
		if err := s.run(ctx, st.SQL, st.Params, st.Each); err != nil {
			_, undone := s.c.Exec(ctx, "rollback").ReadAll()
			return errors.Join(err, undone)
		}
	}
	_, err := s.c.Exec(ctx, "commit").ReadAll()
	return err
}

func (s *session) run(ctx context.Context, sql string, params [][]byte, each func([][]byte) error) error {
	rows := s.c.ExecParams(ctx, sql, params, nil, nil, []int16{1})
	for rows.NextRow() {
		if each == nil {
			continue
		}
		if err := each(rows.Values()); err != nil {
			_, _ = rows.Close()
			return err
		}
	}
	_, err := rows.Close()
	return err
}

// Query lets the catalog be read.
func (s *session) Query(ctx context.Context, sql string, params []string, each func([][]byte) error) error {
	values := make([][]byte, len(params))
	for i, p := range params {
		values[i] = []byte(p)
	}
	rows := s.c.ExecParams(ctx, sql, values, nil, nil, nil)
	for rows.NextRow() {
		if err := each(rows.Values()); err != nil {
			_, _ = rows.Close()
			return err
		}
	}
	_, err := rows.Close()
	return err
}

func schemaOf(t testing.TB, s *session, schemas ...string) *schema.Schema {
	t.Helper()
	c, err := catalog.Read(t.Context(), s, catalog.Options{Schemas: schemas, RolesOfLogin: true})
	if err != nil {
		t.Fatal(err)
	}
	out, err := schema.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// forum is an engine over the sample schema and a session as its owner.
func forum(t testing.TB, o Options) (*Engine, *session) {
	t.Helper()
	s := connect(t, "forum_owner", pgtest.Load(t, "../testdata/forum/schema.sql"))
	return New(schemaOf(t, s, "app_public"), o), s
}

// answer is a response as clients see it.
type answer struct {
	Invalid bool
	Data    any
	Errors  []Error
}

func ask(t testing.TB, e *Engine, db DB, query string, vars map[string]any) answer {
	t.Helper()
	response, err := e.Execute(t.Context(), db, Request{Query: query, Variables: vars})
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, response)
}

func decoded(t testing.TB, response *Response) answer {
	t.Helper()
	out := answer{Invalid: response.Invalid, Errors: response.Errors}
	if response.Data != nil {
		d := json.NewDecoder(strings.NewReader(response.Data.String()))
		d.UseNumber()
		if err := d.Decode(&out.Data); err != nil {
			t.Fatalf("the data is no JSON: %v\n%s", err, response.Data)
		}
	}
	return out
}

// at walks into an answer by members and indexes.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}
