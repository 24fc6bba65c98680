package catalog

import "context"

// Login says what the connection's role could do in spite of row level security.
type Login struct {
	Role      string
	Superuser bool
	BypassRLS bool
	Owns      []string // exposed tables with row level security, not forced, that it owns itself or by a role it inherits; at most ten
}

// ReadLogin reads it.
func ReadLogin(ctx context.Context, q Querier, o Options) (Login, error) {
	var l Login
	err := q.Query(ctx, `select rolname, rolsuper, rolbypassrls from pg_catalog.pg_roles where rolname = session_user`, nil, func(columns [][]byte) error {
		row := row{columns}
		l = Login{Role: row.text(0), Superuser: row.bool(1), BypassRLS: row.bool(2)}
		return nil
	})
	if err != nil {
		return Login{}, err
	}
	err = q.Query(ctx, `
select n.nspname || '.' || c.relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = any($1::text[]) and c.relrowsecurity and not c.relforcerowsecurity
	and pg_catalog.pg_has_role(session_user, c.relowner, 'usage')
order by 1 limit 10`, []string{textArray(o.Schemas)}, func(columns [][]byte) error {
		l.Owns = append(l.Owns, string(columns[0]))
		return nil
	})
	return l, err
}
