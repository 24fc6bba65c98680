package catalog

import (
	"context"
	"fmt"
	"strings"
)

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

// Fingerprint changes whenever a Catalog read now could differ from one read before, and whenever the safety of the login
// could (Login). It counts and adds up the row versions of what Read reads, scoped like it: a version (xmin) is new in every
// row that DDL writes, and freezing does not show.
func Fingerprint(ctx context.Context, q Querier, o Options) (string, error) {
	var print string
	err := q.Query(ctx, fingerprintSQL, []string{textArray(o.Schemas)}, func(columns [][]byte) error {
		parts := make([]string, len(columns))
		for i, c := range columns {
			parts[i] = string(c)
		}
		print = strings.Join(parts, " ")
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("fingerprint of the schemas: %w", err)
	}
	return print, nil
}

var fingerprintSQL = `
with n as materialized (select oid, xmin from pg_catalog.pg_namespace where nspname = any($1::text[])),
c as materialized (select c.oid, c.xmin from pg_catalog.pg_class c where c.relnamespace in (select oid from n) and c.relkind in ('r', 'p', 'v', 'm', 'f', 'c')),
p as materialized (select p.oid, p.xmin from pg_catalog.pg_proc p where p.pronamespace in (select oid from n)),
t as materialized (select t.oid, t.xmin from pg_catalog.pg_type t where t.typnamespace in (select oid from n))
select ` + strings.Join([]string{
	versions("n", ""), versions("c", ""), versions("p", ""), versions("t", ""),
	versions("pg_catalog.pg_attribute", "x.attrelid in (select oid from c) and x.attnum > 0"),
	versions("pg_catalog.pg_constraint", "x.conrelid in (select oid from c)"),
	versions("pg_catalog.pg_index", "x.indrelid in (select oid from c)"),
	versions("pg_catalog.pg_policy", "x.polrelid in (select oid from c)"),
	versions("pg_catalog.pg_enum", "x.enumtypid in (select oid from t)"),
	versions("pg_catalog.pg_description", "x.objoid in (select oid from c union all select oid from p union all select oid from t) or x.objoid in (select k.oid from pg_catalog.pg_constraint k where k.conrelid in (select oid from c))"),
	versions("pg_catalog.pg_auth_members", ""),
	`(select rolsuper::text || rolbypassrls::text || oid::text from pg_catalog.pg_roles where rolname = session_user)`,
}, ",\n\t")

// versions counts the rows of table and adds up their versions, wrapped so that it cannot overflow.
func versions(table, where string) string {
	if where != "" {
		where = " where " + where
	}
	return "(select pg_catalog.count(*)::text || '/' || coalesce(pg_catalog.sum(x.xmin::text::int8 * (x.xmin::text::int8 % 1009 + 1)), 0)::text from " + table + " x" + where + ")"
}
