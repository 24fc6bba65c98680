package schema

import (
	"github.com/leveehq/levee/internal/graphql/catalog"
)

const queryDescription = "The root query type which gives access points into the data universe."

// queryFields are always there.
var queryFields = []Field{
	{Name: "query", Type: Ref{Name: "Query", NonNull: true}, Bind: Bind{Op: OpQuery},
		Description: "Exposes the root query type nested one level down. This is helpful for Relay 1\nwhich can only query top level fields if they are in a particular form."},
	{Name: "id", Type: Ref{Name: "ID", NonNull: true}, Bind: Bind{Op: OpQueryID},
		Description: "The root query type must be a `Node` to work well with Relay 1 mutations. This just resolves to `query`."},
	{Name: "node", Type: Ref{Name: "Node"}, Bind: Bind{Op: OpNode}, Description: "Fetches an object given its globally unique `ID`.",
		Args: []InputValue{{Name: "id", Description: "The globally unique `ID`.", Type: Ref{Name: "ID", NonNull: true}, Bind: InputBind{Op: InNodeID}}}},
}

// queryField derives one of the other fields of Query.
func (s *Schema) queryField(e entry) Field {
	if e.kind == procQuery {
		p := s.procs[e.id]
		f := s.procField(p, 0)
		f.Name, f.Bind.Op = camel(s.procName(p.id)), OpProcQuery
		return f
	}
	c := catalog.ClassID(e.id)
	row, deprecated := s.typeName(c), s.classTags(c).deprecation()
	switch e.kind {
	case byKey:
		k := s.Keys(c)[e.sub]
		return Field{Name: camel(s.keyName(k)), Description: say(2, "Get a single `%s`.", row), Deprecated: deprecated, Type: Ref{Name: row}, Args: s.keyInputs(k, false), Bind: Bind{Op: OpByKey, Class: c, Key: k}}
	case byNodeID:
		return Field{Name: camel(s.tableName(c)), Description: say(2, "Reads a single `%s` using its globally unique `ID`.", row), Deprecated: deprecated, Type: Ref{Name: row},
			Args: []InputValue{{Name: "id", Description: say(4, "The globally unique `ID` to be used in selecting a single `%s`.", row),
				Type: Ref{Name: "ID", NonNull: true}, Bind: InputBind{Op: InNodeID}}},
			Bind: Bind{Op: OpByNodeID, Class: c}}
	default:
		return Field{Name: camel("all-" + plural(s.tableName(c))), Description: say(2, "Reads and enables pagination through a set of `%s`.", row),
			Deprecated: deprecated, Type: Ref{Name: row + "Connection"}, Args: s.connectionArgs(c, "query"), Bind: Bind{Op: OpAll, Class: c}}
	}
}
