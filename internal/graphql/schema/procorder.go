package schema

import (
	"cmp"
	"slices"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// sortProcs puts the functions into the order of the SDL. The shape's inventor lists them as their types become known: those of
// built-in types first, then those of enums and extensions, ranges, domains, and rows, small ones first. Among equals, few
// types come first, then the results that are known early, then those that an earlier function has too.
func (b *builder) sortProcs() {
	keys := make(map[catalog.ProcID]procKey, len(b.procs))
	slices.SortStableFunc(b.procs, func(x, y proc) int {
		a, z := &b.catalog.Procs[x.id], &b.catalog.Procs[y.id]
		return cmp.Or(cmp.Compare(a.Schema, z.Schema), cmp.Compare(a.Name, z.Name))
	})
	known := map[catalog.TypeID]int{}
	for i, p := range b.procs {
		keys[p.id] = b.procKey(p.id, i, known)
	}
	slices.SortStableFunc(b.procs, func(x, y proc) int {
		a, z := keys[x.id], keys[y.id]
		return cmp.Or(cmp.Compare(a.weight, z.weight), cmp.Compare(a.types, z.types), cmp.Compare(a.result, z.result), cmp.Compare(a.first, z.first))
	})
}

type procKey struct{ weight, types, result, first int }

func (s *Schema) procKey(id catalog.ProcID, i int, known map[catalog.TypeID]int) (k procKey) {
	f := &s.catalog.Procs[id]
	outs := s.outs(f)
	var types []catalog.TypeID
	if len(outs) > 1 {
		for _, a := range outs {
			types = append(types, a.Type)
		}
	} else {
		types = append(types, f.Returns)
	}
	for i := range int(f.Args.N) {
		if a := s.catalog.Args[int(f.Args.From)+i]; a.Mode == 'i' || a.Mode == 'b' {
			types = append(types, a.Type)
		}
	}
	for _, t := range types {
		k.weight = max(k.weight, s.weight(t))
	}
	if _, ok := known[types[0]]; !ok {
		known[types[0]] = i
	}
	k.types, k.result, k.first = len(types), s.weight(types[0]), known[types[0]]
	return k
}

// weight says how late a type is known.
func (s *Schema) weight(t catalog.TypeID) int {
	typ := &s.catalog.Types[t]
	switch {
	case isArray(typ) && s.catalog.Types[typ.Element].Kind != 'b':
		return s.weight(typ.Element)
	case typ.Kind == 'e' || typ.Extension:
		return 1
	case typ.Kind == 'r':
		return 2
	case typ.Kind == 'd':
		return 3 + s.weight(typ.Base)
	case typ.Kind == 'c':
		return 5 + int(s.catalog.Classes[typ.Class].Columns.N)
	default:
		return 0
	}
}
