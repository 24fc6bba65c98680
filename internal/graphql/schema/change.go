package schema

import (
	"github.com/leveehq/levee/internal/graphql/catalog"
)

// rowInput makes the input or patch of a row, or the input of a composite.
func (s *Schema) rowInput(c catalog.ClassID, name string, kind what) *Type {
	k := &s.catalog.Classes[c]
	t := &Type{Name: name, Kind: Input, Class: c, Pg: k.Type, Description: say(0, "An input for mutations affecting `%s`", s.typeName(c))}
	what := "attribute:insert"
	if kind == patchType {
		what = "attribute:update"
		t.Description = say(0, "Represents an update to a `%s`. Fields that are set will be updated.", s.typeName(c))
	}
	s.columnsOf(c, what, func(id catalog.ColumnID, column *catalog.Column, tags tags, text string) {
		const given = catalog.HasDefault | catalog.Generated | catalog.IdentityDefault | catalog.IdentityAlways
		typ := &s.catalog.Types[column.Type]
		notNull := column.Flags&catalog.NotNull != 0 || tags.has("notNull") || typ.Kind == 'd' && typ.NotNull || s.inVirtualPrimaryKey(c, id)
		required := kind == inputType && notNull && column.Flags&given == 0 && !typ.Default && !tags.has("hasDefault")
		ref, ok := s.columnRef(id, required, true)
		if !ok {
			return
		}
		ref.NonNull = required
		t.Inputs = append(t.Inputs, InputValue{Name: camel(s.columnName(id)), Description: text, Type: ref, Bind: InputBind{Op: InColumn, Column: id, Pg: column.Type}})
	})
	if len(t.Inputs) == 0 {
		return nil
	}
	return t
}

var inputMutationID = InputValue{Name: "clientMutationId", Type: Ref{Name: "String"}, Bind: InputBind{Op: InClientMutationID},
	Description: "An arbitrary string value with no semantic meaning. Will be included in the\npayload verbatim. May be used to track mutations by the client."}

var payloadMutationID = Field{Name: "clientMutationId", Type: Ref{Name: "String"}, Bind: Bind{Op: OpClientMutationID},
	Description: "The exact same `clientMutationId` that was provided in the mutation input,\nunchanged and unused. May be used by a client to track mutations."}

var payloadQuery = Field{Name: "query", Type: Ref{Name: "Query"}, Bind: Bind{Op: OpQuery},
	Description: "Our root query field type. Allows us to run any query from our mutation payload."}

// changeInput makes the input of a create, update or delete.
func (s *Schema) changeInput(c catalog.ClassID, name string, e entry) *Type {
	row, table := s.typeName(c), camel(s.tableName(c))
	t := &Type{Name: name, Kind: Input, Class: c, Inputs: []InputValue{inputMutationID}}
	field, verb := map[what]string{updateInput: "update-", updateKeyInput: "update-", deleteInput: "delete-", deleteKeyInput: "delete-"}[e.kind], "updated"
	if field == "delete-" {
		verb = "deleted"
	}
	switch e.kind {
	case createInput:
		t.Description = say(0, "All input for the create `%s` mutation.", row)
		t.Inputs = append(t.Inputs, InputValue{Name: table, Description: say(2, "The `%s` to be created by this mutation.", row),
			Type: Ref{Name: row + "Input", NonNull: true}, Bind: InputBind{Op: InObject}})
		t.Inputs = uniqueInputs(t.Inputs)
		return t
	case updateInput, deleteInput:
		t.Description = say(0, "All input for the `%s` mutation.", camel(field+s.tableName(c)))
		t.Inputs = append(t.Inputs, InputValue{Name: "id", Description: say(2, "The globally unique `ID` which will identify a single `%s` to be %s.", row, verb),
			Type: Ref{Name: "ID", NonNull: true}, Bind: InputBind{Op: InNodeID}})
	default:
		key := s.Keys(c)[e.sub]
		t.Description = say(0, "All input for the `%s` mutation.", camel(field+s.keyName(key)))
		t.Inputs = append(t.Inputs, s.keyInputs(key, true)...)
	}
	if verb == "updated" {
		t.Inputs = append(t.Inputs, InputValue{Name: camel(table + "-patch"), Description: say(2, "An object where the defined keys will be set on the `%s` being updated.", row),
			Type: Ref{Name: row + "Patch", NonNull: true}, Bind: InputBind{Op: InObject}})
	}
	t.Inputs = uniqueInputs(t.Inputs)
	return t
}

