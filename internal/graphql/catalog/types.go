package catalog

import (
	"fmt"
	"math"
	"slices"
)

// want asks for a type to be read, once.
func (r *reader) want(oid uint32) {
	if _, ok := r.typeOf[oid]; ok || oid == 0 {
		return
	}
	r.typeOf[oid] = 0 // until it is read
	r.wanted = append(r.wanted, oid)
}

// types reads what is used, then what that uses. Each round goes one level deeper: an array, its composite, the domains in
// that, what they are over.
func (r *reader) types() {
	for len(r.wanted) > 0 && r.err == nil {
		oids := make([]string, len(r.wanted))
		for i, oid := range r.wanted {
			oids[i] = fmt.Sprint(oid)
		}
		r.wanted = nil
		r.query(typesSQL, r.addType, oidArray(oids))
		r.otherClasses()
	}
}

const oidPoint = 600

// typesSQL takes int2vector and oidvector for leaves: PostgreSQL does not read them as it reads arrays.
const typesSQL = `
select t.oid, t.typname, n.nspname, t.typtype, t.typcategory, t.typnotnull, t.typbasetype,
	case when t.typcategory = 'A' and t.oid not in ('pg_catalog.int2vector'::regtype, 'pg_catalog.oidvector'::regtype) then t.typelem else coalesce(g.rngsubtype, 0) end, t.typrelid,
	exists (select from pg_catalog.pg_depend d
		where d.classid = 'pg_catalog.pg_type'::regclass and d.objid = t.oid and d.deptype = 'e'),
	t.typdefault is not null
from pg_catalog.pg_type t
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
left join pg_catalog.pg_range g on g.rngtypid = t.oid
where t.oid = any($1::oid[])
order by t.oid`

// addType keeps object ids where ids of this catalog belong, until finish knows all of them.
func (r *reader) addType(row row) error {
	r.typeOf[row.oid(0)] = TypeID(len(r.c.Types))
	t := Type{
		OID: row.oid(0), Name: r.text.keep(row.columns[1]), Schema: r.schema(row.columns[2]), Kind: row.columns[3][0], Category: row.columns[4][0],
		NotNull: row.bool(5), Base: TypeID(row.oid(6)), Element: TypeID(row.oid(7)), Class: ClassID(row.oid(8)), Extension: row.bool(9), Default: row.bool(10),
	}
	r.c.Types = append(r.c.Types, t)
	r.want(uint32(t.Base))
	r.want(uint32(t.Element))
	if t.Category == 'G' {
		r.want(oidPoint) // all shapes of PostgreSQL's are made of
	}
	return nil
}

// schema is the index of a schema's name, which is added if it is only referred to.
func (r *reader) schema(name []byte) uint16 {
	if i := slices.Index(r.c.Schemas, string(name)); i >= 0 {
		return uint16(i)
	}
	r.c.Schemas = append(r.c.Schemas, r.text.keep(name))
	return uint16(len(r.c.Schemas) - 1)
}

// otherClasses reads the composite types and tables of other schemas that a type is the row of.
func (r *reader) otherClasses() {
	from := ClassID(len(r.c.Classes))
	var oids []string
	for _, t := range r.c.Types {
		if _, ok := r.classOf[uint32(t.Class)]; !ok && t.Class != 0 {
			oids = append(oids, fmt.Sprint(t.Class))
		}
	}
	if len(oids) == 0 {
		return
	}
	r.query(`
select c.oid, c.relname, c.relkind, c.reltype, c.relowner, c.relrowsecurity, c.relforcerowsecurity, c.relispartition, 0, 0, c.relpersistence = 'u', n.nspname
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = any($1::oid[]) order by c.oid`, func(row row) error {
		r.addClass(row, r.schema(row.columns[11]), 0)
		return nil
	}, oidArray(oids))
	r.columns(r.classOIDs(from))
}

func (r *reader) labels() {
	var enums []string
	for _, t := range r.c.Types {
		if t.Kind == 'e' {
			enums = append(enums, fmt.Sprint(t.OID))
		}
	}
	if len(enums) == 0 {
		return
	}
	r.query(`
select e.enumtypid, e.enumlabel from pg_catalog.pg_enum e where e.enumtypid = any($1::oid[])
order by e.enumtypid, e.enumsortorder`, func(row row) error {
		t := &r.c.Types[r.typeOf[row.oid(0)]]
		if t.Labels.N == math.MaxUint16 {
			return fmt.Errorf("enum %s has more than %d labels: make it a table", t.Name, math.MaxUint16)
		}
		if t.Labels.N == 0 {
			t.Labels.From = uint32(len(r.c.Labels))
		}
		t.Labels.N++
		r.c.Labels = append(r.c.Labels, r.text.keep(row.columns[1]))
		return nil
	}, oidArray(enums))
}

// finish turns object ids into ids of the catalog, and cuts the slices to size.
func (r *reader) finish() *Catalog {
	c := r.c
	for i := range c.Types {
		t := &c.Types[i]
		t.Base, t.Element, t.Class = r.typeOf[uint32(t.Base)], r.typeOf[uint32(t.Element)], r.classOf[uint32(t.Class)]
		if t.Class != 0 {
			c.Classes[t.Class].Type = TypeID(i)
		}
	}
	for i := range c.Columns {
		c.Columns[i].Type = r.typeOf[uint32(c.Columns[i].Type)]
	}
	for i := range c.Procs {
		c.Procs[i].Returns = r.typeOf[uint32(c.Procs[i].Returns)]
	}
	for i := range c.Args {
		c.Args[i].Type = r.typeOf[uint32(c.Args[i].Type)]
	}
	c.Classes, c.Columns, c.Keys, c.ForeignKeys = clone(c.Classes), clone(c.Columns), clone(c.Keys), clone(c.ForeignKeys)
	c.Types, c.Procs, c.Args, c.Numbers, c.Labels, c.comments = clone(c.Types), clone(c.Procs), clone(c.Args), clone(c.Numbers), clone(c.Labels), clone(c.comments)
	c.textBytes = r.text.bytes
	return c
}

// clone copies into a slice of the exact size: append leaves up to a quarter unused.
func clone[T any](s []T) []T {
	out := make([]T, len(s))
	copy(out, s)
	return out
}
