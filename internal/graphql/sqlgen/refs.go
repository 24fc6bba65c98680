package sqlgen

import "github.com/leveehq/levee/internal/graphql/schema"

// through writes the condition that one of the paths leads from the enclosing row to the row of that alias. It is a condition, not a
// join: a row that many ways lead to is one row, which a cursor can find. PostGraphile has it once for each way.
func (c *compiler) through(w *builder, alias string, r rowRef, paths [][]schema.Hop) {
	if len(paths) > 1 {
		w.put("(")
		defer w.put(")")
	}
	for i, path := range paths {
		if i > 0 {
			w.put(" or ")
		}
		c.path(w, alias, r, path)
	}
}

func (c *compiler) path(w *builder, alias string, r rowRef, path []schema.Hop) {
	last := path[len(path)-1]
	if len(path) == 1 {
		c.join(w, alias, last.Columns, r, last.Near)
		return
	}
	first, at := c.nextAlias(), rowRef{}
	w.put("exists (select from ", c.className(path[0].Class), " as ", first)
	at = tableRow(first)
	for _, h := range path[1 : len(path)-1] {
		next := c.nextAlias()
		w.put(" join ", c.className(h.Class), " as ", next, " on ")
		c.join(w, next, h.Columns, at, h.Near)
		at = tableRow(next)
	}
	w.put(" where ")
	c.join(w, first, path[0].Columns, r, path[0].Near)
	w.put(" and ")
	c.join(w, alias, last.Columns, at, last.Near)
	w.put(")")
}

// refOne writes the one row that paths lead to; of several the first by its key.
func (c *compiler) refOne(w *builder, s *selected, r rowRef) *out {
	class, paths := s.def.Bind.Class, c.schema.Paths(s.def.Bind.Index)
	alias := c.nextAlias()
	w.put("(select ")
	o := c.object(w, tableRow(alias), c.types(c.schema.TypeOfClass(class)), s.sub())
	w.put(" from ", c.className(class), " as ", alias, " where ")
	c.through(w, alias, r, paths)
	if key, ok := c.schema.NodeKey(class); ok && severalRows(paths) {
		for i, id := range key.Columns {
			w.put([]string{" order by ", ", "}[min(i, 1)], c.column(tableRow(alias), id))
		}
	}
	w.put(" limit 1)")
	return o
}

func severalRows(paths [][]schema.Hop) bool {
	for _, path := range paths {
		for _, h := range path {
			if h.Many {
				return true
			}
		}
	}
	return len(paths) > 1
}
