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
	if k.Type != 0 && (k.Kind == 'c' || s.catalog.Types[k.Type].Comment != "") {
		_, text = parseComment(s.catalog.Types[k.Type].Comment)
	}
	t := &Type{Name: name, Kind: Object, Class: c, Description: text, Pg: k.Type}
	if s.isNode(c) {
		t.Implements = []string{"Node"}
		t.Fields = append(t.Fields, nodeIDField(c))
	}
	t.Fields = append(t.Fields, s.computedFields(c)...)
	t.Fields = append(t.Fields, s.columnFields(c)...)
	if s.classes[c].shown {
		t.Fields = append(t.Fields, s.forwardFields(c)...)
		t.Fields = append(t.Fields, s.backwardFields(c)...)
		t.Fields = append(t.Fields, s.refFields(c)...)
	}
	t.Fields = firstOfEachName(t.Fields)
	if len(t.Fields) == 0 {
		return nil
	}
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

// columnsOf walks the columns that what does not forbid. What only search engines read is not for clients unless a tag says so.
func (s *Schema) columnsOf(c catalog.ClassID, what string, each func(id catalog.ColumnID, column *catalog.Column, tags tags, text string)) {
	k := &s.catalog.Classes[c]
	for i := range uint32(k.Columns.N) {
		id := catalog.ColumnID(k.Columns.From + i)
		column := &s.catalog.Columns[id]
		own, text := parseComment(s.commentOf(column))
		ofType, _ := parseComment(s.catalog.Types[column.Type].Comment)
		if matches(what, s.byDefault(c, id, own, what), ofType, own) {
			each(id, column, own, text)
		}
	}
}

// byDefault tells whether a column has what without a tag: by grants, and for conditions and orderings by its type, and by
// being in an index, so that using it costs no more than reading a part of the table. A class that nobody may read is the
// result of functions only: all of it is for them.
func (s *Schema) byDefault(c catalog.ClassID, id catalog.ColumnID, own tags, what string) bool {
	column := &s.catalog.Columns[id]
	k := &s.class(c).Kind
	if *k == 'c' {
		return true
	}
	base := s.itemOf(column.Type).OID
	if base == oidTSVector || base == oidTSQuery {
		return false
	}
	readable := column.Flags&catalog.CanSelect != 0 || !s.classes[c].readable
	indexed := column.Flags&catalog.Indexed != 0 || !s.hasIndexes(c) || own.has("isIndexed")
	switch what {
	case "attribute:select":
		return readable
	case "attribute:insert":
		return column.Flags&catalog.CanInsert != 0 && column.Flags&catalog.IdentityAlways == 0
	case "attribute:update":
		return column.Flags&catalog.CanUpdate != 0 && column.Flags&catalog.IdentityAlways == 0
	case "condition:attribute:filterBy":
		return readable && indexed && s.comparable(column.Type)
	default:
		return readable && indexed && s.sortable(column.Type) && !s.isEnumColumn(id)
	}
}

func (s *Schema) class(c catalog.ClassID) *catalog.Class { return &s.catalog.Classes[c] }

func (s *Schema) columnFields(c catalog.ClassID) (fields []Field) {
	s.columnsOf(c, "attribute:select", func(id catalog.ColumnID, column *catalog.Column, tags tags, text string) {
		notNull := column.Flags&catalog.NotNull != 0 || tags.has("notNull") || s.inVirtualPrimaryKey(c, id)
		ref, ok := s.columnRef(id, notNull, false)
		if !ok {
			return
		}
		fields = append(fields, Field{Name: camel(s.columnName(id)), Description: text, Deprecated: tags.deprecation(), Type: ref,
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

// Arguments of connections.
var (
	argFirst  = InputValue{Name: "first", Description: "Only read the first `n` values of the set.", Type: Ref{Name: "Int"}, Bind: InputBind{Op: InFirst}}
	argLast   = InputValue{Name: "last", Description: "Only read the last `n` values of the set.", Type: Ref{Name: "Int"}, Bind: InputBind{Op: InLast}}
	argOffset = InputValue{Name: "offset", Description: "Skip the first `n` values from our `after` cursor, an alternative to cursor\nbased pagination. May not be used with `last`.",
		Type: Ref{Name: "Int"}, Bind: InputBind{Op: InOffset}}
	argBefore = InputValue{Name: "before", Description: "Read all values in the set before (above) this cursor.", Type: Ref{Name: "Cursor"}, Bind: InputBind{Op: InBefore}}
	argAfter  = InputValue{Name: "after", Description: "Read all values in the set after (below) this cursor.", Type: Ref{Name: "Cursor"}, Bind: InputBind{Op: InAfter}}
)

// connectionArgs are those of a connection of a class's rows in a place: query, manyRelation.
func (s *Schema) connectionArgs(c catalog.ClassID, place string) []InputValue {
	args := []InputValue{argFirst, argLast, argOffset, argBefore, argAfter}
	name, tags := s.typeName(c), s.classTags(c)
	if matches(place+":resource:connection:filter", true, tags) && len(s.conditionInputs(c)) > 0 {
		args = append(args, InputValue{Name: "condition", Description: "A condition to be used in determining which values should be returned by the collection.",
			Type: Ref{Name: name + "Condition"}, Bind: InputBind{Op: InCondition}})
	}
	if !matches("order", true, tags) {
		return args
	}
	return append(args, s.orderByArg(c, Ref{Name: name + "OrderBy", List: true, ItemNonNull: true}))
}

func (s *Schema) orderByArg(c catalog.ClassID, ref Ref) InputValue {
	order := "[NATURAL]"
	if s.hasPrimary(c) {
		order = "[PRIMARY_KEY_ASC]"
	}
	return InputValue{Name: "orderBy", Description: say(4, "The method to use when ordering `%s`.", s.typeName(c)), Type: ref, Default: order, Bind: InputBind{Op: InOrderBy}}
}

func (s *Schema) conditionInputs(c catalog.ClassID) (inputs []InputValue) {
	s.columnsOf(c, "condition:attribute:filterBy", func(id catalog.ColumnID, column *catalog.Column, _ tags, _ string) {
		ref, ok := s.columnRef(id, false, true)
		if !ok {
			return
		}
		ref.NonNull = false
		name := camel(s.columnName(id))
		inputs = append(inputs, InputValue{Name: name, Description: say(2, "Checks for equality with the object’s `%s` field.", name), Type: ref,
			Bind: InputBind{Op: InColumn, Column: id, Pg: column.Type}})
	})
	return inputs
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
	if s.hasPrimary(c) {
		t.Values = append(t.Values, EnumValue{Name: "PRIMARY_KEY_ASC", Order: Order{Kind: OrderPrimaryKey}}, EnumValue{Name: "PRIMARY_KEY_DESC", Order: Order{Kind: OrderPrimaryKey, Desc: true}})
	}
	s.columnsOf(c, "attribute:orderBy", func(id catalog.ColumnID, column *catalog.Column, _ tags, _ string) {
		if _, ok := s.refOf(column.Type, false, false); !ok {
			return
		}
		name := s.columnName(id)
		for _, v := range t.Values {
			if v.Name == orderName(name, "_asc") {
				return
			}
		}
		t.Values = append(t.Values, EnumValue{Name: orderName(name, "_asc"), Order: Order{Kind: OrderByColumn, Column: id}}, EnumValue{Name: orderName(name, "_desc"), Order: Order{Kind: OrderByColumn, Column: id, Desc: true}})
	})
	return t
}

func orderName(column, direction string) string { return plainStart(constant(column + direction)) }

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
