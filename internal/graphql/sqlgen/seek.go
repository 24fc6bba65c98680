package sqlgen

import (
	"slices"
	"strconv"
)

// seek writes the conditions of the cursors.
func (c *compiler) seek(w *builder, k *connection, row rowRef) {
	if k.args.natural {
		return // by offset
	}
	for _, x := range []struct {
		of   source
		role role
	}{{k.args.after, afterOf}, {k.args.before, beforeOf}} {
		if v, ok := x.of.get(c.vars); !ok || v == nil {
			continue
		}
		and(w)
		w.put("(")
		if s := (seeker{c, w, k, row, x.role}); s.isPlain() {
			s.compareRows()
		} else {
			s.beyond(0)
		}
		w.put(")")
	}
}

// seeker writes that a row comes after a cursor in the ordering, or before it.
type seeker struct {
	*compiler
	w    *builder
	k    *connection
	row  rowRef
	role role
}

// again is true for a column that the ordering has already. It is in the cursors twice, for PostGraphile's sake.
func (k *connection) again(i int) bool {
	return slices.ContainsFunc(k.order[:i], func(o ordering) bool { return o.column == k.order[i].column })
}

func (s *seeker) nullable(o ordering) bool {
	if s.notNull(o.column) {
		return false
	}
	key, ok := s.schema.NodeKey(s.k.class)
	return !ok || !slices.Contains(key.Columns, o.column)
}

// isPlain tells of orderings that a comparison of rows stands for, which an index answers.
func (s *seeker) isPlain() bool {
	for _, o := range s.k.order {
		if s.nullable(o) || o.desc != s.k.order[0].desc || s.extension(s.cat.Columns[o.column].Type) != "" {
			return false
		}
	}
	return true
}

func (s *seeker) compareRows() {
	first := true
	for i, o := range s.k.order {
		if !s.k.again(i) {
			s.w.put(separator(first, "("), s.compiler.column(s.row, o.column))
			first = false
		}
	}
	s.w.put(") ", s.sign(s.k.order[0]))
	first = true
	for i := range s.k.order {
		if !s.k.again(i) {
			s.w.put(separator(first, " ("))
			s.value(i)
			first = false
		}
	}
	s.w.put(")")
}

func separator(first bool, open string) string {
	if first {
		return open
	}
	return ", "
}

func (s *seeker) sign(o ordering) string {
	if s.up(o) {
		return ">"
	}
	return "<"
}

// up is towards larger values.
func (s *seeker) up(o ordering) bool { return o.desc == (s.role == beforeOf) }

func (s *seeker) value(i int) {
	id := s.k.order[i].column
	p := s.keyParam(id)
	p.conn, p.role, p.of = s.k.number, s.role, source{value: i}
	s.cast(s.w, p, s.cat.Columns[id].Type)
}

// compare writes a comparison of the i-th column with the cursor's value.
func (s *seeker) compare(sign string, i int) {
	id := s.k.order[i].column
	s.w.put(s.compiler.column(s.row, id), s.operator(sign, s.cat.Columns[id].Type))
	s.value(i)
}

// isNull writes a test of the cursor's value.
func (s *seeker) isNull(i int, test string) {
	s.value(i)
	s.w.put(test)
}

// beyond compares from the i-th column on. PostgreSQL has nulls last in ascending order and first in descending order, so a column
// that may be null needs more than a comparison.
func (s *seeker) beyond(i int) {
	o, w := s.k.order[i], s.w
	column, nullable := s.compiler.column(s.row, o.column), s.nullable(o)
	switch {
	case !nullable:
		s.compare(s.sign(o), i)
	case s.up(o):
		s.isNull(i, " is not null and (")
		w.put(column, " is null or ")
		s.compare(">", i)
		w.put(")")
	default:
		s.isNull(i, " is null and ")
		w.put(column, " is not null or ")
		s.compare("<", i)
	}
	next := i + 1
	for next < len(s.k.order) && s.k.again(next) {
		next++
	}
	if next == len(s.k.order) {
		return
	}
	w.put(" or (")
	s.compare("=", i)
	if nullable {
		s.w.put(" or ", column, " is null and ")
		s.isNull(i, " is null")
	}
	w.put(") and (")
	s.beyond(next)
	w.put(")")
}

// putOrder writes in which order rows are read: the last ones in reverse.
func (c *compiler) putOrder(w *builder, k *connection, row rowRef) {
	reversed := c.reversed(k)
	for i, o := range k.order {
		if k.again(i) {
			continue
		}
		w.put(separator(i == 0, " order by "), c.column(row, o.column))
		if o.desc != reversed {
			w.put(" desc")
		}
	}
}

func (c *compiler) putLimit(w *builder, k *connection) {
	if limit, ok := k.args.fixedLimit(c.vars); ok {
		w.put(" limit ", strconv.FormatInt(limit, 10))
	} else {
		w.put(" limit ")
		w.param(param{conn: k.number, role: limitOf})
		w.put("::int8")
	}
	switch offset, ok := k.args.fixedOffset(c.vars); {
	case !ok:
		w.put(" offset ")
		w.param(param{conn: k.number, role: offsetOf})
		w.put("::int8")
	case offset > 0:
		w.put(" offset ", strconv.FormatInt(offset, 10))
	}
}

// reversed tells whether rows are read from the end: there is last, and no first.
func (c *compiler) reversed(k *connection) bool {
	last, ok := k.args.last.get(c.vars)
	if !ok || last == nil || k.args.natural {
		return false
	}
	first, ok := k.args.first.get(c.vars)
	return !ok || first == nil
}
