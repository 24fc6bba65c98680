package catalog

import (
	"fmt"
	"strings"
)

// roles are whose grants count.
type roles struct {
	granted string     // their object ids and that of PUBLIC, as an array literal
	all     bool       // one of them is a superuser
	tables  Privileges // what predefined roles give on every table
}

func (r roles) onTables(granted int) Privileges {
	if r.all {
		return Select | Insert | Update | Delete
	}
	return r.tables | Privileges(granted)
}

func (r roles) onFunctions(granted int) Privileges {
	if r.all {
		return Execute
	}
	return Privileges(granted)
}

// readRoles finds the roles that requests may run as, and those that they inherit from. A role that the login may assume it
// may assume through others too, so those that it inherits from are among them: each role is asked about once, which
// matters to a login that a thousand tenants' roles are granted to.
func (r *reader) readRoles(o Options) {
	r.query(`select pg_catalog.string_agg(pg_catalog.quote_literal(n), ', ') from pg_catalog.unnest($1::text[]) n
where not exists (select from pg_catalog.pg_roles r where r.rolname = n)`, func(row row) error {
		if row.columns[0] == nil {
			return nil
		}
		return fmt.Errorf("these roles of requests do not exist in the database: %s: create them, or correct the setting that names them", row.text(0))
	}, textArray(o.Roles))
	r.query(rolesSQL, func(row row) error {
		r.roles = roles{granted: row.text(0), all: row.bool(1), tables: Privileges(row.int(2))}
		return nil
	}, textArray(o.Roles), fmt.Sprint(o.RolesOfLogin))
}

const rolesSQL = `
with named as materialized (
	select oid, rolsuper from pg_catalog.pg_roles
	where rolname = any($1::text[]) or rolname = session_user and $1::text[] = '{}' and not $2::bool
), granted as materialized (
	select r.oid, r.rolname, case when $2::bool and pg_catalog.pg_has_role(session_user, r.oid, 'member') then r.rolsuper end as super
	from pg_catalog.pg_roles r
	where $2::bool and pg_catalog.pg_has_role(session_user, r.oid, 'member')
		or exists (select from named where pg_catalog.pg_has_role(named.oid, r.oid, 'usage'))
)
select (select coalesce(pg_catalog.array_agg(oid), '{}') || 0::oid from granted),
	exists (select from granted where super) or exists (select from named where rolsuper),
	(select coalesce(pg_catalog.bit_or(case rolname when 'pg_read_all_data' then 1 when 'pg_write_all_data' then 14 else 0 end), 0) from granted)`

// grantedSQL is the bits of Privileges that an access list gives to the roles $2.
func grantedSQL(list string) string {
	return strings.Replace(`coalesce((select pg_catalog.bit_or(case a.privilege_type when 'SELECT' then 1 when 'INSERT' then 2 when 'UPDATE' then 4
	when 'DELETE' then 8 when 'EXECUTE' then 16 else 0 end) from pg_catalog.aclexplode(LIST) a where a.grantee = any($2::oid[])), 0)`, "LIST", list, 1)
}
