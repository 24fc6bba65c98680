package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/graphql"
	"github.com/leveehq/levee/internal/graphql/catalog"
)

// checkGraphQL connects to each database once, as each of its tenants would.
func (a *App) checkGraphQL() []Finding {
	if a.graphql == nil {
		return nil
	}
	o, err := graphqlOptions(a.cfg, a.env)
	if err != nil { // cannot happen: Build has read them
		return []Finding{{Failure, "graphql", err.Error()}}
	}
	var out []Finding
	if r := o.Resolver; r != nil {
		out = append(out, checkDatabase("graphql.resolver", graphql.Tenant{DatabaseURL: r.DatabaseURL, AllowBypassRLS: true}))
	}
	failed := map[string]bool{} // databases that were not reached: each costs the whole patience
	for _, t := range o.Tenants {
		if failed[t.DatabaseURL] {
			continue
		}
		f := checkDatabase(fmt.Sprintf("tenant %q", t.Name), t)
		failed[t.DatabaseURL] = f.Severity == Failure
		out = append(out, f)
	}
	return out
}

const databasePatience = 5 * time.Second

// checkDatabase never shows the URL: it may hold a password.
func checkDatabase(who string, t graphql.Tenant) Finding {
	const what = "graphql"
	ctx, cancel := context.WithTimeout(context.Background(), databasePatience)
	defer cancel()
	c, err := pgconn.ParseConfig(t.DatabaseURL)
	if err != nil {
		return Finding{Failure, what, who + ": its database_url cannot be used: it is not as postgres://USER:PASSWORD@HOST:PORT/DATABASE"}
	}
	where := fmt.Sprintf("database %s on %s as %s", c.Database, c.Host, c.User)
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return Finding{Failure, what, fmt.Sprintf("%s: %s cannot be reached: %v", who, where, err)}
	}
	defer conn.Close(ctx)
	login, err := catalog.ReadLogin(ctx, connQuerier{conn}, catalog.Options{Schemas: t.Schemas})
	switch {
	case err != nil:
		return Finding{Failure, what, fmt.Sprintf("%s: %s: %v", who, where, err)}
	case !t.AllowBypassRLS && (login.Superuser || login.BypassRLS || len(login.Owns) > 0):
		return Finding{Failure, what, fmt.Sprintf("%s: %s is a login that row level security does not bind (superuser, BYPASSRLS, or owner of %s), so it is refused: log in as a role that owns nothing, or set allow_bypass_rls",
			who, where, listOr(login.Owns, "tables"))}
	}
	return Finding{OK, what, fmt.Sprintf("%s: %s can be reached", who, where)}
}

func listOr(names []string, otherwise string) string {
	if len(names) == 0 {
		return otherwise
	}
	return strings.Join(names, ", ")
}

// connQuerier is one connection, as catalog asks.
type connQuerier struct{ conn *pgconn.PgConn }

func (q connQuerier) Query(ctx context.Context, sql string, params []string, each func([][]byte) error) error {
	values := make([][]byte, len(params))
	for i, p := range params {
		values[i] = []byte(p)
	}
	r := q.conn.ExecParams(ctx, sql, values, nil, nil, nil)
	for r.NextRow() {
		if err := each(r.Values()); err != nil {
			_, _ = r.Close()
			return err
		}
	}
	_, err := r.Close()
	return err
}
