package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Options say what to read.
type Options struct {
	// Schemas are exposed, in order. Naming one that is not there is an error.
	Schemas []string

	// Roles are those that requests may run as; none means the login role alone. Privileges are the union of theirs.
	// With RolesOfLogin, every role that the login may assume is one of them.
	Roles        []string
	RolesOfLogin bool
}

// Querier runs one SQL statement with parameters in text form, and hands out each row's columns in text form (nil is
// NULL), valid during the call only. All statements of one Read see one snapshot if the Querier gives them one.
type Querier interface {
	Query(ctx context.Context, sql string, params []string, each func(row [][]byte) error) error
}

// Assumer is a Querier that can also run statements as a role that the login may assume. The rows of tables that are enums are
// read so; a Querier that is none must be of a login that may read them itself.
type Assumer interface {
	Querier
	As(role string) Querier
}

// Read reads the catalog: the classes of the exposed schemas first, then by their object ids what belongs to them, then the
// types that all of it uses, and the composite types that those use, until nothing new turns up.
func Read(ctx context.Context, q Querier, o Options) (*Catalog, error) {
	r := newReader(ctx, q)
	r.schemas(o.Schemas)
	r.readRoles(o)
	r.classes()
	r.columns(r.classOIDs(0))
	r.readIndexes()
	r.constraints()
	r.enums()
	r.procs()
	r.types()
	r.labels()
	r.comments()
	if r.err != nil {
		return nil, r.err
	}
	return r.finish(), nil
}

// reader collects a catalog. Its first error ends all later steps.
type reader struct {
	ctx context.Context
	q   Querier
	err error

	c         *Catalog
	text      arena
	exposed   []string          // object ids of the exposed schemas, in order
	schemaOf  map[uint32]uint16 // by oid
	roles     roles
	classOf   map[uint32]ClassID
	typeOf    map[uint32]TypeID
	wanted    []uint32 // types that are used and not read yet
	indexSets map[ClassID][][]int16
}

func newReader(ctx context.Context, q Querier) *reader {
	return &reader{
		ctx: ctx, q: q, c: &Catalog{Classes: make([]Class, 1), Types: make([]Type, 1), comments: make([]string, 1)},
		schemaOf: map[uint32]uint16{}, classOf: map[uint32]ClassID{}, typeOf: map[uint32]TypeID{0: 0},
		indexSets: map[ClassID][][]int16{},
	}
}

func (r *reader) query(sql string, each func(row) error, params ...string) {
	if r.err != nil {
		return
	}
	r.err = r.q.Query(r.ctx, sql, params, func(columns [][]byte) error { return each(row{columns}) })
}

func (r *reader) schemas(names []string) {
	if len(names) == 0 {
		r.err = fmt.Errorf("no schema is named that could be exposed")
		return
	}
	oids := map[string]string{}
	r.query(`select oid, nspname from pg_catalog.pg_namespace where nspname = any($1::text[])`, func(row row) error {
		oids[row.text(1)] = row.text(0)
		return nil
	}, textArray(names))
	if r.err != nil {
		return
	}
	for _, name := range names {
		if slices.Contains(r.c.Schemas, name) {
			continue
		}
		oid, ok := oids[name]
		if !ok {
			r.err = fmt.Errorf("schema %q does not exist in the database: create it, or correct the setting that exposes it", name)
			return
		}
		r.exposed = append(r.exposed, oid)
		r.schemaOf[parseOID([]byte(oid))] = uint16(len(r.c.Schemas))
		r.c.Schemas = append(r.c.Schemas, r.text.keep([]byte(name)))
	}
	r.c.Exposed = len(r.c.Schemas)
}

