package sqlgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// relation leads from a row to one other: the row of class whose columns are equal to near ones.
type relation struct {
	class         catalog.ClassID
	columns, near []catalog.ColumnID
}

func relationOf(b schema.Bind) relation {
	k := b.ForeignKey
	if b.Op == schema.OpForward {
		return relation{k.Foreign, k.ForeignColumns, k.Columns}
	}
	return relation{k.Class, k.Columns, k.ForeignColumns}
}

// joins are the rows that those of a list lead to, each by a key, so that the list stays as long as it is. They are joined to a list
// that is cut already: a sub-select for each row would be looked up apart, and a join before the limit would be made of rows that
// nobody sees.
type joins struct {
	sql string
	by  map[string]joinedRow
}

// joinedRow is a row that may be there. Relations of one row that lead the same way have it in common.
type joinedRow struct {
	row   rowRef
	there int // the column that tells whether it is
}

// maxJoins bounds the orders of joining that PostgreSQL thinks about, like its own join_collapse_limit. Others are sub-selects.
const maxJoins = 6

// mostColumns is where joins end: PostgreSQL has at most 1,664 columns in one list, and a sub-select is one.
const mostColumns = 1000

// joined compiles a relation as a join, or gives nil if it cannot be one.
func (c *compiler) joined(cols *columns, r rowRef, s *selected, to relation) *out {
	if r.joins == nil || !c.isKey(to.class, to.columns) || len(cols.list)+int(c.cat.Classes[to.class].Columns.N) > mostColumns {
		return nil
	}
	way := fmt.Sprint(r.dot, to)
	j, ok := r.joins.by[way]
	if !ok {
		if len(r.joins.by) == maxJoins {
			return nil
		}
		j = c.newJoin(cols, r, to)
		r.joins.by[way] = j
	}
	o := c.fields(cols, j.row, c.types(c.schema.TypeOfClass(to.class)), s.sub())
	o.kind, o.column = outJoined, j.there
	return o
}

func (c *compiler) newJoin(cols *columns, r rowRef, to relation) joinedRow {
	alias := c.nextAlias()
	on := &builder{}
	c.join(on, alias, to.columns, r, to.near)
	r.joins.sql += " left join " + c.className(to.class) + " as " + alias + " on " + on.b.String()
	row := tableRow(alias)
	row.joins, row.there = r.joins, c.column(row, to.columns[0])+" is not null"
	w := &builder{}
	w.put(row.there)
	return joinedRow{row, cols.add(w, &out{kind: outLeaf})}
}

// isKey tells whether no two rows agree in the columns, by PostgreSQL's word. What a tag promises is not enough, nor a constraint that
// may be broken until the end of a transaction, nor one of a table whose heirs have keys of their own.
func (c *compiler) isKey(class catalog.ClassID, columns []catalog.ColumnID) bool {
	k := &c.cat.Classes[class]
	if k.HasHeirs {
		return false
	}
	return slices.ContainsFunc(c.cat.Keys[k.Keys.From:k.Keys.From+uint32(k.Keys.N)], func(key catalog.Key) bool {
		numbers := c.cat.Numbers[key.Numbers.From : key.Numbers.From+uint32(key.Numbers.N)]
		return !key.Deferrable && !slices.ContainsFunc(numbers, func(number int16) bool {
			return !slices.ContainsFunc(columns, func(id catalog.ColumnID) bool { return c.cat.Columns[id].Number == number })
		})
	})
}

// leadsOn tells whether rows of a connection are to be joined with others.
func (c *compiler) leadsOn(s *selected) bool {
	for _, part := range c.collect(c.types(s.def.Type.Name), s.sub()...) {
		switch {
		case part.def == nil:
		case part.def.Bind.Op == schema.OpNodes:
			if c.rowLeadsOn(part) {
				return true
			}
		case part.def.Bind.Op == schema.OpEdges:
			for _, node := range c.collect(c.types(part.def.Type.Name), part.sub()...) {
				if node.def != nil && node.def.Bind.Op != schema.OpCursor && c.rowLeadsOn(node) {
					return true
				}
			}
		}
	}
	return false
}

func (c *compiler) rowLeadsOn(node *selected) bool {
	return slices.ContainsFunc(c.collect(c.types(node.def.Type.Name), node.sub()...), func(f *selected) bool {
		if f.def == nil || f.def.Bind.Op != schema.OpForward && f.def.Bind.Op != schema.OpBackwardOne {
			return false
		}
		to := relationOf(f.def.Bind)
		return c.isKey(to.class, to.columns)
	})
}

// wholeRow is the column that has the row itself, where rows come out of a sub-select.
const wholeRow = `"levee_row"`

// putRows writes the rows of a list, from FROM on. Rows behind an offset, and those that are joined, come from a sub-select: PostgreSQL
// works out what is selected of each row that it passes over, and relations of 1,450 rows that nobody sees cost five times what
// those of the 50 do. The sub-select names what is used of a row: the role need not be able to see all of it.
func (c *compiler) putRows(w *builder, k *connection, conditions *builder, alias string, row rowRef) {
	from := c.className(k.class) + " as " + alias
	if !k.apart {
		w.put(" from ", from)
		putWhere(w, conditions)
		c.putOrder(w, k, row)
		c.putLimit(w, k)
		return
	}
	w.put(" from (select 1")
	columns := c.cat.Classes[k.class].Columns
	for i := range uint32(columns.N) {
		id := catalog.ColumnID(columns.From + i)
		if column := c.column(row, id); k.mentions(column) || k.joins.sql != "" && k.orders(id) {
			w.put(", ", column)
		}
	}
	if k.mentions(row.whole) {
		w.put(", (", alias, ".*)::", c.className(k.class), " as ", wholeRow)
	}
	w.put(" from ", from)
	putWhere(w, conditions)
	c.putOrder(w, k, tableRow(alias))
	c.putLimit(w, k)
	w.put(") as ", alias, k.joins.sql)
	if k.joins.sql != "" {
		c.putOrder(w, k, row) // a join may mix them up
	}
}

func (k *connection) mentions(sql string) bool {
	return k.items.mention(sql) || strings.Contains(k.joins.sql, sql)
}

func (k *connection) orders(id catalog.ColumnID) bool {
	return slices.ContainsFunc(k.order, func(o ordering) bool { return o.column == id })
}

func putWhere(w, conditions *builder) {
	if conditions.empty() {
		return
	}
	w.put(" where ")
	w.add(conditions.text())
}
