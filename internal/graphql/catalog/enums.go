package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// EnumTable is a table whose rows are the values of an enum: its comment says @enum, and then its primary key holds the labels,
// or that on a key does. It may be one of a schema that is not exposed, if an exposed table refers to it.
type EnumTable struct {
	Class      ClassID // 0: not exposed
	Schema     uint16  // in Catalog.Schemas
	Name       string  // of the table
	Comment    string  // on the table
	Key        string  // the constraint; "" if it is a tag's
	KeyComment string
	Primary    bool
	Column     string     // that holds the labels
	Users      []ColumnID // foreign keys of theirs alone refer to Column
	Labels     Range      // in Catalog.Labels, in the order in which PostgreSQL gave them
	Notes      Range      // in Catalog.Labels: what is said of each; "" for nothing
	Problem    string     // why it has no labels
	NoRows     bool       // that is the problem, and it may pass
}

// What an enum may have. A table that has more is a mistake, and would be an instance's whole memory.
const (
	MaxEnumLabels  = 1000
	maxLabelLength = 200
	maxNoteLength  = 1000
)

// enumTable is an EnumTable in the making.
type enumTable struct {
	EnumTable
	oid, schema  string
	number       int16
	note, reader string // the column of what is said, and the role that may read both
}

// The lines of tags at the beginning of a comment, up to one of these.
const (
	saysEnum       = `'^\n?([ \t]*@[^\n]*\n)*[ \t]*@enum([ \t\r\n]|$)'`
	saysNote       = `'^\n?([ \t]*@[^\n]*\n)*[ \t]*@enumDescription([ \t\r\n]|$)'`
	primaryByTag   = `'^\n?(?:[ \t]*@[^\n]*\n)*[ \t]*@primaryKey[ \t]+"?([^",|\r\n]+?)"?[ \t]*(?:[|\r\n]|$)'`
	enumTablesForm = `
with named as materialized (
	select oid from pg_catalog.unnest($1::oid[]) oid
	union select k.confrelid from pg_catalog.pg_constraint k where k.conrelid = any($1::oid[]) and k.contype = 'f'
), said as materialized (
	select d.objoid as oid, d.description from pg_catalog.pg_description d
	where d.classoid = 'pg_catalog.pg_class'::regclass and d.objsubid = 0 and d.objoid = any(array(select oid from named)) and d.description ~ ENUM
), keys as materialized (
	select k.oid, k.conname, k.contype, k.conrelid, k.conkey, d.description from pg_catalog.pg_constraint k
	left join pg_catalog.pg_description d on d.classoid = 'pg_catalog.pg_constraint'::regclass and d.objoid = k.oid
	where k.conrelid = any(array(select oid from named)) and k.contype in ('p', 'u')
		and (d.description ~ ENUM or k.contype = 'p' and k.conrelid in (select oid from said))
	union all
	select 0, '', 'p', a.attrelid, array[a.attnum], null from said
	join pg_catalog.pg_attribute a on a.attrelid = said.oid and a.attname = pg_catalog.substring(said.description, PRIMARY) and a.attnum > 0
	where not exists (select from pg_catalog.pg_constraint k where k.conrelid = said.oid and k.contype = 'p')
)
select c.oid, n.nspname, c.relname, (select description from said where said.oid = c.oid), k.conname, k.contype, k.description,
	pg_catalog.cardinality(k.conkey), a.attnum, a.attname, t.typcategory, note.attname, who.rolname
from keys k
join pg_catalog.pg_class c on c.oid = k.conrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = k.conkey[1]
join pg_catalog.pg_type t on t.oid = a.atttypid
left join lateral (
	select x.attnum, x.attname from pg_catalog.pg_attribute x
	left join pg_catalog.pg_description d on d.classoid = 'pg_catalog.pg_class'::regclass and d.objoid = c.oid and d.objsubid = x.attnum and d.description ~ NOTE
	where x.attrelid = c.oid and x.attnum > 0 and not x.attisdropped and (d.description is not null or x.attname = 'description')
	order by d.description is null, x.attnum limit 1
) note on true
left join lateral (
	select r.rolname from pg_catalog.pg_roles r
	where pg_catalog.pg_has_role(session_user, r.oid, 'member') and pg_catalog.has_schema_privilege(r.oid, n.oid, 'usage')
		and pg_catalog.has_column_privilege(r.oid, c.oid, a.attnum, 'select')
		and (note.attnum is null or pg_catalog.has_column_privilege(r.oid, c.oid, note.attnum, 'select'))
	order by r.rolname <> session_user, r.rolname limit 1
) who on true
order by n.nspname, c.relname, k.contype, k.conname`
)

var enumTablesSQL = strings.NewReplacer("ENUM", saysEnum, "NOTE", saysNote, "PRIMARY", primaryByTag).Replace(enumTablesForm)

// maybeEnums tells whether there can be any, in a fraction of the time that it takes to find them: most schemas have none. Of a join
// PostgreSQL would read all five thousand comments that it comes with.
const maybeEnums = `(with named as materialized (
		select oid from pg_catalog.unnest($1::oid[]) oid
		union select k.confrelid from pg_catalog.pg_constraint k where k.conrelid = any($1::oid[]) and k.contype = 'f'
	)
	select exists (select from pg_catalog.pg_description d
			where d.classoid = 'pg_catalog.pg_class'::regclass and d.objsubid = 0 and d.objoid = any(array(select oid from named)) and d.description ~ '@enum')
		or exists (select from pg_catalog.pg_description d
			where d.objoid = any(array(select k.oid from pg_catalog.pg_constraint k where k.conrelid = any(array(select oid from named))))
				and d.classoid = 'pg_catalog.pg_constraint'::regclass and d.description ~ '@enum'))`

