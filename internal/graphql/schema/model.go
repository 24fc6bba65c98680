package schema

import "github.com/leveehq/levee/internal/graphql/catalog"

// Kind is the kind of a type.
type Kind uint8

// The kinds there are; the shape has no unions.
const (
	Scalar Kind = iota
	Object
	Interface
	Input
	Enum
)

// Ref is a type where it is used: "Post", "Post!", "[Post]", "[Post!]!". There are no lists of lists.
type Ref struct {
	Name        string
	NonNull     bool // the whole
	List        bool
	ItemNonNull bool // if it is a list
}

// String writes it as GraphQL does.
func (r Ref) String() string {
	s := r.Name
	if r.List {
		if r.ItemNonNull {
			s += "!"
		}
		s = "[" + s + "]"
	}
	if r.NonNull {
		s += "!"
	}
	return s
}

// Type is one type, derived when asked for.
type Type struct {
	Name, Description string
	SpecifiedBy       string // scalars with a specification's URL
	Kind              Kind
	Fields            []Field      // of objects and interfaces
	Inputs            []InputValue // of input objects
	Values            []EnumValue  // of enums
	Implements        []string
	Class             catalog.ClassID // row and composite types, and their inputs and patches: what they are made from
	Proc              catalog.ProcID  // payloads, records and connections made for a function; valid if HasProc
	HasProc           bool
	Pg                catalog.TypeID // scalars, enums, ranges, intervals, composites and their inputs: the PostgreSQL type
}

// Field returns the field of that name, or nil.
func (t *Type) Field(name string) *Field {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i]
		}
	}
	return nil
}

// Input returns the input field of that name, or nil.
func (t *Type) Input(name string) *InputValue {
	for i := range t.Inputs {
		if t.Inputs[i].Name == name {
			return &t.Inputs[i]
		}
	}
	return nil
}

// Field is a field of an object or interface.
type Field struct {
	Name, Description string
	Deprecated        string // the reason; "" if it is not deprecated
	Type              Ref
	Args              []InputValue
	Bind              Bind
}

// InputValue is an argument or a field of an input object.
type InputValue struct {
	Name, Description string
	Deprecated        string
	Type              Ref
	Default           string // as a GraphQL literal; "" for none
	Bind              InputBind
}

// EnumValue is a value of an enum: of a PostgreSQL enum (Label), or of an OrderBy (Order).
type EnumValue struct {
	Name, Description string
	Deprecated        string
	Label             string
	Order             Order
}

// Order is what a value of an OrderBy enum means.
type Order struct {
	Kind   OrderKind
	Column catalog.ColumnID // OrderByColumn
	Desc   bool
}

// OrderKind is the kind of an ordering.
type OrderKind uint8

// The orderings.
const (
	OrderNatural OrderKind = iota
	OrderPrimaryKey
	OrderByColumn
)

// Op says what a field does.
type Op uint8

// What fields do. The comment names the members of Bind that are set; Pg is set wherever a field's value is of one
// PostgreSQL type (leaf, composite, range or interval; for arrays the array type).
const (
	OpNone Op = iota

	// Of Query.
	OpQuery     // query, also of payloads: the root again
	OpQueryID   // id of Query
	OpNode      // node(id)
	OpByNodeID  // post(id); Class
	OpByKey     // postByRowId(rowId); Class, Key; args are bound to the key's columns
	OpAll       // allPosts; Class; a connection
	OpProcQuery // a function; Proc; a value, list, row, record or connection as Result says

	// Of row types, records and composite types.
	OpNodeID      // id; Class
	OpColumn      // a column or attribute; Class, Column, Pg
	OpForward     // personByAuthorId; ForeignKey
	OpBackward    // commentsByPostId; ForeignKey; a connection
	OpBackwardOne // profileByPersonId; ForeignKey
	OpRef         // what paths of relations lead to; Class, Index for Schema.Paths; a connection
	OpRefOne      // the same, one row
	OpComputed    // fullName; Class, Proc, Result
	OpRecordField // column N of a function's record; Index in the out and table columns; Pg

	// Of connections, edges and PageInfo.
	OpNodes
	OpEdges
	OpPageInfo
	OpTotalCount
	OpCursor
	OpEdgeNode
	OpHasNextPage
	OpHasPreviousPage
	OpStartCursor
	OpEndCursor

	// Of intervals (Index: 0 seconds, 1 minutes, 2 hours, 3 days, 4 months, 5 years), shapes (Index among the fields) and ranges.
	OpIntervalPart
	OpShapePart
	OpRangeStart
	OpRangeEnd
	OpBoundValue
	OpBoundInclusive

	// Of Mutation.
	OpCreate       // Class
	OpUpdate       // Class, and Key or ByNodeID
	OpDelete       // Class, and Key or ByNodeID
	OpProcMutation // Proc, Result

	// Of payloads.
	OpClientMutationID
	OpPayloadRow    // post; Class
	OpPayloadResult // result of a function; Proc, Result
	OpPayloadEdge   // postEdge(orderBy); Class
	OpDeletedID     // deletedPostId; Class
)

// Result is the form of what a function gives.
type Result uint8

// The forms.
const (
	ResultVoid    Result = iota
	ResultValue          // a value of type Pg: leaf, composite, range, interval or array
	ResultRow            // a row of Class
	ResultRecord         // a record made of out columns
	ResultValues         // a connection or list (mutations) of values
	ResultRows           // a connection or list of rows of Class
	ResultRecords        // a connection or list of records
)

// Bind says what a field means; see Op for the members that are set.
type Bind struct {
	Op         Op
	Result     Result
	ByNodeID   bool
	Index      uint16
	Class      catalog.ClassID
	Column     catalog.ColumnID
	Key        Key
	ForeignKey ForeignKey
	Proc       catalog.ProcID
	Pg         catalog.TypeID
}

// Key is a unique key: one of the catalog, or one that a smart tag made. Columns are in order.
type Key struct {
	Class   catalog.ClassID
	Columns []catalog.ColumnID
	Primary bool
}

// ForeignKey is one of the catalog, or one that a smart tag made. Class's Columns refer to Foreign's.
type ForeignKey struct {
	Class, Foreign          catalog.ClassID
	Columns, ForeignColumns []catalog.ColumnID
	Unique                  bool // Columns are a unique key of Class
}

// InputOp says what an argument or input field does.
type InputOp uint8

// What arguments and input fields do.
const (
	InNone             InputOp = iota
	InFirst                    // first, last, offset, before, after, condition, orderBy of connections
	InLast                     //
	InOffset                   //
	InBefore                   //
	InAfter                    //
	InCondition                //
	InOrderBy                  // also of payload edges
	InNodeID                   // id
	InColumn                   // a column: of a key, condition, input, patch or composite; Column, Pg
	InProcArg                  // argument Index (among the inputs) of a function; Pg
	InInput                    // input of a mutation
	InClientMutationID         //
	InObject                   // post, postPatch: the row's values
	InIntervalPart             // Index as for OpIntervalPart
	InShapePart                // Index among the fields
	InRangeStart               //
	InRangeEnd                 //
	InBoundValue               // Pg
	InBoundInclusive           //
)

// InputBind says what an argument or input field means.
type InputBind struct {
	Op     InputOp
	Index  uint16
	Column catalog.ColumnID
	Pg     catalog.TypeID
}
