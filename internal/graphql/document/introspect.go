package document

import (
	"hash/maphash"
	"io"
	"slices"

	"github.com/leveehq/levee/internal/graphql/pgvalue"
	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
)

// flushBytes is how much of an answer waits for its write.
const flushBytes = 8 << 10

// WriteIntrospection writes the JSON value of a root field __schema or __type. The field's selection set must hold what
// all fields with its response name select. The answer is written as types are derived; none is kept, only the kinds of
// those met, at some 16 bytes per type. An error of w ends it.
func WriteIntrospection(w io.Writer, s AllTypes, f *ast.Field, vars map[string]any) error {
	x := &introspector{w: w, schema: s, kinds: map[uint64]schema.Kind{}, buf: make([]byte, 0, flushBytes+1<<10)}
	sel := compile(f.SelectionSet, vars)
	if f.Name == "__schema" {
		x.schemaObject(sel)
	} else {
		name := stringOf(f.Arguments.ForName("name"), vars)
		t := x.derive(name)
		if t == nil {
			x.raw("null")
		} else {
			x.named(sel, t.Name, t)
		}
	}
	x.flush()
	return x.err
}

// selected is a field of introspection with all that is merged into it.
type selected struct {
	key        string // the response name as JSON, with its colon
	field      string
	deprecated bool // includeDeprecated
	sub        []selected
}

// compile merges fields and resolves fragments, @skip and @include once, so that writing many types does none of that.
// Every type of introspection is an object of its own, so the conditions of fragments always hold.
func compile(set ast.SelectionSet, vars map[string]any) []selected {
	c := selectionCompiler{vars: vars}
	c.collect(set)
	out := make([]selected, len(c.fields))
	for i, fields := range c.fields {
		var sub ast.SelectionSet
		for _, f := range fields {
			sub = append(sub, f.SelectionSet...)
		}
		first := fields[0]
		out[i] = selected{
			key:        string(append(pgvalue.AppendString(nil, first.Alias), ':')),
			field:      first.Name,
			deprecated: flag(first.Arguments.ForName("includeDeprecated"), vars),
			sub:        compile(sub, vars),
		}
	}
	return out
}

type selectionCompiler struct {
	vars   map[string]any
	fields [][]*ast.Field // by response name
}

func (c *selectionCompiler) collect(set ast.SelectionSet) {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			if included(s.Directives, c.vars) {
				c.add(s)
			}
		case *ast.InlineFragment:
			if included(s.Directives, c.vars) {
				c.collect(s.SelectionSet)
			}
		case *ast.FragmentSpread:
			if included(s.Directives, c.vars) {
				c.collect(s.Definition.SelectionSet)
			}
		}
	}
}

func (c *selectionCompiler) add(f *ast.Field) {
	i := slices.IndexFunc(c.fields, func(g []*ast.Field) bool { return g[0].Alias == f.Alias })
	if i < 0 {
		c.fields = append(c.fields, []*ast.Field{f})
		return
	}
	c.fields[i] = append(c.fields[i], f)
}

func flag(a *ast.Argument, vars map[string]any) bool { return a != nil && isTrue(a.Value, vars) }

func stringOf(a *ast.Argument, vars map[string]any) string {
	switch {
	case a == nil:
		return ""
	case a.Value.Kind == ast.Variable:
		s, _ := vars[a.Value.Raw].(string)
		return s
	default:
		return a.Value.Raw
	}
}

// introspector writes one answer.
type introspector struct {
	w      io.Writer
	schema AllTypes
	kinds  map[uint64]schema.Kind // by hash of the name: a type is derived for its kind once
	buf    []byte
	err    error
}

var kindSeed = maphash.MakeSeed()

func (x *introspector) derive(name string) *schema.Type {
	if t := introspected().types[name]; t != nil {
		return t
	}
	return typeNamed(x.schema, name)
}

// kind avoids deriving the root types, to which every payload refers.
func (x *introspector) kind(name string) schema.Kind {
	if name == queryType || name == x.schema.MutationType() {
		return schema.Object
	}
	key := maphash.String(kindSeed, name)
	kind, ok := x.kinds[key]
	if !ok {
		if t := x.derive(name); t != nil {
			kind = t.Kind
		}
		x.kinds[key] = kind
	}
	return kind
}

func (x *introspector) flush() {
	if x.err == nil && len(x.buf) > 0 {
		_, x.err = x.w.Write(x.buf)
	}
	x.buf = x.buf[:0]
}

func (x *introspector) raw(s string) { x.buf = append(x.buf, s...) }

func (x *introspector) string(s string) {
	x.buf = pgvalue.AppendString(x.buf, s)
	if len(x.buf) >= flushBytes {
		x.flush()
	}
}

// text is a description or reason: null if there is none.
func (x *introspector) text(s string) {
	if s == "" {
		x.raw("null")
		return
	}
	x.string(s)
}

func (x *introspector) boolean(b bool) {
	if b {
		x.raw("true")
	} else {
		x.raw("false")
	}
}