// classesSQL has a column more than a class is made of: the fingerprint needs it. The planner takes a schema for a good part of the
// database, since the statement is planned for any: the classes are found first, and an extension's are looked up one by one, lest all
// of pg_depend is read for them. A hundred thousand classes of others' then take 15 ms instead of 75.
var classesSQL = `
select c.oid, c.relname, c.relkind, c.reltype, c.relowner, c.relrowsecurity, c.relforcerowsecurity, c.relispartition,
	` + grantedSQL(`coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))`) + `,
	case when c.relkind in ('v', 'f') then pg_catalog.pg_relation_is_updatable(c.oid, true) when c.relkind in ('r', 'p') then 28 else 0 end,
	c.relpersistence = 'u', c.relnamespace, c.relkind = 'r' and c.relhassubclass, pg_catalog.pg_has_role(session_user, c.relowner, 'usage')
from (select * from pg_catalog.pg_class where relnamespace = any($1::oid[]) and relkind in ('r', 'p', 'v', 'm', 'f', 'c') offset 0) c
where (select pg_catalog.count(*) from pg_catalog.pg_depend d
	where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype = 'e') = 0
order by c.oid`

// classes reads pg_class. What belongs to an extension is not the tenant's own.
func (r *reader) classes() {
	r.query(classesSQL, func(row row) error {
		r.addClass(row, r.schemaOf[row.oid(11)], r.roles.onTables(row.int(8)))
		r.c.Classes[len(r.c.Classes)-1].HasHeirs = row.bool(12)
		r.want(row.oid(3))
		return nil
	}, oidArray(r.exposed), r.roles.granted)
}

func (r *reader) addClass(row row, schema uint16, p Privileges) {
	r.classOf[row.oid(0)] = ClassID(len(r.c.Classes))
	r.c.Classes = append(r.c.Classes, Class{
		OID: row.oid(0), Name: r.text.keep(row.columns[1]), Schema: schema, Kind: row.columns[2][0], Owner: row.oid(4),
		RowSecurity: row.bool(5), Forced: row.bool(6), Partition: row.bool(7), Privileges: p, Updatable: updatable(row.int(9)), Unlogged: row.bool(10),
	})
}

// updatable reads bits of PostgreSQL's CmdType.
func updatable(events int) (p Privileges) {
	for _, e := range [...]struct {
		bit int
		can Privileges
	}{{2, Update}, {3, Insert}, {4, Delete}} {
		if events&(1<<e.bit) != 0 {
			p |= e.can
		}
	}
	return p
}

// classOIDs lists the classes from the id on.
func (r *reader) classOIDs(from ClassID) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, c := range r.c.Classes[max(from, 1):] {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, c.OID)
	}
	b.WriteByte('}')
	return b.String()
}

// columns reads the attributes of classes. A column's own grants add to its table's.
func (r *reader) columns(classes string) {
	sql := `
select a.attrelid, a.attname, a.attnum, a.atttypid, a.attnotnull, a.atthasdef, a.attgenerated, a.attidentity,
	case when a.attacl is null then 0 else ` + grantedSQL("a.attacl") + ` end
from pg_catalog.pg_attribute a
where a.attrelid = any($1::oid[]) and a.attnum > 0 and not a.attisdropped
order by a.attrelid, a.attnum`
	r.query(sql, func(row row) error {
		id := r.classOf[row.oid(0)]
		class := &r.c.Classes[id]
		if class.Columns.N == 0 {
			class.Columns.From = uint32(len(r.c.Columns))
		}
		class.Columns.N++
		r.c.Columns = append(r.c.Columns, Column{Name: r.text.keep(row.columns[1]), Number: int16(row.int(2)), Flags: flagsOf(row, class.Privileges|Privileges(row.int(8)))})
		r.c.Columns[len(r.c.Columns)-1].Type = TypeID(row.oid(3)) // an object id until finish
		r.want(row.oid(3))
		return nil
	}, classes, r.roles.granted)
}

