package sqlgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

func (d *drawing) question(c *class, depth int) (q question) {
	fields := slices.Sorted(maps.Keys(c.fields))
	ones, manies := slices.Sorted(maps.Keys(c.one)), slices.Sorted(maps.Keys(c.many))
	for i := range rapid.IntRange(1, 4).Draw(d.T, "fields") {
		it := item{alias: fmt.Sprintf("a%d", i)}
		switch kind := rapid.IntRange(0, 7).Draw(d.T, "kind"); {
		case kind == 0:
			it.typ = true
		case kind == 1:
			it.id = true
		case kind < 4 && depth > 0 && len(ones) > 0:
			it.field = rapid.SampledFrom(ones).Draw(d.T, "one")
			it.link = c.one[it.field]
			it.of = model[it.link.to]
			it.sub = d.question(it.of, depth-1)
		case kind < 6 && depth > 0 && len(manies) > 0:
			it.field = rapid.SampledFrom(manies).Draw(d.T, "many")
			it.link = c.many[it.field]
			it.of = model[it.link.to]
			it.many = d.many(it.of, depth-1)
		default:
			it.field = rapid.SampledFrom(fields).Draw(d.T, "field")
		}
		q = append(q, it)
	}
	return q
}

// samples are values of the fields that are texts, some of which no row has.
var samples = map[string][]string{"topic": {"", "t0", "t1", "t2"}, "slug": {"f1", "f9"}, "username": {"u7", "u3", "none"}, "email": {"", "u1@x", "U2@X", "none@x"}}

func (d *drawing) many(c *class, depth int) *many {
	m := &many{of: c, first: -1, last: -1, offset: -1, condition: map[string]string{}, vars: map[string]string{}}
	switch rapid.IntRange(0, 3).Draw(d.T, "limit") {
	case 0:
		m.first = rapid.IntRange(0, pages).Draw(d.T, "first")
	case 1:
		m.last = rapid.IntRange(0, pages).Draw(d.T, "last")
	case 2:
		m.first, m.last = rapid.IntRange(0, pages).Draw(d.T, "first"), rapid.IntRange(0, pages).Draw(d.T, "last")
	}
	if m.last < 0 && rapid.Bool().Draw(d.T, "skip") {
		m.offset = rapid.IntRange(0, 6).Draw(d.T, "offset")
	}
	for _, name := range []string{"first", "last", "offset"} {
		n := map[string]int{"first": m.first, "last": m.last, "offset": m.offset}[name]
		if n >= 0 {
			d.variable(m, name, "Int", json.Number(fmt.Sprint(n)))
		}
	}
	for range rapid.IntRange(0, 2).Draw(d.T, "orders") {
		field := rapid.SampledFrom(append([]string{""}, c.indexed...)).Draw(d.T, "order")
		m.order = append(m.order, sorted{field, rapid.Bool().Draw(d.T, "desc")})
	}
	if len(m.order) > 0 {
		var names []any
		for _, o := range m.order {
			names = append(names, o.String())
		}
		d.variable(m, "orderBy", "["+c.typ+"OrderBy!]", names)
	}
	if rapid.IntRange(0, 3).Draw(d.T, "condition") == 0 {
		field := rapid.SampledFrom(c.indexed).Draw(d.T, "where")
		values := []string{"", "1", "2", "3"}
		if some := samples[field]; some != nil {
			values = some
		}
		m.condition[field] = rapid.SampledFrom(values).Draw(d.T, "value")
		d.variable(m, "condition", c.typ+"Condition", map[string]any{field: m.value(field)})
	}
	m.parts = rapid.SampledFrom([][]string{{"nodes"}, {"edges"}, {"totalCount"}, {"pageInfo"}, {"pageInfo", "nodes"}, {"totalCount", "edges", "pageInfo"}, {"nodes", "edges"}}).Draw(d.T, "parts")
	m.nodes, m.edges = d.question(c, depth), d.question(c, depth)
	return m
}

func (q question) String() string {
	var b strings.Builder
	b.WriteString("{")
	for _, it := range q {
		name := it.field
		if it.typ {
			name = "__typename"
		}
		if it.id {
			name = "id"
		}
		fmt.Fprintf(&b, " %s: %s", it.alias, name)
		if it.many != nil {
			b.WriteString(it.many.String())
		} else if it.of != nil {
			b.WriteString(" " + it.sub.String())
		}
	}
	return b.String() + " }"
}

func (m *many) String() string {
	var args []string
	for _, a := range []struct {
		name string
		n    int
	}{{"first", m.first}, {"last", m.last}, {"offset", m.offset}} {
		if a.n >= 0 {
			args = append(args, a.name+": "+m.argument(a.name, fmt.Sprint(a.n)))
		}
	}
	if len(m.order) > 0 {
		var names []string
		for _, o := range m.order {
			names = append(names, o.String())
		}
		args = append(args, "orderBy: "+m.argument("orderBy", "["+strings.Join(names, ", ")+"]"))
	}
	for _, field := range slices.Sorted(maps.Keys(m.condition)) {
		args = append(args, "condition: "+m.argument("condition", "{ "+field+": "+m.literal(field)+" }"))
	}
	list := ""
	if len(args) > 0 {
		list = "(" + strings.Join(args, ", ") + ")"
	}
	var b strings.Builder
	for _, part := range m.parts {
		switch part {
		case "nodes":
			fmt.Fprintf(&b, " nodes %s", m.nodes)
		case "edges":
			fmt.Fprintf(&b, " edges { node %s }", m.edges)
		case "pageInfo":
			b.WriteString(" pageInfo { hasNextPage hasPreviousPage }")
		default:
			b.WriteString(" totalCount")
		}
	}
	return list + " {" + b.String() + " }"
}

func (o sorted) String() string {
	name := "PRIMARY_KEY"
	if o.field != "" {
		var b strings.Builder
		for _, r := range o.field {
			if r >= 'A' && r <= 'Z' {
				b.WriteByte('_')
			}
			b.WriteRune(r)
		}
		name = strings.ToUpper(b.String())
	}
	if o.desc {
		return name + "_DESC"
	}
	return name + "_ASC"
}

// argument is the variable that stands for an argument, or its literal.
func (m *many) argument(name, literal string) string {
	if v, ok := m.vars[name]; ok {
		return v
	}
	return literal
}

// value is a condition's as a variable has it.
func (m *many) value(field string) any {
	switch literal := m.literal(field); {
	case literal == "null":
		return nil
	case literal[0] == '"':
		return m.condition[field]
	default:
		return json.Number(literal)
	}
}

func (m *many) literal(field string) string {
	value, column := m.condition[field], m.of.fields[field]
	switch {
	case value == "":
		return "null"
	case m.of.kinds[column] == "big", samples[field] != nil:
		return fmt.Sprintf("%q", value)
	default:
		return value
	}
}

func (m *many) columns() (columns []string) {
	for _, field := range slices.Sorted(maps.Keys(m.condition)) {
		columns = append(columns, m.of.fields[field])
	}
	return columns
}

func (m *many) values() (values []string) {
	for _, field := range slices.Sorted(maps.Keys(m.condition)) {
		values = append(values, m.condition[field])
	}
	return values
}