// keyInputs are the arguments that a key takes; described ones say what their columns' comments do.
func (s *Schema) keyInputs(k Key, described bool) (inputs []InputValue) {
	for _, id := range k.Columns {
		column := &s.catalog.Columns[id]
		ref, _ := s.columnRef(id, true, true)
		ref.NonNull = true
		text := ""
		if described {
			_, text = parseComment(s.commentOf(column))
		}
		inputs = append(inputs, InputValue{Name: camel(s.columnName(id)), Description: text, Type: ref, Bind: InputBind{Op: InColumn, Column: id, Pg: column.Type}})
	}
	return inputs
}

// changePayload makes the payload of a create, update or delete.
func (s *Schema) changePayload(c catalog.ClassID, name string, kind what) *Type {
	row, tags := s.typeName(c), s.classTags(c)
	verb, behavior := "create", "insert"
	switch kind {
	case updatePayload:
		verb, behavior = "update", "update"
	case deletePayload:
		verb, behavior = "delete", "delete"
	}
	t := &Type{Name: name, Kind: Object, Class: c, Description: say(0, "The output of our %s `%s` mutation.", verb, row)}
	t.Fields = append(t.Fields, payloadMutationID)
	if matches(behavior+":resource:select", s.classes[c].readable, tags) {
		t.Fields = append(t.Fields, Field{Name: camel(s.tableName(c)), Description: say(2, "The `%s` that was %sd by this mutation.", row, verb),
			Type: Ref{Name: row}, Bind: Bind{Op: OpPayloadRow, Class: c}})
		if kind == createPayload {
			t.Fields[1].Deprecated = tags.deprecation()
		}
	}
	if kind == deletePayload && s.isNode(c) && matches("delete:resource:nodeId", true, tags) {
		t.Fields = append(t.Fields, Field{Name: camel("deleted-" + s.tableName(c) + "-id"), Type: Ref{Name: "ID"}, Bind: Bind{Op: OpDeletedID, Class: c}})
	}
	t.Fields = append(t.Fields, payloadQuery)
	if matches("connection", s.classes[c].readable, tags) {
		t.Fields = append(t.Fields, s.payloadEdge(c)...)
	}
	t.Fields = firstOfEachName(t.Fields)
	return t
}

// payloadEdge is there for rows that a cursor can find.
func (s *Schema) payloadEdge(c catalog.ClassID) []Field {
	if !s.hasPrimary(c) || !matches("order", true, s.classTags(c)) {
		return nil
	}
	row := s.typeName(c)
	return []Field{{Name: camel(s.tableName(c) + "-edge"), Description: say(2, "An edge for our `%s`. May be used by Relay 1.", row),
		Deprecated: s.classTags(c).deprecation(), Type: Ref{Name: row + "Edge"},
		Args: []InputValue{s.orderByArg(c, Ref{Name: row + "OrderBy", List: true, ItemNonNull: true, NonNull: true})}, Bind: Bind{Op: OpPayloadEdge, Class: c}}}
}

// mutationField derives one field of Mutation.
func (s *Schema) mutationField(e entry) Field {
	if e.kind == procMutation {
		return s.procMutationField(e)
	}
	c := catalog.ClassID(e.id)
	row, table := s.typeName(c), s.tableName(c)
	f := Field{Deprecated: s.classTags(c).deprecation(), Bind: Bind{Class: c, ByNodeID: e.kind == update || e.kind == remove}}
	verb := ""
	switch e.kind {
	case create:
		verb, f.Bind.Op, f.Description = "create", OpCreate, say(2, "Creates a single `%s`.", row)
	case update:
		verb, f.Bind.Op, f.Description = "update", OpUpdate, say(2, "Updates a single `%s` using its globally unique id and a patch.", row)
	case updateByKey:
		verb, f.Bind.Op, f.Description = "update", OpUpdate, say(2, "Updates a single `%s` using a unique key and a patch.", row)
	case remove:
		verb, f.Bind.Op, f.Description = "delete", OpDelete, say(2, "Deletes a single `%s` using its globally unique id.", row)
	case removeByKey:
		verb, f.Bind.Op, f.Description = "delete", OpDelete, say(2, "Deletes a single `%s` using a unique key.", row)
	}
	object := table
	if e.kind == updateByKey || e.kind == removeByKey {
		f.Bind.Key = s.Keys(c)[e.sub]
		object = s.keyName(f.Bind.Key)
	} else if f.Bind.ByNodeID {
		f.Bind.Key, _ = s.NodeKey(c)
	}
	f.Name = camel(verb + "-" + object)
	f.Type, f.Args = Ref{Name: upperCamel(verb + "-" + table + "-payload")}, inputArg(upperCamel(verb+"-"+object+"-input"))
	return f
}

func inputArg(name string) []InputValue {
	return []InputValue{{Name: "input", Type: Ref{Name: name, NonNull: true}, Bind: InputBind{Op: InInput},
		Description: "The exclusive input argument for this mutation. An object type, make sure to see documentation for this object’s fields."}}
}
