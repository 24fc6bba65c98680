package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// ref is a field that a path of relations leads to: what @ref and @refVia say.
type ref struct {
	class, target catalog.ClassID
	name          string
	singular      bool
	tags          tags
	paths         [][]Hop
}

// Hop is a relation of a path: to the rows of Class whose Columns are what Near are in the row before.
type Hop struct {
	Class         catalog.ClassID
	Columns, Near []catalog.ColumnID
	Many          bool // it goes against a foreign key, so there may be several
}

// Paths are those that a field with OpRef or OpRefOne is made of, by its Bind's Index. A row that any of them leads to belongs.
func (s *Schema) Paths(index uint16) [][]Hop { return s.refs[index].paths }

// refTag is the value of @ref, or @refVia: name to:Type from:Type singular via:path behavior:"words".
type refTag struct {
	name   string
	params map[string]string
}

// parseRef reads it. Values with spaces are in double quotes; a word without value is a flag.
func parseRef(value string) (r refTag) {
	r.params = map[string]string{}
	for rest := strings.TrimSpace(value); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		word, quoted := "", false
		n := strings.IndexFunc(rest, func(c rune) bool {
			quoted = quoted != (c == '"')
			return !quoted && (c == ' ' || c == '\t')
		})
		if n < 0 {
			n = len(rest)
		}
		word, rest = rest[:n], rest[n:]
		key, v, ok := strings.Cut(word, ":")
		switch {
		case !ok && r.name == "":
			r.name = word
		default:
			if unquoted, cut := strings.CutPrefix(v, `"`); cut && strings.HasSuffix(unquoted, `"`) {
				v = strings.TrimSuffix(unquoted, `"`)
			}
			r.params[key] = v
		}
	}
	return r
}

// step is a part of a path as it is written: "table", "(column, …)->table" or "(column, …)->table(column, …)".
type step struct {
	near, far     []string // none: any
	schema, table string
}

