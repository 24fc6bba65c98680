package schema

import "iter"

// FieldsOf walks the fields of a type. Those of the roots, of which there may be a hundred thousand, are derived on the way.
func (s *Schema) FieldsOf(name string) iter.Seq[Field] {
	return func(yield func(Field) bool) {
		switch {
		case name == "Query":
			s.queryFieldsTo(yield)
		case name == "Mutation":
			for _, e := range s.changes.ordered(s.place) {
				if !yield(s.mutationField(e)) {
					return
				}
			}
		default:
			if t := s.Type(name); t != nil {
				for _, f := range t.Fields {
					if !yield(f) {
						return
					}
				}
			}
		}
	}
}

func (s *Schema) queryFieldsTo(yield func(Field) bool) {
	for _, f := range queryFields {
		if !yield(f) {
			return
		}
	}
	for _, e := range s.queries.ordered(s.place) {
		if !yield(s.queryField(e)) {
			return
		}
	}
}

// rootHead is a root type without its fields.
func rootHead(name string) *Type {
	if name == "Mutation" {
		return &Type{Name: name, Kind: Object, Description: "The root mutation type which contains root level fields which mutate data."}
	}
	return &Type{Name: name, Kind: Object, Description: queryDescription, Implements: []string{"Node"}}
}

// rootType derives a whole root type.
func (s *Schema) rootType(name string) *Type {
	t := rootHead(name)
	for f := range s.FieldsOf(name) {
		t.Fields = append(t.Fields, f)
	}
	return t
}

// Types walks all types that the roots reach, in the order of the SDL: a type, what it implements, then for each field its
// type and those of its arguments. The built-in scalars that are used are among them. The roots come whole.
func (s *Schema) Types() iter.Seq[*Type] { return s.walk(s.rootType) }

// walk is Types with root to make the root types.
func (s *Schema) walk(root func(name string) *Type) iter.Seq[*Type] {
	return func(yield func(*Type) bool) {
		w := walker{schema: s, root: root, seen: map[uint64]struct{}{}, yield: yield}
		if w.visit("Query") && s.MutationType() != "" {
			w.visit("Mutation")
		}
	}
}

type walker struct {
	schema *Schema
	root   func(name string) *Type
	seen   map[uint64]struct{}
	yield  func(*Type) bool
}

// visit is false when the asker has had enough.
func (w *walker) visit(name string) bool {
	hash := hashOf(name)
	if _, ok := w.seen[hash]; ok {
		return true
	}
	w.seen[hash] = struct{}{}
	if name == "Query" || name == "Mutation" {
		return w.visitRoot(w.root(name))
	}
	t := w.schema.Type(name)
	if t == nil {
		return true
	}
	if !w.yield(t) || !w.interfaces(t) {
		return false
	}
	for i := range t.Fields {
		if !w.field(&t.Fields[i]) {
			return false
		}
	}
	return w.inputs(t.Inputs)
}

func (w *walker) visitRoot(t *Type) bool {
	if !w.yield(t) || !w.interfaces(t) {
		return false
	}
	for f := range w.schema.FieldsOf(t.Name) {
		if !w.field(&f) {
			return false
		}
	}
	return true
}

func (w *walker) interfaces(t *Type) bool {
	for _, of := range t.Implements {
		if !w.visit(of) {
			return false
		}
	}
	return true
}

func (w *walker) field(f *Field) bool { return w.visit(f.Type.Name) && w.inputs(f.Args) }

func (w *walker) inputs(in []InputValue) bool {
	for i := range in {
		if !w.visit(in[i].Type.Name) {
			return false
		}
	}
	return true
}
