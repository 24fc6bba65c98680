package schema

import (
	"fmt"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// derive makes the type that an entry stands for.
func (s *Schema) derive(e entry, name string) *Type {
	c := catalog.ClassID(e.id)
	switch e.kind {
	case rowType:
		return s.row(c, name)
	case connectionType:
		return connection(name, s.typeName(c)+"Edge", Ref{Name: s.typeName(c)}, &Type{Class: c}, Bind{Class: c})
	case edgeType:
		return edge(name, Ref{Name: s.typeName(c)}, &Type{Class: c}, Bind{Class: c})
	case conditionType:
		return s.condition(c, name)
	case orderByType:
		return s.orderBy(c, name)
	case inputType, patchType:
		return s.rowInput(c, name, e.kind)
	case createInput, updateInput, updateKeyInput, deleteInput, deleteKeyInput:
		return s.changeInput(c, name, e)
	case createPayload, updatePayload, deletePayload:
		return s.changePayload(c, name, e.kind)
	case procConnection, procEdge, procRecord, procInput, procPayload:
		return s.deriveProc(e, name)
	case rowEnum:
		return s.rowEnum(int(e.id), name)
	default:
		return s.derivePg(e, name)
	}
}

// derivePg makes the types of PostgreSQL types.
func (s *Schema) derivePg(e entry, name string) *Type {
	id := catalog.TypeID(e.id)
	typ := &s.catalog.Types[id]
	_, text := parseComment(typ.Comment)
	t := &Type{Name: name, Description: text, Pg: id}
	switch e.kind {
	case ownType:
		return s.ownType(id, name, text)
	case ownInput:
		return s.ownInput(id, name)
	case rangeType:
		element, _ := s.leafName(typ.Element, false)
		t.Kind, t.Description = Object, say(0, "A range of `%s`.", element)
		t.Fields = []Field{
			{Name: "start", Description: "The starting bound of our range.", Type: Ref{Name: name + "Bound"}, Bind: Bind{Op: OpRangeStart, Pg: id}},
			{Name: "end", Description: "The ending bound of our range.", Type: Ref{Name: name + "Bound"}, Bind: Bind{Op: OpRangeEnd, Pg: id}},
		}
	case boundType:
		element, _ := s.leafName(typ.Element, false)
		t.Kind, t.Description = Object, boundText
		t.Fields = []Field{
			{Name: "value", Description: "The value at one end of our range.", Type: Ref{Name: element, NonNull: true}, Bind: Bind{Op: OpBoundValue, Pg: typ.Element}},
			{Name: "inclusive", Description: inclusiveText, Type: Ref{Name: "Boolean", NonNull: true}, Bind: Bind{Op: OpBoundInclusive}},
		}
	case rangeInput:
		element, _ := s.leafName(typ.Element, false)
		input, _ := s.leafName(typ.Element, true)
		t.Kind, t.Description = Input, say(0, "A range of `%s`.", input)
		bound := Ref{Name: element + "RangeBoundInput"}
		t.Inputs = []InputValue{
			{Name: "start", Description: "The starting bound of our range.", Type: bound, Bind: InputBind{Op: InRangeStart}},
			{Name: "end", Description: "The ending bound of our range.", Type: bound, Bind: InputBind{Op: InRangeEnd}},
		}
	case boundInput:
		element, _ := s.leafName(typ.Element, true)
		t.Kind, t.Description = Input, boundText
		t.Inputs = []InputValue{
			{Name: "value", Description: "The value at one end of our range.", Type: Ref{Name: element, NonNull: true}, Bind: InputBind{Op: InBoundValue, Pg: typ.Element}},
			{Name: "inclusive", Description: inclusiveText, Type: Ref{Name: "Boolean", NonNull: true}, Bind: InputBind{Op: InBoundInclusive}},
		}
	}
	return t
}

// ownType makes the type of an enum, of a shape, or of a domain, which is like that of what it is over but for its name and text.
func (s *Schema) ownType(id catalog.TypeID, name, text string) *Type {
	t := &Type{Name: name, Description: say(0, "%s", text), Pg: id}
	base := &s.catalog.Types[s.baseOf(id)]
	switch {
	case base.Kind == 'e':
		t.Kind, t.Values = Enum, s.enumValues(base)
	case base.Kind == 'c':
		t.Kind, t.Class, t.Fields = Object, base.Class, firstOfEachName(s.columnFields(base.Class))
	case base.OID == oidInterval:
		t.Kind, t.Fields = Object, intervalFields()
	case isShape(base):
		s.shapeType(base.OID, t)
		if &s.catalog.Types[id] == base {
			t.Description = shapes[base.OID].text
		}
	}
	return t
}

// ownInput makes the input of a shape, or of a domain over one, a composite type or an interval.
func (s *Schema) ownInput(id catalog.TypeID, name string) *Type {
	base := &s.catalog.Types[s.baseOf(id)]
	if base.Kind == 'c' {
		t := s.rowInput(base.Class, name, inputType)
		t.Description, t.Pg = "An input for mutations affecting `"+strings.TrimSuffix(name, "Input")+"`", id
		return t
	}
	t := &Type{Name: name, Kind: Input, Pg: id}
	if !isShape(base) {
		t.Inputs = intervalInputs()
		return t
	}
	s.shapeInput(base.OID, t)
	if &s.catalog.Types[id] == base {
		t.Description = shapes[base.OID].text
	}
	return t
}

const (
	boundText     = "The value at one end of a range. A range can either include this value, or not."
	inclusiveText = "Whether or not the value of this bound is included in the range."
)

// enumValues keeps every label: one that no rule can name gets a name of its own, told from its neighbours by a number.
func (s *Schema) enumValues(t *catalog.Type) (values []EnumValue) { return s.labelled(t.Labels) }

func (s *Schema) labelled(labels catalog.Range) (values []EnumValue) {
	seen := map[string]bool{}
	for i := range int(labels.N) {
		label := s.catalog.Labels[int(labels.From)+i]
		name, _ := labelName(label)
		for n := 2; seen[name]; n++ {
			base, _ := labelName(label)
			name = fmt.Sprintf("%s_%d", base, n)
		}
		seen[name] = true
		values = append(values, EnumValue{Name: name, Label: label})
	}
	return values
}

// described is a field's text and the reason for its deprecation.
func described(comment string) (text, deprecated string) {
	tags, text := parseComment(comment)
	return text, tags.deprecation()
}