func parsePath(via string) (out []step, ok bool) {
	for _, part := range strings.Split(via, ";") {
		var s step
		part = strings.TrimSpace(part)
		if strings.HasPrefix(part, "(") {
			at := strings.Index(part, ")->")
			if at < 0 {
				return nil, false
			}
			if s.near, ok = columnList(part[:at+1]); !ok {
				return nil, false
			}
			part = strings.TrimSpace(part[at+3:])
			if at := strings.IndexByte(part, '('); at >= 0 {
				if s.far, ok = columnList(part[at:]); !ok {
					return nil, false
				}
				part = part[:at]
			}
		}
		if schema, table, ok := strings.Cut(part, "."); ok {
			s.schema, part = identifier(schema), table
		}
		if s.table = identifier(part); s.table == "" {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// readRefs reads the tags of all tables. What leads nowhere is warned of.
func (b *builder) readRefs() error {
	for _, id := range b.order {
		c := catalog.ClassID(id)
		all := b.classTags(c)
		for _, t := range all {
			if t.name != "ref" {
				continue
			}
			r := parseRef(t.value)
			if why := b.addRef(c, r, viasOf(all, r)); why != "" {
				b.warn("tag @ref %s of table %s is without effect: %s", r.name, b.describe(c), why)
			}
		}
		for _, t := range all {
			if t.name == "refVia" && !slices.ContainsFunc(all, func(x tag) bool { return x.name == "ref" && parseRef(x.value).name == parseRef(t.value).name }) {
				b.warn("tag @refVia %s of table %s is without effect: there is no @ref of that name", t.value, b.describe(c))
			}
		}
	}
	b.refs = exact(b.refs)
	return nil
}

// viasOf are the paths of a ref: its own, and those of each @refVia.
func viasOf(all tags, r refTag) (out []string) {
	if r.params["via"] != "" {
		out = append(out, r.params["via"])
	}
	for _, t := range all {
		if via := parseRef(t.value); t.name == "refVia" && via.name == r.name && via.params["via"] != "" {
			out = append(out, via.params["via"])
		}
	}
	return out
}

// addRef says why a ref cannot be, if it cannot.
func (b *builder) addRef(c catalog.ClassID, r refTag, vias []string) (why string) {
	x := ref{class: c, name: strings.Clone(r.name), tags: tagsOf("@behavior " + r.params["behavior"])}
	_, x.singular = r.params["singular"]
	_, plural := r.params["plural"]
	switch {
	case !validName(r.name):
		return "its name is none in GraphQL"
	case x.singular && plural:
		return "it cannot be both singular and plural"
	case slices.ContainsFunc(b.refs, func(o ref) bool { return o.class == c && o.name == r.name }):
		return "there is another of that name"
	case len(vias) == 0:
		return "it says no path: write via:table;table or via:(column)->table(column);…"
	}
	many := false
	for _, via := range vias {
		path, why := b.walkPath(c, via)
		if why != "" {
			return why
		}
		x.paths = append(x.paths, path)
		many = many || slices.ContainsFunc(path, func(h Hop) bool { return h.Many })
		if target := path[len(path)-1].Class; x.target != 0 && target != x.target {
			return "its paths lead to different tables, and unions are not made"
		}
		x.target = path[len(path)-1].Class
	}
	switch to, from := r.params["to"], r.params["from"]; {
	case to != "" && to != b.typeName(x.target), from != "" && from != b.typeName(c):
		return fmt.Sprintf("its path leads from %s to %s, and interfaces and unions are not made", b.typeName(c), b.typeName(x.target))
	case !many && !x.singular:
		return "its path leads to one row: write singular"
	}
	b.refs = append(b.refs, x)
	return ""
}

// walkPath finds the relations of a path.
func (b *builder) walkPath(c catalog.ClassID, via string) (path []Hop, why string) {
	steps, ok := parsePath(via)
	if !ok {
		return nil, fmt.Sprintf("%q is not understood: write table, or (column, …)->table(column, …), with semicolons between", via)
	}
	at := c
	for _, s := range steps {
		to := b.classNamed(s.schema, s.table, c)
		if to == 0 {
			return nil, fmt.Sprintf("%s is not exposed", strings.TrimPrefix(s.schema+"."+s.table, "."))
		}
		found := b.hops(at, to, s)
		switch {
		case len(found) == 0:
			return nil, fmt.Sprintf("there is no such relation from %s to %s", b.describe(at), b.describe(to))
		case len(found) > 1:
			b.warn("a path of a tag @ref of table %s may go by several relations from %s to %s, and takes the first: write (column)->table(column)", b.describe(c), b.describe(at), b.describe(to))
		}
		path, at = append(path, found[0]), to
	}
	return path, ""
}

// hops are the relations from one table to another that a step may mean.
func (b *builder) hops(at, to catalog.ClassID, s step) (found []Hop) {
	add := func(h Hop) {
		if h.Class == to && b.named(h.Near, s.near) && b.named(h.Columns, s.far) {
			found = append(found, h)
		}
	}
	for _, r := range relationsOf(b.forward, at) {
		k := b.foreignKey(r.id)
		add(Hop{k.Foreign, k.ForeignColumns, k.Columns, false})
	}
	for _, r := range relationsOf(b.backward, at) {
		k := b.foreignKey(r.id)
		add(Hop{k.Class, k.Columns, k.ForeignColumns, true})
	}
	return found
}

// named tells whether columns have these names, in order; none stand for any.
func (b *builder) named(columns []catalog.ColumnID, names []string) bool {
	return names == nil || slices.EqualFunc(columns, names, func(c catalog.ColumnID, name string) bool { return b.catalog.Columns[c].Name == name })
}

// refFields are the fields of a table's refs.
func (s *Schema) refFields(c catalog.ClassID) (fields []Field) {
	for i := range s.refs {
		r := &s.refs[i]
		if r.class != c {
			continue
		}
		what, other := "manyRelation:resource:connection", s.typeName(r.target)
		f := Field{Name: r.name, Deprecated: s.classTags(r.target).deprecation(), Bind: Bind{Op: OpRef, Class: r.target, Index: uint16(i)}}
		if r.singular {
			what = "singularRelation:resource:single"
			f.Bind.Op, f.Type = OpRefOne, Ref{Name: other}
			f.Description = say(2, "Reads a single `%s` that is related to this `%s`.", other, s.typeName(c))
		} else {
			f.Type, f.Args = Ref{Name: other + "Connection", NonNull: true}, s.connectionArgs(r.target, "manyRelation")
			f.Description = say(2, "Reads and enables pagination through a set of `%s`.", other)
		}
		if matches(what, s.classes[r.target].readable, s.classTags(r.target), r.tags) {
			fields = append(fields, f)
		}
	}
	return fields
}

// warnOfHiddenRefs names those whose name another field has.
func (s *Schema) warnOfHiddenRefs() {
	for i := range s.refs {
		r := &s.refs[i]
		t := s.row(r.class, s.typeName(r.class))
		if t == nil {
			continue
		}
		if f := t.Field(r.name); f != nil && f.Bind.Op != OpRef && f.Bind.Op != OpRefOne {
			s.warnings = append(s.warnings, fmt.Sprintf("tag @ref %s of table %s is without effect: another field has that name", r.name, s.describe(r.class)))
		}
	}
}

func sizeOfRefs(refs []ref) int64 {
	n := sizeOf(refs)
	for _, r := range refs {
		n += r.tags.size() + int64(len(r.name)+7)&^7 + sizeOf(r.paths)
		for _, p := range r.paths {
			n += sizeOf(p)
			for _, h := range p {
				n += sizeOf(h.Columns) + sizeOf(h.Near)
			}
		}
	}
	return n
}
