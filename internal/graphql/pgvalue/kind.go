package pgvalue

import (
	"fmt"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// kind is how one leaf travels and what JSON it becomes.
type kind uint8

const (
	asText        kind = iota // cast to text; a JSON string
	asString                  // text in binary format as it is; a JSON string
	asEnum                    // as asString, with awkward labels renamed
	asBool                    // one byte
	asInt2                    // a JSON number, as asInt4, asFloat4 and asFloat8
	asInt4                    //
	asInt8                    // a JSON string: beyond what clients' numbers hold
	asOID                     // a JSON number without sign
	asFloat4                  //
	asFloat8                  //
	asNumber                  // cast to numeric and text; a JSON number
	asJSON                    // JSON text as it is
	asJSONB                   // the same behind a version byte
	asHstore                  // cast to json
	asUUID                    // 16 bytes
	asBytes                   // base64
	asDate                    // days from 2000-01-01
	asTime                    // microseconds from midnight
	asTimeTZ                  // moved to the session's zone, cast to text
	asTimestamp               // microseconds from 2000-01-01
	asTimestampTZ             // cast to text, in the session's zone
	asInet                    // an address and the length of its prefix
)

// Object ids of PostgreSQL's built-in types, from pg_type.dat. They never change.
const (
	oidBool        = 16
	oidBytea       = 17
	oidName        = 19
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidOID         = 26
	oidJSON        = 114
	oidCidr        = 650
	oidInet        = 869
	oidFloat4      = 700
	oidFloat8      = 701
	oidMoney       = 790
	oidBpchar      = 1042
	oidVarchar     = 1043
	oidDate        = 1082
	oidTime        = 1083
	oidTimestamp   = 1114
	oidTimestampTZ = 1184
	oidInterval    = 1186
	oidTimeTZ      = 1266
	oidUUID        = 2950
	oidJSONB       = 3802
)

var kindsByOID = map[uint32]kind{
	oidBool: asBool, oidBytea: asBytes, oidName: asString, oidInt8: asInt8, oidInt2: asInt2, oidInt4: asInt4, oidOID: asOID, oidText: asString,
	oidJSON: asJSON, oidFloat4: asFloat4, oidFloat8: asFloat8, oidMoney: asNumber, oidBpchar: asString, oidVarchar: asString,
	oidDate: asDate, oidTime: asTime, oidTimestamp: asTimestamp, oidTimestampTZ: asTimestampTZ, oidTimeTZ: asTimeTZ,
	oidInet: asInet, oidCidr: asInet, oidUUID: asUUID, oidJSONB: asJSONB,
}

// Out says how values of one PostgreSQL type leave. It is a small value to keep in a plan.
type Out struct {
	kind  kind
	array bool
	names []string // awkward enum labels, each followed by its GraphQL name
	known []string // the labels of an enum that is a table, which may have more by now
	wire  Wire
}

// Wire is the type whose binary format is read, and the one that it is a domain over. The zero Wire is any: PostgreSQL has been asked
// to make text of it.
type Wire struct{ own, base uint32 }

// Reads tells whether values of a PostgreSQL type are what is expected. The values themselves do not say.
func (w Wire) Reads(oid uint32) bool { return w.own == 0 || oid == w.own || oid == w.base }

// Wire is the type that AppendJSON expects.
func (o Out) Wire() Wire { return o.wire }

// OutOf returns the way of a leaf or of an array of leaves (domains are what they are over), for a field of the schema's
// type ref; ok is false for composites, ranges, intervals, shapes and arrays of those.
func OutOf(s *schema.Schema, t catalog.TypeID, ref schema.Ref) (o Out, ok bool) {
	c := s.Catalog()
	typ := c.Types[baseOf(c, t)]
	if isArray(typ) {
		o.array = true
		typ = c.Types[baseOf(c, typ.Element)]
	}
	if e := s.EnumTable(ref.Name); e != nil {
		o.kind, o.names, o.known = asEnum, awkwardNames(s, ref.Name), c.Labels[e.Labels.From:][:e.Labels.N]
		return o, true
	}
	switch {
	case typ.Kind == 'c', typ.Kind == 'r', typ.OID == oidInterval, schema.IsShape(typ.OID), isArray(typ):
		return Out{}, false
	case typ.Kind == 'e':
		o.kind, o.names = asEnum, awkwardNames(s, ref.Name)
	case isExtension(typ, "citext"):
		o.kind = asString
	case isExtension(typ, "hstore"):
		o.kind = asHstore
	default:
		o.kind = kindsByOID[typ.OID] // absent: asText
	}
	if o.SQL("v") == "v" {
		o.wire = Wire{c.Types[t].OID, c.Types[baseOf(c, t)].OID}
	}
	return o, true
}

// IsArray tells of values that are arrays to PostgreSQL.
func (o Out) IsArray() bool { return o.array }

// baseOf follows domains to what they are over.
func baseOf(c *catalog.Catalog, t catalog.TypeID) catalog.TypeID {
	for c.Types[t].Kind == 'd' && c.Types[t].Base != 0 {
		t = c.Types[t].Base
	}
	return t
}

// isArray is true for real arrays. Some other types have elements too (point, name, oidvector); they are leaves.
func isArray(t catalog.Type) bool { return t.Category == 'A' && t.Element != 0 }

func isExtension(t catalog.Type, name string) bool { return t.Extension && t.Name == name }

func awkwardNames(s *schema.Schema, name string) (pairs []string) {
	t := s.Type(name)
	if t == nil {
		return nil
	}
	for _, v := range t.Values {
		if v.Label != v.Name {
			pairs = append(pairs, v.Label, v.Name)
		}
	}
	return pairs
}

// SQL wraps an expression so that its value travels as AppendJSON expects it.
func (o Out) SQL(expr string) string {
	suffix := ""
	if o.array {
		suffix = "[]"
	}
	switch o.kind {
	case asText, asTimestampTZ:
		return "(" + expr + ")::text" + suffix
	case asNumber:
		return "(" + expr + ")::numeric" + suffix + "::text" + suffix
	case asHstore:
		return "(" + expr + ")::json" + suffix // a cast needs no name of a function whose schema is the operator's choice
	case asTimeTZ:
		return o.timeTZ(expr)
	default:
		return expr
	}
}

func (o Out) timeTZ(expr string) string {
	const inZone = "(pg_catalog.timezone(pg_catalog.current_setting('TimeZone'), %s))::text"
	if !o.array {
		return fmt.Sprintf(inZone, expr)
	}
	return fmt.Sprintf("case when pg_catalog.array_ndims(%s) > 1 then (%[1]s)::text[] when %[1]s is not null then array(select "+inZone+" from pg_catalog.unnest(%[1]s) with ordinality as e(v, n) order by e.n) end", expr, "e.v")
}

// Text is any value as PostgreSQL writes it, a JSON string; Bool is a boolean; Float is a float8.
var (
	Text  = Out{kind: asText}
	Bool  = Out{kind: asBool}
	Float = Out{kind: asFloat8}
)
