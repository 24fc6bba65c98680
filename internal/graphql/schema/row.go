package schema

import (
	"slices"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

func nodeIDField(c catalog.ClassID) Field {
	return Field{Name: "id", Description: "A globally unique identifier. Can be used in various places throughout the system to identify this single value.",
		Type: Ref{Name: "ID", NonNull: true}, Bind: Bind{Op: OpNodeID, Class: c}}
}

// row makes the type of a table's rows or of a composite type. Two fields of one name cannot be: the first stays, and
// columns are told apart from relations by their own names as a rule.
func (s *Schema) row(c catalog.ClassID, name string) *Type {
	k := &s.catalog.Classes[c]
	_, text := parseComment(k.Comment)
	t := &Type{Name: name, Kind: Object, Class: c, Description: text, Pg: k.Type}
	if k.Kind == 'c' && text == "" {
		_, t.Description = parseComment(s.catalog.Types[k.Type].Comment)
	}
	if _, node := s.NodeKey(c); node && s.classes[c].shown {
		t.Implements = []string{"Node"}
		t.Fields = append(t.Fields, nodeIDField(c))
	}
	t.Fields = append(t.Fields, s.computedFields(c)...)
	t.Fields = append(t.Fields, s.columnFields(c)...)
	if s.classes[c].shown {
		t.Fields = append(t.Fields, s.forwardFields(c)...)
		t.Fields = append(t.Fields, s.backwardFields(c)...)
	}
	t.Fields = firstOfEachName(t.Fields)
	return t
}

func firstOfEachName(fields []Field) []Field {
	seen := make(map[string]bool, len(fields))
	return slices.DeleteFunc(fields, func(f Field) bool {
		again := seen[f.Name] || !validName(f.Name)
		seen[f.Name] = true
		return again
	})
}

// columnsOf walks the columns that are for use, with their tags and text.
func (s *Schema) columnsOf(c catalog.ClassID, with catalog.ColumnFlags, unless string, each func(id catalog.ColumnID, column *catalog.Column, tags tags, text string)) {
	k := &s.catalog.Classes[c]
	for i := range uint32(k.Columns.N) {
		id := catalog.ColumnID(k.Columns.From + i)
		column := &s.catalog.Columns[id]
		tags, text := parseComment(s.catalog.Comment(column.Comment))
		if k.Kind != 'c' && s.classes[c].shown && column.Flags&with != with || tags.forbids(unless) {
			continue
		}
		each(id, column, tags, text)
	}
}

func (s *Schema) columnFields(c catalog.ClassID) (fields []Field) {
	s.columnsOf(c, catalog.CanSelect, "select", func(id catalog.ColumnID, column *catalog.Column, tags tags, text string) {
		notNull := column.Flags&catalog.NotNull != 0 || tags.has("notNull") || s.inVirtualPrimaryKey(c, id)
		ref, ok := s.refOf(column.Type, notNull, false)
		if !ok {
			return
		}
		_, deprecated := described(s.catalog.Comment(column.Comment))
		fields = append(fields, Field{Name: camel(s.columnName(id)), Description: text, Deprecated: deprecated, Type: ref,
			Bind: Bind{Op: OpColumn, Class: c, Column: id, Pg: column.Type}})
	})
	return fields
}

// inVirtualPrimaryKey is true for columns whose owner has promised, by a tag, what a primary key is: that they are not null.
func (s *Schema) inVirtualPrimaryKey(c catalog.ClassID, id catalog.ColumnID) bool {
	for _, k := range s.classes[c].keys {
		if k.Primary && slices.Contains(k.Columns, id) {
			return true
		}
	}
	return false
}

// relationsOf is the part of list that belongs to class c.
func relationsOf(list []relation, c catalog.ClassID) []relation {
	from, _ := slices.BinarySearchFunc(list, c, func(r relation, c catalog.ClassID) int { return int(r.of) - int(c) })
	to := from
	for to < len(list) && list[to].of == c {
		to++
	}
	return list[from:to]
}

func (s *Schema) forwardFields(c catalog.ClassID) (fields []Field) {
	for _, r := range relationsOf(s.forward, c) {
		k := s.foreignKey(r.id)
		tags := s.relationTags(r.id)
		if tags.forbids("singularRelation") || tags.forbids("single") {
			continue
		}
		foreign := s.typeName(k.Foreign)
		text := say(2, "Reads a single `%s` that is related to this `%s`.", foreign, s.typeName(c))
		if own := tags.get("forwardDescription"); own != "" {
			text = own
		}
		fields = append(fields, Field{Name: s.forwardName(r.id, k), Description: text, Deprecated: tags.all("deprecated"), Type: Ref{Name: foreign},
			Bind: Bind{Op: OpForward, Class: c, ForeignKey: k}})
	}
	return fields
}

func (s *Schema) backwardFields(c catalog.ClassID) (fields []Field) {
	for _, r := range relationsOf(s.backward, c) {
		k := s.foreignKey(r.id)
		tags := s.relationTags(r.id)
		if tags.forbids("manyRelation") || tags.forbids("connection") && !k.Unique {
			continue
		}
		f := Field{Name: s.backwardName(r.id, k), Deprecated: tags.all("deprecated"), Bind: Bind{Op: OpBackward, Class: c, ForeignKey: k}}
		other := s.typeName(k.Class)
		if k.Unique {
			f.Bind.Op, f.Type = OpBackwardOne, Ref{Name: other}
			f.Description = say(2, "Reads a single `%s` that is related to this `%s`.", other, s.typeName(c))
		} else {
			f.Type, f.Args = Ref{Name: other + "Connection", NonNull: true}, s.connectionArgs(k.Class)
			f.Description = say(2, "Reads and enables pagination through a set of `%s`.", other)
		}
		if own := tags.get("backwardDescription"); own != "" {
			f.Description = own
		}
		fields = append(fields, f)
	}
	return fields
}

// Arguments of connections.
var (
	argFirst  = InputValue{Name: "first", Description: "Only read the first `n` values of the set.", Type: Ref{Name: "Int"}, Bind: InputBind{Op: InFirst}}
	argLast   = InputValue{Name: "last", Description: "Only read the last `n` values of the set.", Type: Ref{Name: "Int"}, Bind: InputBind{Op: InLast}}
	argOffset = InputValue{Name: "offset", Description: "Skip the first `n` values from our `after` cursor, an alternative to cursor\nbased pagination. May not be used with `last`.",
		Type: Ref{Name: "Int"}, Bind: InputBind{Op: InOffset}}
	argBefore = InputValue{Name: "before", Description: "Read all values in the set before (above) this cursor.", Type: Ref{Name: "Cursor"}, Bind: InputBind{Op: InBefore}}
	argAfter  = InputValue{Name: "after", Description: "Read all values in the set after (below) this cursor.", Type: Ref{Name: "Cursor"}, Bind: InputBind{Op: InAfter}}
)

func (s *Schema) connectionArgs(c catalog.ClassID) []InputValue {
	args := []InputValue{argFirst, argLast, argOffset, argBefore, argAfter}
	name := s.typeName(c)
	if s.hasCondition(c) {
		args = append(args, InputValue{Name: "condition", Description: "A condition to be used in determining which values should be returned by the collection.",
			Type: Ref{Name: name + "Condition"}, Bind: InputBind{Op: InCondition}})
	}
	return append(args, s.orderByArg(c, Ref{Name: name + "OrderBy", List: true, ItemNonNull: true}))
}

func (s *Schema) orderByArg(c catalog.ClassID, ref Ref) InputValue {
	order := "[NATURAL]"
	if _, ok := s.NodeKey(c); ok {
		order = "[PRIMARY_KEY_ASC]"
	}
	return InputValue{Name: "orderBy", Description: say(4, "The method to use when ordering `%s`.", s.typeName(c)), Type: ref, Default: order, Bind: InputBind{Op: InOrderBy}}
}

// filterable tells whether conditions and orderings have the column: it is in an index, so that using it costs no more than
// reading a part of the table. Views have none, and PostgreSQL may use those below.
func (s *Schema) filterable(c catalog.ClassID, column *catalog.Column, tags tags, what string) bool {
	if tags.allows(what) {
		return true
	}
	return column.Flags&catalog.Indexed != 0 || s.catalog.Classes[c].Kind == 'v'
}

func (s *Schema) hasCondition(c catalog.ClassID) bool { return len(s.conditionInputs(c)) > 0 }

func (s *Schema) conditionInputs(c catalog.ClassID) (inputs []InputValue) {
	s.columnsOf(c, catalog.CanSelect, "filterBy", func(id catalog.ColumnID, column *catalog.Column, tags tags, text string) {
		ref, ok := s.refOf(column.Type, false, true)
		if !ok || !s.filterable(c, column, tags, "filterBy") || !s.comparable(column.Type) {
			return
		}
		ref.NonNull = false
		name := camel(s.columnName(id))
		inputs = append(inputs, InputValue{Name: name, Description: say(2, "Checks for equality with the object’s `%s` field.", name), Type: ref,
			Bind: InputBind{Op: InColumn, Column: id, Pg: column.Type}})
	})
	return inputs
}

// comparable leaves out what has no equality: json.
func (s *Schema) comparable(t catalog.TypeID) bool {
	base := &s.catalog.Types[s.baseOf(t)]
	return base.OID != 114
}

func (s *Schema) condition(c catalog.ClassID, name string) *Type {
	inputs := s.conditionInputs(c)
	if len(inputs) == 0 {
		return nil
	}
	return &Type{Name: name, Kind: Input, Class: c, Inputs: inputs,
		Description: say(0, "A condition to be used against `%s` object types. All fields are tested for equality and combined with a logical ‘and.’", s.typeName(c))}
}

func (s *Schema) orderBy(c catalog.ClassID, name string) *Type {
	t := &Type{Name: name, Kind: Enum, Class: c, Description: say(0, "Methods to use when ordering `%s`.", s.typeName(c))}
	t.Values = append(t.Values, EnumValue{Name: "NATURAL"})
	if _, ok := s.NodeKey(c); ok {
		t.Values = append(t.Values, EnumValue{Name: "PRIMARY_KEY_ASC", Order: Order{Kind: OrderPrimaryKey}}, EnumValue{Name: "PRIMARY_KEY_DESC", Order: Order{Kind: OrderPrimaryKey, Desc: true}})
	}
	s.columnsOf(c, catalog.CanSelect, "orderBy", func(id catalog.ColumnID, column *catalog.Column, tags tags, _ string) {
		if _, ok := s.refOf(column.Type, false, false); !ok || !s.filterable(c, column, tags, "orderBy") || !s.comparable(column.Type) {
			return
		}
		base := constant(s.columnName(id))
		t.Values = append(t.Values, EnumValue{Name: base + "_ASC", Order: Order{Kind: OrderByColumn, Column: id}}, EnumValue{Name: base + "_DESC", Order: Order{Kind: OrderByColumn, Column: id, Desc: true}})
	})
	return t
}

// connection and edge are alike for rows, records and values. of carries Class or Proc, bind what nodes are.
func connection(name, edgeName string, item Ref, of *Type, bind Bind) *Type {
	nodes, edges := bind, bind
	nodes.Op, edges.Op = OpNodes, OpEdges
	return &Type{Name: name, Kind: Object, Class: of.Class, Proc: of.Proc, HasProc: of.HasProc,
		Description: say(0, "A connection to a list of `%s` values.", item.Name),
		Fields: []Field{
			{Name: "nodes", Description: say(2, "A list of `%s` objects.", item.Name), Type: listOf(item), Bind: nodes},
			{Name: "edges", Description: say(2, "A list of edges which contains the `%s` and cursor to aid in pagination.", item.Name), Type: listOf(Ref{Name: edgeName}), Bind: edges},
			{Name: "pageInfo", Description: "Information to aid in pagination.", Type: Ref{Name: "PageInfo", NonNull: true}, Bind: Bind{Op: OpPageInfo}},
			{Name: "totalCount", Description: say(2, "The count of *all* `%s` you could get from the connection.", item.Name), Type: Ref{Name: "Int", NonNull: true}, Bind: Bind{Op: OpTotalCount}},
		}}
}

func edge(name string, item Ref, of *Type, bind Bind) *Type {
	bind.Op = OpEdgeNode
	return &Type{Name: name, Kind: Object, Class: of.Class, Proc: of.Proc, HasProc: of.HasProc,
		Description: say(0, "A `%s` edge in the connection.", item.Name),
		Fields: []Field{
			{Name: "cursor", Description: "A cursor for use in pagination.", Type: Ref{Name: "Cursor"}, Bind: Bind{Op: OpCursor}},
			{Name: "node", Description: say(2, "The `%s` at the end of the edge.", item.Name), Type: item, Bind: bind},
		}}
}

func listOf(item Ref) Ref { return Ref{Name: item.Name, List: true, NonNull: true} }
