package sqlgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leveehq/levee/internal/graphql/document"
)

// question is a selection of a row: what is asked for, and how it is to be answered.
type question []item

type item struct {
	alias string
	field string
	of    *class // a relation's
	link  link
	sub   question // of one row
	many  *many
	typ   bool
	id    bool
}

// many is what is asked of a list.
type many struct {
	of                  *class
	first, last, offset int               // -1: absent
	vars                map[string]string // arguments that are variables
	order               []sorted
	condition           map[string]string // text by field; "" for null
	parts               []string          // nodes, edges, pageInfo, totalCount, in the order asked for
	nodes, edges        question
}

// pages are the longest list that may come without first and last: few enough that some are longer.
const pages = 7

func TestOneStatementAnswersLikeOneForEachRow(t *testing.T) {
	e, db, n := fewRows(t, Options{Limits: document.Limits{Page: pages, Cost: 1 << 30, Depth: 40, Aliases: 1 << 20, RootField: 1 << 20, Tokens: 1 << 20}})
	rapid.Check(t, func(rt *rapid.T) {
		var query strings.Builder
		var want expectation
		data := map[string]any{}
		d := &drawing{T: rt, vars: map[string]any{}}
		for i := range rapid.IntRange(1, 3).Draw(rt, "roots") {
			d.root(n, &query, &want, data, fmt.Sprintf("r%d", i))
		}
		asked := "query" + d.declarations(query.String()) + " { " + query.String() + "}"
		response, err := e.Execute(t.Context(), db, Request{Query: asked, Variables: d.vars})
		if err != nil {
			rt.Fatalf("%s: %v", asked, err)
		}
		got := decoded(t, response)
		if again, err := e.Execute(t.Context(), db, Request{Query: asked, Variables: d.vars}); err != nil || again.Data.String() != response.Data.String() {
			rt.Fatalf("%s\nby the plan that was kept: %s, %v", asked, again.Data, err)
		}
		paths := []string{}
		for _, err := range got.Errors {
			paths = append(paths, fmt.Sprint(err.Path...))
		}
		sort.Strings(paths)
		sort.Strings(want.paths)
		if !reflect.DeepEqual(got.Data, any(data)) || !slices.Equal(paths, want.paths) {
			rt.Fatalf("%s\n%s\ngave %s\n with %v\nnot  %s\n with %v", asked, jsonOf(d.vars), jsonOf(got.Data), paths, jsonOf(data), want.paths)
		}
	})
}

// drawing is a request being drawn, with its variables.
type drawing struct {
	*rapid.T
	vars  map[string]any
	types []string
}

// declarations are of those that the text uses: what was drawn for a part that is not asked for is not in it.
func (d *drawing) declarations(text string) string {
	var used []string
	for i, typ := range d.types {
		name := fmt.Sprintf("$v%d", i)
		if regexp.MustCompile(regexp.QuoteMeta(name) + `\b`).MatchString(text) {
			used = append(used, name+": "+typ)
		}
	}
	if len(used) == 0 {
		return ""
	}
	return "(" + strings.Join(used, ", ") + ")"
}

