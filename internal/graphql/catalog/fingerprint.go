package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// Fingerprint changes whenever a Catalog read now could differ from one read before, and whenever the safety of the login
// (Login) could. It is not changed by what other schemas and roles go through, nor by what rewrites a table: TRUNCATE,
// VACUUM FULL, REINDEX, a refresh of a materialised view. Of rows only those of tables that are enums count.
//
// Classes and functions are hashed as Read reads them. Of what there is more of, columns above all, PostgreSQL counts the
// rows and adds up their versions (xmin): DDL writes a row anew with a greater version, and freezing does not show. So next
// to no memory is needed here, however large the schema.
func Fingerprint(ctx context.Context, q Querier, o Options) (string, error) {
	f := printer{reader: newReader(ctx, q), hash: sha256.New()}
	f.schemas(o.Schemas)
	f.readRoles(o)
	f.login()
	f.classes()
	f.procs()
	f.versions()
	f.enums()
	if f.err != nil {
		return "", fmt.Errorf("fingerprint of the schemas: %w", f.err)
	}
	return hex.EncodeToString(f.hash.Sum(nil)[:16]), nil
}

// printer hashes what a reader would keep. It collects object ids only.
type printer struct {
	*reader
	hash hash.Hash

	maybeEnums bool // versions has found a comment that may speak of one

	classOIDs, rowTypes, procOIDs, procTypes oidList
}

// add hashes a row such that no two lists of columns look alike.
func (f *printer) add(row row) {
	for _, column := range row.columns {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(column)))
		f.hash.Write(size[:])
		f.hash.Write(column)
	}
}

func (f *printer) each(row row) error {
	f.add(row)
	return nil
}

func (f *printer) login() {
	f.add(row{[][]byte{fmt.Append(nil, f.exposed, f.roles.all, f.roles.tables)}})
	f.query(startsSQL+` order by 1`, f.each)
}

func (f *printer) classes() {
	f.query(classesSQL, func(row row) error {
		f.add(row)
		f.classOIDs.add(row.columns[0])
		f.rowTypes.add(row.columns[3])
		return nil
	}, oidArray(f.exposed), f.roles.granted)
}

func (f *printer) procs() {
	f.query(procsSQL, func(row row) error {
		f.add(row)
		f.procOIDs.add(row.columns[0])
		f.procTypes.add(row.columns[6])
		for _, oid := range row.list(8) {
			f.procTypes.add([]byte(oid))
		}
		return nil
	}, oidArray(f.exposed), f.roles.granted)
}

func (f *printer) versions() {
	f.query(versionsSQL, func(row row) error {
		f.maybeEnums = row.bool(len(row.columns) - 1)
		return f.each(row)
	}, f.classOIDs.array(), f.rowTypes.array(), f.procOIDs.array(), f.procTypes.array())
}

// versionsSQL follows the types that are used into other schemas, as Read does. PostgreSQL's own types have object ids
// below 16384, and do not change. The types' ids are taken as arrays, not joined: PostgreSQL expects few elements of an
// array, so it looks them up in indexes, where it would read a whole table for a recursive query of unknown length.
var versionsSQL = `
with recursive t(oid) as (
	select distinct a.atttypid from pg_catalog.pg_attribute a
	where a.attrelid = any($1::oid[]) and a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384
	union select oid from pg_catalog.unnest($4::oid[]) oid where oid >= 16384
	union select next.oid from t
		join pg_catalog.pg_type y on y.oid = t.oid
		cross join lateral (
			values (y.typelem), (y.typbasetype)
			union all select g.rngsubtype from pg_catalog.pg_range g where g.rngtypid = y.oid
			union all select a.atttypid from pg_catalog.pg_attribute a where a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped
		) next(oid)
		where next.oid >= 16384
), y as materialized (
	select y.xmin, y.oid, y.typrelid, y.typnamespace from pg_catalog.pg_type y where y.oid = any(array(select oid from t))
)
select ` + strings.Join([]string{
	versions("pg_attribute x where x.attrelid = any($1::oid[]) and x.attnum > 0"),
	versions("pg_attribute x where x.attrelid = any(array(select typrelid from y where typrelid > 0)) and x.attnum > 0"),
	versions("pg_class x where x.oid = any(array(select typrelid from y where typrelid > 0)) and x.oid <> all($1::oid[])"),
	versions("pg_policy x where x.polrelid = any($1::oid[])"),
	versions("pg_type x where x.oid = any(array(select oid from y))"),
	versions("pg_namespace x where x.oid in (select typnamespace from y)"),
	versions("pg_enum x where x.enumtypid = any(array(select oid from y))"),
	versions("pg_description x where x.objoid = any($1::oid[] || $2::oid[] || $3::oid[])"),
	versions("pg_description x where x.objoid = any(array(select oid from y))"),
	versions("pg_description x where x.objoid = any(array(select k.oid from pg_catalog.pg_constraint k where k.conrelid = any($1::oid[]))) and x.classoid = 'pg_catalog.pg_constraint'::regclass"),
	`(select pg_catalog.count(*) from pg_catalog.pg_depend d
		where d.classid = 'pg_catalog.pg_type'::regclass and d.objid = any(array(select oid from y)) and d.deptype = 'e')`,
	hashes("k.oid, k.conname, k.contype, k.conrelid, k.conkey, k.confrelid, k.confkey", "pg_constraint k where k.conrelid = any($1::oid[]) and k.contype in ('p', 'u', 'f')"),
	hashes("i.indrelid, i.indkey", "pg_index i where i.indrelid = any($1::oid[]) and i.indisvalid and i.indpred is null"),
	maybeEnums,
}, ",\n\t")

// versions counts the rows x of a table of the catalog and adds up their versions.
func versions(from string) string {
	return "(select pg_catalog.count(*)::text || '/' || coalesce(pg_catalog.sum(x.xmin::text::int8), 0)::text from pg_catalog." + from + ")"
}

// hashes adds up hashes of the columns, of tables whose rows get new versions when a table is rewritten.
func hashes(columns, from string) string {
	return "(select pg_catalog.count(*)::text || '/' || coalesce(pg_catalog.sum(pg_catalog.hashtextextended(pg_catalog.concat_ws(' ', " + columns + "), 0)), 0)::text from pg_catalog." + from + ")"
}

// oidList is an array literal that grows.
type oidList struct{ strings.Builder }

func (l *oidList) add(oid []byte) {
	if l.Len() > 0 {
		l.WriteByte(',')
	}
	l.Write(oid)
}

func (l *oidList) array() string { return "{" + l.String() + "}" }
