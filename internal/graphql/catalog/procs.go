package catalog

import (
	"encoding/json"
	"fmt"
)

// procsSQL has a column more than a function is made of: the fingerprint needs it.
var procsSQL = `
select p.oid, p.proname, p.pronamespace, p.provolatile, p.proisstrict, p.proretset, p.prorettype, p.pronargdefaults,
	coalesce(p.proallargtypes, p.proargtypes::oid[])::text, coalesce(p.proargmodes::text[], '{}')::text, pg_catalog.array_to_json(p.proargnames),
	` + grantedSQL(`coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))`) + `,
	exists (select from pg_catalog.pg_proc o where o.proname = p.proname and o.pronamespace = p.pronamespace and o.oid <> p.oid
		and o.prorettype <> 'pg_catalog.trigger'::regtype),
	p.xmin
from pg_catalog.pg_proc p
where p.pronamespace = any($1::oid[]) and p.prokind = 'f'
	and p.prorettype not in ('pg_catalog.trigger'::regtype, 'pg_catalog.event_trigger'::regtype)
	and not exists (select from pg_catalog.pg_depend d
		where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
order by p.oid`

// procs reads the functions that a SELECT can call.
func (r *reader) procs() { r.query(procsSQL, r.addProc, oidArray(r.exposed), r.roles.granted) }

func (r *reader) addProc(row row) error {
	var names []string
	if row.columns[10] != nil {
		if err := json.Unmarshal(row.columns[10], &names); err != nil {
			return fmt.Errorf("names of the arguments of function %s: %w", row.text(1), err)
		}
	}
	types, modes := row.list(8), row.list(9)
	p := Proc{
		OID: row.oid(0), Name: r.text.keep(row.columns[1]), Schema: r.schemaOf[row.oid(2)], Volatility: row.columns[3][0],
		Strict: row.bool(4), Set: row.bool(5), Overloaded: row.bool(12), Privileges: r.roles.onFunctions(row.int(11)), Defaults: uint16(row.int(7)),
		Args: Range{uint32(len(r.c.Args)), uint16(len(types))},
	}
	if returns := row.oid(6); returns != oidVoid {
		p.Returns = TypeID(returns) // an object id until finish, as those of Args
		r.want(returns)
	}
	for i, oid := range types {
		a := Arg{Type: TypeID(parseOID([]byte(oid))), Mode: 'i'}
		if i < len(modes) {
			a.Mode = modes[i][0]
		}
		if i < len(names) {
			a.Name = r.text.keep([]byte(names[i]))
		}
		r.want(uint32(a.Type))
		r.c.Args = append(r.c.Args, a)
	}
	r.c.Procs = append(r.c.Procs, p)
	return nil
}

const oidVoid = 2278
