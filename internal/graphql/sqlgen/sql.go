package sqlgen

import (
	"strconv"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// text is SQL with places for parameters, which get their numbers when the fields of a statement are put together.
type text struct {
	parts  []string // one more than params
	params []param
}

// param is a value of a request.
type param struct {
	of   source
	pg   catalog.TypeID // what it is encoded as; 0: source gives text already
	ref  schema.Ref     // how the schema calls that
	conn int            // a value of the connection with this number, if role says so
	role role
}

// role says what a connection's bound values a parameter is.
type role uint8

const (
	fromRequest role = iota // an argument
	limitOf                 // the connection's LIMIT
	offsetOf                // its OFFSET
	afterOf                 // part Index of its cursor after
	beforeOf                // part Index of its cursor before
	nodePart                // part Index of a node id
)

// builder writes SQL.
type builder struct {
	b      strings.Builder
	parts  []string
	params []param
}

func (w *builder) put(parts ...string) {
	for _, s := range parts {
		w.b.WriteString(s)
	}
}

// param leaves a place for a parameter.
func (w *builder) param(p param) {
	w.parts = append(w.parts, w.b.String())
	w.b.Reset()
	w.params = append(w.params, p)
}

func (w *builder) empty() bool { return w.b.Len() == 0 && len(w.params) == 0 }

// guarded has what was written evaluated only where a row is there.
func (w *builder) guarded(there string) *builder {
	g := &builder{}
	g.put("case when ", there, " then ")
	g.add(w.text())
	g.put(" end")
	return g
}

func (w *builder) text() text { return text{append(w.parts, w.b.String()), w.params} }

// add puts in what another builder has written.
func (w *builder) add(t text) {
	for i, part := range t.parts {
		w.put(part)
		if i < len(t.params) {
			w.param(t.params[i])
		}
	}
}

// appendTo writes the text, and appends the values that become its parameters to those before. With limits, values of limits are
// written out instead.
func (t text) appendTo(b *strings.Builder, params, values [][]byte, limits bool) [][]byte {
	for i, part := range t.parts {
		b.WriteString(part)
		switch {
		case i == len(t.params):
		case limits && t.params[i].role == limitOf:
			b.Write(values[i])
		default:
			params = append(params, values[i])
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(len(params)))
		}
	}
	return params
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Names of things are quoted and have their schemas: search_path is the database's business. PostgreSQL finds its own operators
// first; those of extensions are in the schema of their type. Were they looked for by search_path and not found, a citext would be
// compared as text, and nobody would be told.

func (c *compiler) operator(sign string, t catalog.TypeID) string {
	if sign == "=" && c.cat.Types[c.base(t)].OID == oidPoint {
		return " operator(pg_catalog.~=) " // points have no other equality
	}
	if in := c.extension(t); in != "" {
		return " operator(" + in + "." + sign + ") "
	}
	return " " + sign + " "
}

// extension is the quoted schema of an extension's type, or of what a domain is over; "" for other types.
func (c *compiler) extension(t catalog.TypeID) string {
	base := &c.cat.Types[c.base(t)]
	if !base.Extension {
		return ""
	}
	return quote(c.cat.Schemas[base.Schema])
}

func (c *compiler) className(id catalog.ClassID) string {
	k := &c.cat.Classes[id]
	return quote(c.cat.Schemas[k.Schema]) + "." + quote(k.Name)
}

func (c *compiler) typeName(id catalog.TypeID) string {
	t := &c.cat.Types[id]
	return quote(c.cat.Schemas[t.Schema]) + "." + quote(t.Name)
}

func (c *compiler) procName(id catalog.ProcID) string {
	f := &c.cat.Procs[id]
	return quote(c.cat.Schemas[f.Schema]) + "." + quote(f.Name)
}

// rowRef is how SQL refers to a row and its columns.
type rowRef struct {
	whole string // of the row's own type
	dot   string // what comes before a column's name
	joins *joins // rows that relations lead to can be joined; nil: they cannot
	there string // of a row that was joined: whether there is one
}

// tableRow is a row of FROM. Its star keeps it apart from a column that is named like the alias.
func tableRow(alias string) rowRef { return rowRef{whole: alias + ".*", dot: alias + "."} }

// item is what a function in FROM gives, as one value: as is to follow its alias.
func (c *compiler) item(alias string, pg catalog.TypeID) (as, expr string) {
	if c.cat.Types[pg].Kind == 'c' {
		return "", "(" + alias + ".*::" + c.typeName(pg) + ")"
	}
	return "(v)", alias + ".v"
}

// valueRow is a row that is the value of an expression.
func valueRow(expr string) rowRef { return rowRef{whole: expr, dot: "(" + expr + ")."} }

func (c *compiler) column(r rowRef, id catalog.ColumnID) string {
	return r.dot + quote(c.cat.Columns[id].Name)
}