func flagsOf(row row, p Privileges) (f ColumnFlags) {
	set := func(on bool, flag ColumnFlags) {
		if on {
			f |= flag
		}
	}
	set(row.bool(4), NotNull)
	set(row.bool(5) && row.text(6) == "", HasDefault)
	set(row.text(6) != "", Generated)
	set(row.text(7) == "a", IdentityAlways)
	set(row.text(7) == "d", IdentityDefault)
	set(p&Select != 0, CanSelect)
	set(p&Insert != 0, CanInsert)
	set(p&Update != 0, CanUpdate)
	return f
}

// readIndexes keeps the columns of each index that covers all rows. An expression is a column 0, which there is none of;
// columns that an index only includes count.
func (r *reader) readIndexes() {
	r.query(`
select i.indrelid, i.indkey::text
from pg_catalog.pg_index i where i.indrelid = any($1::oid[]) and i.indisvalid and i.indpred is null`, func(row row) error {
		class := r.classOf[row.oid(0)]
		numbers := row.numbers(1)
		r.indexSets[class] = append(r.indexSets[class], numbers)
		for _, number := range numbers {
			if id, ok := r.column(class, number); ok {
				r.c.Columns[id].Flags |= Indexed
			}
		}
		return nil
	}, r.classOIDs(0))
}

// column finds the column of that number.
func (r *reader) column(class ClassID, number int16) (ColumnID, bool) {
	all := r.c.Classes[class].Columns
	columns := r.c.Columns[all.From : all.From+uint32(all.N)]
	i, ok := slices.BinarySearchFunc(columns, number, func(c Column, number int16) int { return cmp.Compare(c.Number, number) })
	return ColumnID(all.From) + ColumnID(i), ok
}

// constraints reads primary and unique keys, and the foreign keys whose other end is exposed too. A unique index that is no
// constraint is no key here: PostgreSQL itself does not offer it to foreign keys by name.
func (r *reader) constraints() {
	r.query(`
select k.oid, k.conname, k.contype, k.conrelid, k.confrelid,
	pg_catalog.array_to_string(k.conkey, ' '), pg_catalog.array_to_string(k.confkey, ' '), k.condeferrable
from pg_catalog.pg_constraint k
where k.conrelid = any($1::oid[]) and k.contype in ('p', 'u', 'f')
order by k.conrelid, k.contype = 'f', k.contype, k.conname`, func(row row) error {
		class := r.classOf[row.oid(3)]
		name := r.text.keep(row.columns[1])
		if row.text(2) != "f" {
			r.addKey(Key{OID: row.oid(0), Name: name, Class: class, Numbers: r.numbers(row.numbers(5)), Primary: row.text(2) == "p", Deferrable: row.bool(7)})
			return nil
		}
		if foreign, ok := r.classOf[row.oid(4)]; ok {
			numbers := row.numbers(5)
			r.c.ForeignKeys = append(r.c.ForeignKeys, ForeignKey{OID: row.oid(0), Name: name, Class: class, Foreign: foreign,
				Numbers: r.numbers(numbers), ForeignNumbers: r.numbers(row.numbers(6)), Indexed: r.hasIndexOf(class, numbers)})
		}
		return nil
	}, r.classOIDs(0))
}

// hasIndexOf tells whether one index has all of these columns.
func (r *reader) hasIndexOf(class ClassID, numbers []int16) bool {
	return slices.ContainsFunc(r.indexSets[class], func(set []int16) bool {
		return !slices.ContainsFunc(numbers, func(number int16) bool { return !slices.Contains(set, number) })
	})
}

func (r *reader) addKey(k Key) {
	class := &r.c.Classes[k.Class]
	if class.Keys.N == 0 {
		class.Keys.From = uint32(len(r.c.Keys))
	}
	class.Keys.N++
	r.c.Keys = append(r.c.Keys, k)
}

func (r *reader) numbers(n []int16) Range {
	from := len(r.c.Numbers)
	r.c.Numbers = append(r.c.Numbers, n...)
	return Range{uint32(from), uint16(len(n))}
}
