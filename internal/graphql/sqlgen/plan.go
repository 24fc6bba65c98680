package sqlgen

import (
	"encoding/base64"

	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/graphql/pgvalue"
)

// plan is a compiled operation: for each root field its SQL and the program that turns its bytes into JSON. It refers to
// nothing of the document.
type plan struct {
	mutation bool
	roots    []root
	bounds   []bounded
	own      int // bytes of one that is not kept: its request's
	sizes    sizes
}

// root is a field of the operation's top selection.
type root struct {
	key      string // its name in the response
	at       []document.Location
	nonNull  bool
	out      *out
	sql      text // one expression; empty if out needs no row
	conns    []connArgs
	nodes    []source // node ids whose parts are parameters
	nodeType []string // and the type that each must be of
	intro    *introspection
	change   *change
}

// out is the program for one value: how its bytes become JSON.
type out struct {
	kind   outKind
	leaf   pgvalue.Out
	text   string // outConst: JSON; outNodeID: how the id begins
	fields []outField
	types  []pgvalue.Wire // outObject: of its record's columns
	item   *out           // of lists and rows
	column int            // outColumn: it; outNodeID: the first of its columns; outJoined: whether there is such a row
	conn   int            // outConn: its number
	part   int            // outBound: 0 or 2; outPart: which; outPageInfo: schema.Op
	extra  *connOut
}

type outKind uint8

const (
	outLeaf     outKind = iota
	outConst            // text
	outObject           // a record
	outSame             // an object whose fields are columns of the enclosing record
	outJoined           // the same of a row that was joined, and may not be there
	outList             // an array of item
	outBound            // a range's bound, in the record (lower, lower_inc, upper, upper_inc)
	outInterval         // an interval in its binary form
	outPart             // a part of it
	outShape            // a geometric value in its binary form; part is its type's object id
	outPoints           // those of a path or polygon
	outNodeID           // made of the key's columns in the enclosing record
	outConn             // a connection: the record of its columns and its count
	outColumn           // item, in a column of the row
	outRows             // nodes
	outEdges            // edges
	outCount            // totalCount
	outPageInfo         // pageInfo, and its fields
	outCursor           // of a row
)

type outField struct {
	key     string // its name as JSON, with a colon
	name    string
	nonNull bool
	itemsNN bool
	column  int // of the record that has its value; -1: none
	out     *out
}

// connArgs are a connection's arguments, bound per request.
type connArgs struct {
	at                                 []document.Location
	first, last, offset, before, after source
	keys                               []keyPart
	natural                            bool
	digest                             string
	wantNext, wantPrevious             bool
	page                               int
}

// keyPart is one column of an ordering.
type keyPart struct {
	tie bool // it is in the cursors of rows whose unique key is null only
}

// connOut is what a connection's output needs besides its arguments. Cursors share it. Its record has an array for each column of
// the rows, then their count.
type connOut struct {
	rows    bool           // rows are asked for
	types   []pgvalue.Wire // of the columns
	wrapped []bool         // of each column: its values are in records
	count   int            // where totalCount is; -1
	cursors int            // first column of the cursor's parts; -1
	leaves  []pgvalue.Out
	named   int // of leaves, those that are in every cursor
	natural bool
	digest  string
}

// bound is what a connection comes to in one request.
type bound struct {
	limit, offset   int64
	reversed        bool // rows come in reverse
	keep            int  // of the rows that came, this many are shown
	fromEnd         bool // the last ones of them
	most            int  // without first and last: more than this many rows is an error; 0: no such bound
	hasNext, hasPre bool // as far as they are known without the rows
	nextByRow       bool // hasNextPage: a row too many came
	preByRow        bool
	after, before   []any
	base            int64 // natural cursors are counted from here
}

// decodeID reads a node id. ok is false for what is none.
func decodeID(text string) (typeName string, parts []any, ok bool) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		if raw, err = base64.RawStdEncoding.DecodeString(text); err != nil {
			return "", nil, false
		}
	}
	var all []any
	if decodeNumbers(raw, &all) != nil || len(all) < 2 {
		return "", nil, false
	}
	typeName, ok = all[0].(string)
	return typeName, all[1:], ok
}

func jsonKey(name string) string { return string(pgvalue.AppendString(nil, name)) + ":" }
