package schema

import (
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// scalarOf says which scalar stands for a built-in type, by object id (pg_type.dat). All others are String.
var scalarOf = map[uint32]string{
	16: "Boolean", 17: "Base64EncodedBinary", 20: "BigInt", 21: "Int", 23: "Int", 114: "JSON", 3802: "JSON", 700: "Float", 701: "Float", 790: "Float", 1700: "BigFloat",
	1082: "Date", 1083: "Time", 1266: "Time", 1114: "Datetime", 1184: "Datetime", 869: "InternetAddress", 650: "CidrAddress", 829: "MacAddress", 774: "MacAddress8",
	1560: "BitString", 1562: "BitString", 2950: "UUID", 142: "XML", 4072: "JSONPath", 3614: "TSVector", 3615: "TSQuery", 26: "Oid",
	24: "RegProc", 2202: "RegProcedure", 2203: "RegOper", 2204: "RegOperator", 2205: "RegClass", 2206: "RegType", 4096: "RegRole", 4089: "RegNamespace",
	3734: "RegConfig", 3769: "RegDictionary", 18: "String", 19: "String", 25: "String", 1042: "String", 1043: "String",
}

const (
	oidInterval = 1186
	oidTSVector = 3614
	oidTSQuery  = 3615
)

var scalarText = map[string]string{
	"BigInt":              "A signed eight-byte integer. The upper big integer values are greater than the\nmax value for a JavaScript number. Therefore all big integers will be output as\nstrings and not numbers.",
	"Datetime":            "A point in time as described by the [ISO\n8601](https://en.wikipedia.org/wiki/ISO_8601) and, if it has a timezone, [RFC\n3339](https://datatracker.ietf.org/doc/html/rfc3339) standards. Input values\nthat do not conform to both ISO 8601 and RFC 3339 may be coerced, which may lead\nto unexpected results.",
	"Cursor":              "A location in a connection that can be used for resuming pagination.",
	"BigFloat":            "A floating point number that requires more precision than IEEE 754 binary 64",
	"JSON":                "Represents JSON values as specified by [ECMA-404](http://www.ecma-international.org/publications/files/ECMA-ST/ECMA-404.pdf).",
	"UUID":                "A universally unique identifier as defined by [RFC 4122](https://tools.ietf.org/html/rfc4122).",
	"Date":                "A calendar date in YYYY-MM-DD format.",
	"Time":                "The exact time of day, does not include the date. May or may not have a timezone offset.",
	"InternetAddress":     "An IPv4 or IPv6 host address, and optionally its subnet.",
	"KeyValueHash":        "A set of key/value pairs, keys are strings, values may be a string or null. Exposed as a JSON object.",
	"CidrAddress":         "An IPv4 or IPv6 CIDR address.",
	"MacAddress":          "A 6-byte MAC address.",
	"MacAddress8":         "An 8-byte MAC address.",
	"Base64EncodedBinary": "Binary data encoded using Base64",
	"BitString":           "A string representing a series of binary bits",
	"XML":                 "An XML document",
	"JSONPath":            "A string representing an SQL/JSONPath expression",
	"TSVector":            "A PostgreSQL full-text search document (`tsvector`). See https://www.postgresql.org/docs/current/datatype-textsearch.html",
	"TSQuery":             "A PostgreSQL full-text search query (`tsquery`). See https://www.postgresql.org/docs/current/datatype-textsearch.html",
	"LTree":               "Represents an `ltree` hierarchical label tree as outlined in https://www.postgresql.org/docs/current/ltree.html",
	"Oid":                 "PostgreSQL identifier for a database entity",
	"RegProc":             "A builtin object identifier type for a function name",
	"RegProcedure":        "A builtin object identifier type for a function with argument types",
	"RegOper":             "A builtin object identifier type for an operator",
	"RegOperator":         "A builtin object identifier type for an operator with argument types",
	"RegClass":            "A builtin object identifier type for a relation name",
	"RegType":             "A builtin object identifier type for a data type name",
	"RegRole":             "A builtin object identifier type for a role name",
	"RegNamespace":        "A builtin object identifier type for a namespace name",
	"RegConfig":           "A builtin object identifier type for a text search configuration",
	"RegDictionary":       "A builtin object identifier type for a text search dictionary",
	"Int":                 "The `Int` scalar type represents non-fractional signed whole numeric values. Int can represent values between -(2^31) and 2^31 - 1.",
	"Float":               "The `Float` scalar type represents signed double-precision fractional values as specified by [IEEE 754](https://en.wikipedia.org/wiki/IEEE_floating_point).",
	"String":              "The `String` scalar type represents textual data, represented as UTF-8 character sequences. The String type is most often used by GraphQL to represent free-form human-readable text.",
	"Boolean":             "The `Boolean` scalar type represents `true` or `false`.",
	"ID":                  "The `ID` scalar type represents a unique identifier, often used to refetch an object or as key for a cache. The ID type appears in a JSON response as a String; however, it is not intended to be human-readable. When expected as an input type, any string (such as `\"4\"`) or integer (such as `4`) input value will be accepted as an ID.",
}

// baseOf follows domains to what they are over.
func (s *Schema) baseOf(t catalog.TypeID) catalog.TypeID {
	for s.catalog.Types[t].Kind == 'd' && s.catalog.Types[t].Base != 0 {
		t = s.catalog.Types[t].Base
	}
	return t
}

func isArray(t *catalog.Type) bool { return t.Category == 'A' && t.Element != 0 }

// itemOf is what a type is over, or what an array has items of.
func (s *Schema) itemOf(t catalog.TypeID) *catalog.Type {
	base := &s.catalog.Types[s.baseOf(t)]
	if isArray(base) {
		base = &s.catalog.Types[s.baseOf(base.Element)]
	}
	return base
}

// hasOwnType tells whether a type has a GraphQL type of its own name: enums and shapes have, and domains over what is no range or array.
func (s *Schema) hasOwnType(t catalog.TypeID) bool {
	typ, base := &s.catalog.Types[t], &s.catalog.Types[s.baseOf(t)]
	switch {
	case s.isEnumDomain(t):
		return false
	case typ.Kind == 'e', isShape(typ):
		return true
	case typ.Kind != 'd' || isArray(base):
		return false
	case base.Kind == 'c':
		return s.TypeOfClass(base.Class) != ""
	default:
		return base.Kind == 'b' || base.Kind == 'e'
	}
}

func (s *Schema) isEnumDomain(t catalog.TypeID) bool {
	_, is := s.enums.domains[t]
	return is
}

// leafName is the GraphQL name of a type that is no array; ok is false if it cannot be represented.
func (s *Schema) leafName(t catalog.TypeID, input bool) (name string, ok bool) {
	if i, is := s.enums.domains[t]; is {
		return s.enums.names[i], true
	}
	typ := &s.catalog.Types[s.baseOf(t)]
	switch own := s.hasOwnType(t); {
	case typ.Kind == 'e', own && typ.Kind == 'b' && typ.OID != oidInterval && !isShape(typ):
		return s.typeOwnName(s.ownOf(t)), true
	case own:
		name = s.typeOwnName(t)
	case typ.Kind == 'c':
		if name = s.TypeOfClass(typ.Class); name == "" {
			return "", false
		}
	case typ.Kind == 'r':
		if name, ok = s.leafName(typ.Element, false); !ok {
			return "", false
		}
		name += "Range"
	case typ.Kind != 'b' && typ.Kind != 'm':
		return "", false
	case typ.OID != oidInterval:
		return s.scalarName(typ), true
	default:
		name = "Interval"
	}
	if input {
		name += "Input"
	}
	return name, true
}

// ownOf is t if that has a type of its own name, else what it is over.
func (s *Schema) ownOf(t catalog.TypeID) catalog.TypeID {
	if s.hasOwnType(t) {
		return t
	}
	return s.baseOf(t)
}

// scalarName is String for what nobody has thought of: PostgreSQL can write and read any type as text.
func (s *Schema) scalarName(t *catalog.Type) string {
	if t.Extension && t.Name == "hstore" {
		return "KeyValueHash"
	}
	if t.Extension && t.Name == "ltree" {
		return "LTree"
	}
	if name, ok := scalarOf[t.OID]; ok {
		return name
	}
	return "String"
}

// comparable leaves out what has no equality, or none that anyone would ask for.
func (s *Schema) comparable(t catalog.TypeID) bool {
	typ := &s.catalog.Types[s.baseOf(t)]
	if typ.Kind == 'e' || typ.Extension && (typ.Name == "citext" || typ.Name == "ltree") {
		return true
	}
	switch scalarOf[typ.OID] {
	case "", "Base64EncodedBinary", "JSON", "JSONPath", "XML":
		return typ.OID == oidInterval || typ.OID == oidPoint || typ.OID == oidPath
	}
	return typ.Kind == 'b' && !isArray(typ)
}

// sortable leaves out what has no order that means anything.
func (s *Schema) sortable(t catalog.TypeID) bool {
	typ := &s.catalog.Types[s.baseOf(t)]
	name := scalarOf[typ.OID]
	return typ.Kind != 'e' && !isShape(typ) && name != "BitString" && !strings.HasPrefix(name, "Reg") && s.comparable(t)
}

// refOf is the reference to a PostgreSQL type.
func (s *Schema) refOf(t catalog.TypeID, notNull, input bool) (r Ref, ok bool) {
	if s.catalog.Types[t].Kind == 'd' {
		notNull = notNull || s.catalog.Types[t].NotNull
	}
	if base := &s.catalog.Types[s.baseOf(t)]; isArray(base) {
		r.Name, ok = s.leafName(base.Element, input)
		r.List, r.NonNull = true, notNull
		element := &s.catalog.Types[base.Element]
		r.ItemNonNull = !input && element.Kind == 'd' && element.NotNull
		return r, ok && !isArray(&s.catalog.Types[s.baseOf(base.Element)])
	}
	r.Name, ok = s.leafName(t, input)
	r.NonNull = notNull
	return r, ok
}

// fixedType derives the types that do not depend on the catalog, but for those that only some PostgreSQL type brings in.
func fixedType(name string) *Type {
	if text, ok := scalarText[name]; ok {
		return &Type{Name: name, Description: text, Kind: Scalar}
	}
	switch name {
	case "Node":
		return &Type{Name: name, Description: "An object with a globally unique `ID`.", Kind: Interface, Fields: []Field{nodeIDField(0)}}
	case "PageInfo":
		return &Type{Name: name, Description: "Information about pagination in a connection.", Kind: Object, Fields: pageInfoFields}
	case "Interval":
		return &Type{Name: name, Description: intervalText, Kind: Object, Fields: intervalFields()}
	case "IntervalInput":
		return &Type{Name: name, Description: intervalText, Kind: Input, Inputs: intervalInputs()}
	}
	return nil
}

func fixedNames() []string {
	names := []string{"Query", "Mutation", "Node", "PageInfo", "Interval", "IntervalInput"}
	for name := range scalarText {
		names = append(names, name)
	}
	return names
}

const intervalText = "An interval of time that has passed where the smallest distinct unit is a second."

var intervalParts = []struct{ name, of, text string }{
	{"seconds", "Float", "A quantity of seconds. This is the only non-integer field, as all the other\nfields will dump their overflow into a smaller unit of time. Intervals don’t\nhave a smaller unit than seconds."},
	{"minutes", "Int", "A quantity of minutes."},
	{"hours", "Int", "A quantity of hours."},
	{"days", "Int", "A quantity of days."},
	{"months", "Int", "A quantity of months."},
	{"years", "Int", "A quantity of years."},
}

func intervalFields() (fields []Field) {
	for i, p := range intervalParts {
		fields = append(fields, Field{Name: p.name, Description: p.text, Type: Ref{Name: p.of}, Bind: Bind{Op: OpIntervalPart, Index: uint16(i)}})
	}
	return fields
}

func intervalInputs() (inputs []InputValue) {
	for i, p := range intervalParts {
		inputs = append(inputs, InputValue{Name: p.name, Description: p.text, Type: Ref{Name: p.of}, Bind: InputBind{Op: InIntervalPart, Index: uint16(i)}})
	}
	return inputs
}

var pageInfoFields = []Field{
	{Name: "hasNextPage", Description: "When paginating forwards, are there more items?", Type: Ref{Name: "Boolean", NonNull: true}, Bind: Bind{Op: OpHasNextPage}},
	{Name: "hasPreviousPage", Description: "When paginating backwards, are there more items?", Type: Ref{Name: "Boolean", NonNull: true}, Bind: Bind{Op: OpHasPreviousPage}},
	{Name: "startCursor", Description: "When paginating backwards, the cursor to continue.", Type: Ref{Name: "Cursor"}, Bind: Bind{Op: OpStartCursor}},
	{Name: "endCursor", Description: "When paginating forwards, the cursor to continue.", Type: Ref{Name: "Cursor"}, Bind: Bind{Op: OpEndCursor}},
}

// RefOf is the reference to a PostgreSQL type as an input, nullable; ok is false for a type that has no form in GraphQL.
func (s *Schema) RefOf(t catalog.TypeID) (ref Ref, ok bool) {
	ref, ok = s.refOf(t, false, true)
	ref.NonNull = false
	return ref, ok
}
