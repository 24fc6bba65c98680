package catalog

import "context"

// Login says what the connection's role could do in spite of row level security, or the role that its sessions begin as.
type Login struct {
	Role      string
	Superuser bool
	BypassRLS bool
	Owns      []string // exposed tables with row level security, not forced, that it owns itself or by a role it inherits; at most ten
}

// startsSQL is the roles that a request without a role may run as: the login, and what ALTER ROLE … SET role or ALTER DATABASE … SET
// role makes of it in new sessions. It is the same in every session, old ones too.
const startsSQL = `
select r.oid, r.rolname, r.rolsuper, r.rolbypassrls from pg_catalog.pg_roles r
where r.rolname = session_user or r.rolname in (
	select pg_catalog.substr(s, 6) from pg_catalog.pg_db_role_setting d, pg_catalog.unnest(d.setconfig) s
	where s like 'role=%' and d.setdatabase in (0, (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database()))
		and d.setrole in (0, (select oid from pg_catalog.pg_roles where rolname = session_user)))`

// ReadLogin reads it. The role of the present session counts too: a connection's parameters may set one.
func ReadLogin(ctx context.Context, q Querier, o Options) (Login, error) {
	var l Login
	err := q.Query(ctx, `select rolname, rolsuper, rolbypassrls from pg_catalog.pg_roles
where oid in (select oid from (`+startsSQL+`) starts) or rolname = current_user
order by not (rolsuper or rolbypassrls), rolname <> session_user limit 1`, nil, func(columns [][]byte) error {
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
	and (pg_catalog.pg_has_role(current_user, c.relowner, 'usage')
		or exists (select from (`+startsSQL+`) starts where pg_catalog.pg_has_role(starts.oid, c.relowner, 'usage')))
order by 1 limit 10`, []string{textArray(o.Schemas)}, func(columns [][]byte) error {
		l.Owns = append(l.Owns, string(columns[0]))
		return nil
	})
	return l, err
}