// variable makes an argument one, half of the time.
func (d *drawing) variable(m *many, name, typ string, value any) {
	if rapid.Bool().Draw(d.T, "variable") {
		v := fmt.Sprintf("v%d", len(d.types))
		d.types = append(d.types, typ)
		d.vars[v] = value
		m.vars[name] = "$" + v
	}
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// expectation collects the paths of lists that are too long.
type expectation struct{ paths []string }

func (e *expectation) fail(path []any) { e.paths = append(e.paths, fmt.Sprint(path...)) }

func (d *drawing) root(n *naive, query *strings.Builder, want *expectation, data map[string]any, alias string) {
	c := model[rapid.SampledFrom(slices.Sorted(maps.Keys(model))).Draw(d.T, "class")]
	if rapid.Bool().Draw(d.T, "list") {
		m := d.many(c, 3)
		fmt.Fprintf(query, "%s: %s%s ", alias, c.all, m)
		rows := n.list(c, m.columns(), m.values(), m.order)
		value, _ := n.many(m, rows, []any{alias}, want)
		data[alias] = value
		return
	}
	all := n.list(c, nil, nil, nil)
	q := d.question(c, 3)
	r := rapid.SampledFrom(all).Draw(d.T, "row")
	switch rapid.IntRange(0, 2).Draw(d.T, "by") {
	case 0:
		fmt.Fprintf(query, "%s: node(id: %q) { ... on %s %s } ", alias, c.id(r), c.typ, q)
	case 1:
		fmt.Fprintf(query, "%s: %s(id: %q) %s ", alias, strings.ToLower(c.typ[:1])+c.typ[1:], c.id(r), q)
	default:
		args, by := []string{}, []string{}
		for _, column := range c.key {
			field := c.fieldOf(column)
			args = append(args, fmt.Sprintf("%s: %s", field, literalOf(c.leaf(r, column))))
			by = append(by, strings.ToUpper(field[:1])+field[1:])
		}
		fmt.Fprintf(query, "%s: %sBy%s(%s) %s ", alias, strings.ToLower(c.typ[:1])+c.typ[1:], strings.Join(by, "And"), strings.Join(args, ", "), q)
	}
	value, _ := n.one(c, q, r, []any{alias}, want)
	data[alias] = value
}

func (c *class) fieldOf(column string) string {
	for field, of := range c.fields {
		if of == column {
			return field
		}
	}
	panic(column)
}

func literalOf(v any) string {
	if n, ok := v.(json.Number); ok {
		return n.String()
	}
	return fmt.Sprintf("%q", v)
}

// one answers a question of a row. It is nil, false if a list that must not be null is.
func (n *naive) one(c *class, q question, r row, path []any, want *expectation) (any, bool) {
	out := map[string]any{}
	for _, it := range q {
		path := append(path[:len(path):len(path)], it.alias)
		switch {
		case it.typ:
			out[it.alias] = c.typ
		case it.id:
			out[it.alias] = c.id(r)
		case it.many != nil:
			rows := n.list(it.of, append(it.many.columns(), it.link.there...), append(it.many.values(), texts(r, it.link.here)...), it.many.order)
			value, ok := n.many(it.many, rows, path, want)
			if !ok {
				return nil, false
			}
			out[it.alias] = value
		case it.of != nil:
			out[it.alias] = n.related(it, r, path, want)
		default:
			out[it.alias] = c.leaf(r, c.fields[it.field])
		}
	}
	return out, true
}

func (n *naive) related(it item, r row, path []any, want *expectation) any {
	if slices.Contains(texts(r, it.link.here), "") {
		return nil
	}
	rows := n.list(it.of, it.link.there, texts(r, it.link.here), nil)
	if len(rows) == 0 {
		return nil
	}
	value, _ := n.one(it.of, it.sub, rows[0], path, want)
	return value
}

// many answers what is asked of a list.
func (n *naive) many(m *many, all []row, path []any, want *expectation) (any, bool) {
	rest := all[min(max(m.offset, 0), len(all)):]
	rows, next, previous := rest, false, m.offset > 0
	if m.first >= 0 {
		rows = rows[:min(m.first, len(rows))]
		next, previous = m.first > 0 && len(rest) > m.first, previous && m.first > 0
	}
	if m.last >= 0 {
		next, previous = false, m.first < 0 && m.last > 0 && len(rows) > m.last
		rows = rows[max(len(rows)-m.last, 0):]
	}
	if m.first < 0 && m.last < 0 && len(rest) > n.page && m.needsRows() {
		want.fail(path)
		return nil, false
	}
	out := map[string]any{}
	for _, part := range m.parts {
		switch part {
		case "nodes":
			out[part] = n.each(m.of, m.nodes, rows, append(path[:len(path):len(path)], part), nil, want)
		case "edges":
			out[part] = n.each(m.of, m.edges, rows, append(path[:len(path):len(path)], part), []any{"node"}, want)
		case "pageInfo":
			out[part] = map[string]any{"hasNextPage": next, "hasPreviousPage": previous}
		default:
			out[part] = json.Number(fmt.Sprint(len(all)))
		}
	}
	return out, true
}

func (m *many) needsRows() bool {
	return slices.Contains(m.parts, "nodes") || slices.Contains(m.parts, "edges")
}

func (n *naive) each(c *class, q question, rows []row, path, below []any, want *expectation) any {
	list := []any{}
	for i, r := range rows {
		at := append(append(path[:len(path):len(path)], i), below...)
		value, _ := n.one(c, q, r, at, want)
		if below != nil {
			value = map[string]any{"node": value}
		}
		list = append(list, value)
	}
	return list
}
