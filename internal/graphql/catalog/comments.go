package catalog

import "fmt"

// comments reads what is written about everything that was found, and hands it to its owner.
func (r *reader) comments() {
	r.commentsOf("pg_class", r.classOIDs(0), func(oid uint32, number int, text string) {
		class := &r.c.Classes[r.classOf[oid]]
		if number == 0 {
			class.Comment = text
			return
		}
		for i := range uint32(class.Columns.N) {
			if column := &r.c.Columns[class.Columns.From+i]; int(column.Number) == number {
				column.Comment = uint32(len(r.c.comments))
				r.c.comments = append(r.c.comments, text)
				return
			}
		}
	})
	commentAll(r, "pg_proc", r.c.Procs, func(p *Proc) (uint32, *string) { return p.OID, &p.Comment })
	commentAll(r, "pg_type", r.c.Types[1:], func(t *Type) (uint32, *string) { return t.OID, &t.Comment })
	commentAll(r, "pg_constraint", r.c.Keys, func(k *Key) (uint32, *string) { return k.OID, &k.Comment })
	commentAll(r, "pg_constraint", r.c.ForeignKeys, func(k *ForeignKey) (uint32, *string) { return k.OID, &k.Comment })
}

// commentAll gives each of items its comment.
func commentAll[T any](r *reader, table string, items []T, of func(*T) (oid uint32, comment *string)) {
	byOID := make(map[uint32]*string, len(items))
	oids := make([]string, 0, len(items))
	for i := range items {
		oid, comment := of(&items[i])
		byOID[oid] = comment
		oids = append(oids, fmt.Sprint(oid))
	}
	r.commentsOf(table, oidArray(oids), func(oid uint32, number int, text string) {
		if to := byOID[oid]; to != nil && number == 0 {
			*to = text
		}
	})
}

func (r *reader) commentsOf(table, oids string, each func(oid uint32, number int, text string)) {
	if oids == "{}" {
		return
	}
	r.query(`
select d.objoid, d.objsubid, d.description from pg_catalog.pg_description d
where d.classoid = ('pg_catalog.' || $1)::regclass and d.objoid = any($2::oid[])`, func(row row) error {
		each(row.oid(0), row.int(1), r.text.keep(row.columns[2]))
		return nil
	}, table, oids)
}
