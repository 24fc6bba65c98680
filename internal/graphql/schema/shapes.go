package schema

import "github.com/leveehq/levee/internal/graphql/catalog"

// shape is one of PostgreSQL's geometric types, which are objects: its members in the order in which their fields stand.
type shape struct {
	name, text string
	parts      []shapePart
}

type shapePart struct {
	name, text string
	of         string // "Float", "Boolean" or "Point"
	list       bool
	optional   bool // in inputs
}

const isOpenText = "True if this is a closed path (similar to a polygon), false otherwise." // the shape's inventor has it the wrong way round

var (
	twoPoints = []shapePart{{name: "a", of: "Point"}, {name: "b", of: "Point"}}
	anyPoints = shapePart{name: "points", of: "Point", list: true}
)

// shapes are by object id (pg_type.dat).
var shapes = map[uint32]shape{
	oidPoint: {"Point", "A cartesian point.", []shapePart{{name: "x", of: "Float"}, {name: "y", of: "Float"}}},
	601:      {"LineSegment", "An finite line between points 'a' and 'b'.", twoPoints},
	oidPath:  {"Path", "A path (open or closed) made up of points", []shapePart{anyPoints, {name: "isOpen", text: isOpenText, of: "Boolean", optional: true}}},
	603:      {"Box", "A rectangular box defined by two opposite corners 'a' and 'b'", twoPoints},
	604:      {"Polygon", "A polygon made up of points", []shapePart{anyPoints}},
	628:      {"Line", "An infinite line that passes through points 'a' and 'b'.", twoPoints},
	718:      {"Circle", "A circle about the given center point with the given radius", []shapePart{{name: "center", of: "Point"}, {name: "radius", of: "Float"}}},
}

const (
	oidPoint = 600
	oidPath  = 602
)

// pointName is what points are called: Point, unless a table is.
func (s *Schema) pointName() string {
	for id := range s.renamed {
		if s.catalog.Types[id].OID == oidPoint {
			return s.renamed[id]
		}
	}
	return shapes[oidPoint].name
}

// shapeType makes the type of a shape, or of a domain over one.
func (s *Schema) shapeType(base uint32, t *Type) {
	t.Kind = Object
	for i, p := range shapes[base].parts {
		ref := Ref{Name: p.of, NonNull: true, List: p.list, ItemNonNull: p.list}
		if p.of == "Point" {
			ref.Name = s.pointName()
		}
		t.Fields = append(t.Fields, Field{Name: p.name, Description: p.text, Type: ref, Bind: Bind{Op: OpShapePart, Index: uint16(i)}})
	}
}

func (s *Schema) shapeInput(base uint32, t *Type) {
	t.Kind = Input
	for i, p := range shapes[base].parts {
		ref := Ref{Name: p.of, NonNull: !p.optional, List: p.list, ItemNonNull: p.list}
		if p.of == "Point" {
			ref.Name = s.pointName() + "Input"
		}
		t.Inputs = append(t.Inputs, InputValue{Name: p.name, Description: p.text, Type: ref, Bind: InputBind{Op: InShapePart, Index: uint16(i)}})
	}
}

func isShape(t *catalog.Type) bool { return IsShape(t.OID) }

// IsShape tells whether a PostgreSQL type is geometric, by its object id. A domain over one has another.
func IsShape(oid uint32) bool {
	_, ok := shapes[oid]
	return ok
}