// enumTables finds them, and the columns that refer to them. each sees the rows.
func (r *reader) enumTables(classes string, each func(row)) (found []enumTable) {
	r.query(enumTablesSQL, func(row row) error {
		each(row)
		t := enumTable{oid: row.text(0), schema: row.text(1), number: int16(row.int(8)), note: row.text(11), reader: row.text(12)}
		t.EnumTable = EnumTable{Name: r.text.keep(row.columns[2]), Comment: r.text.keep(row.columns[3]), Key: r.text.keep(row.columns[4]),
			Primary: row.text(5) == "p", KeyComment: r.text.keep(row.columns[6]), Column: r.text.keep(row.columns[9])}
		switch category := row.text(10); {
		case row.int(7) != 1:
			t.Problem = "its key has more than one column"
		case category != "S" && category != "E":
			t.Problem = fmt.Sprintf("its key %q is no text", t.Column)
		case t.reader == "":
			t.Problem = "no role that the login may assume may read it: grant usage on its schema, and select"
		}
		found = append(found, t)
		return nil
	}, classes)
	return found
}

// labelsOf hands out what an enum table holds, or says what is the matter with it.
func (r *reader) labelsOf(t *enumTable, each func(row)) {
	if t.Problem != "" || r.err != nil {
		return
	}
	key, note := quote(t.Column), "null"
	if t.note != "" {
		note = quote(t.note) + "::text"
	}
	q := r.q
	if a, ok := q.(Assumer); ok {
		q = a.As(t.reader)
	}
	sql := fmt.Sprintf(`select pg_catalog.left(pg_catalog.concat(%s), %d), pg_catalog.left(%s, %d) from %s.%s where %[1]s is not null limit %[7]d`,
		key, maxLabelLength+1, note, maxNoteLength, quote(t.schema), quote(t.Name), MaxEnumLabels+1)
	n := 0
	err := q.Query(r.ctx, sql, nil, func(columns [][]byte) error {
		n++
		if len(columns[0]) > maxLabelLength {
			t.Problem = fmt.Sprintf("a label has more than %d bytes", maxLabelLength)
		}
		each(row{columns})
		return nil
	})
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && strings.HasPrefix(refused.Code, "42"): // of access rule and syntax: it will not pass by itself
		t.Problem = "it cannot be read: " + refused.Message
	case err != nil:
		r.err = err
	case n > MaxEnumLabels:
		t.Problem = fmt.Sprintf("it has more than %d rows", MaxEnumLabels)
	case n == 0:
		t.Problem, t.NoRows = "it has no rows that the role "+t.reader+" may see", true
	}
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// enums reads the tables that are enums.
func (r *reader) enums() {
	maybe := false
	r.query("select "+maybeEnums, func(row row) error {
		maybe = row.bool(0)
		return nil
	}, r.classOIDs(0))
	if !maybe {
		return
	}
	found := r.enumTables(r.classOIDs(0), func(row) {})
	for i := range found {
		t := &found[i]
		var labels, notes []string
		r.labelsOf(t, func(row row) {
			if label := r.text.keep(row.columns[0]); !slices.Contains(labels, label) && len(labels) < MaxEnumLabels {
				labels, notes = append(labels, label), append(notes, r.text.keep(row.columns[1]))
			}
		})
		if t.Problem == "" {
			t.Labels = Range{uint32(len(r.c.Labels)), uint16(len(labels))}
			t.Notes = Range{t.Labels.From + uint32(len(labels)), t.Labels.N}
			r.c.Labels = append(append(r.c.Labels, labels...), notes...)
		}
		t.Class, t.Schema = r.classOf[parseOID([]byte(t.oid))], r.schema([]byte(t.schema))
	}
	r.enumUsers(found)
	for i := range found {
		r.c.Enums = append(r.c.Enums, found[i].EnumTable)
	}
}

// enumUsers finds the columns that refer to the labels.
func (r *reader) enumUsers(found []enumTable) {
	oids := make([]string, len(found))
	for i := range found {
		oids[i] = found[i].oid
	}
	r.query(`
select k.confrelid, k.confkey[1], k.conrelid, k.conkey[1] from pg_catalog.pg_constraint k
where k.conrelid = any($1::oid[]) and k.contype = 'f' and k.confrelid = any($2::oid[]) and pg_catalog.cardinality(k.conkey) = 1
order by k.oid`, func(row row) error {
		column, ok := r.column(r.classOf[row.oid(2)], int16(row.int(3)))
		for i := range found {
			if ok && found[i].oid == row.text(0) && int(found[i].number) == row.int(1) {
				found[i].Users = append(found[i].Users, column)
			}
		}
		return nil
	}, r.classOIDs(0), oidArray(oids))
}

// enums hashes the tables that are enums, and what they hold, if there are any.
func (f *printer) enums() {
	if !f.maybeEnums {
		return
	}
	tables := f.enumTables(f.classOIDs.array(), f.add)
	for i := range tables {
		n := 0
		f.labelsOf(&tables[i], func(row row) {
			if n++; n <= MaxEnumLabels { // which of too many come is chance
				f.add(row)
			}
		})
		f.add(row{[][]byte{[]byte(tables[i].Problem)}})
	}
}

// size is the memory of a table besides its texts.
func (t *EnumTable) size() int64 { return sizeOf(t.Users) + int64(len(t.Problem)+15)&^15 }
