package pgvalue

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// EncodeError is an input value that cannot be given to PostgreSQL in any form; the message is for the client.
type EncodeError struct{ Message string }

func (e *EncodeError) Error() string { return e.Message }

func wrong(format string, args ...any) error { return &EncodeError{fmt.Sprintf(format, args...)} }

// Encode turns an input value (nil, bool, string, a number, []any, map[string]any, as coerced) of the schema's input type
// ref into the text of a parameter of PostgreSQL type t. A nil result is NULL. What PostgreSQL can judge is left to it.
func Encode(s *schema.Schema, t catalog.TypeID, ref schema.Ref, value any) ([]byte, error) {
	if value == nil {
		return nil, nil
	}
	c := s.Catalog()
	typ := c.Types[baseOf(c, t)]
	switch {
	case isArray(typ):
		return encodeArray(s, typ.Element, ref, value)
	case s.EnumTable(ref.Name) != nil:
		return encodeEnum(s, ref, value)
	case typ.Kind == 'c':
		return encodeComposite(s, typ, ref, value)
	case typ.Kind == 'r':
		return encodeRange(s, typ, ref, value)
	case typ.OID == oidInterval:
		return encodeInterval(value)
	case schema.IsShape(typ.OID):
		return encodeShape(typ.OID, value)
	case typ.Kind == 'e':
		return encodeEnum(s, ref, value)
	case typ.OID == oidJSON, typ.OID == oidJSONB:
		return encodeJSON(value)
	case typ.OID == oidBytea:
		return encodeBytes(value)
	case isExtension(typ, "hstore"):
		return encodeHstore(value)
	default:
		return encodePlain(value)
	}
}

func encodePlain(value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return []byte(v), nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case json.Number:
		return []byte(v), nil
	case int:
		return strconv.AppendInt(nil, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(nil, v, 10), nil
	case float64:
		return strconv.AppendFloat(nil, v, 'g', -1, 64), nil
	default:
		return nil, wrong("expected a single value, but got a list or an object")
	}
}

func encodeJSON(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, wrong("the value has no JSON form: %v", err)
	}
	return text, nil
}

// encodeBytes takes base64 of either alphabet, padded or not, as Base64EncodedBinary says.
func encodeBytes(value any) ([]byte, error) {
	text, ok := value.(string)
	if !ok {
		return nil, wrong("expected base64 text")
	}
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	raw, err := base64.RawStdEncoding.DecodeString(plain)
	if err != nil {
		return nil, wrong("the text is not base64: %v", err)
	}
	return hex.AppendEncode([]byte(`\x`), raw), nil
}

func encodeEnum(s *schema.Schema, ref schema.Ref, value any) ([]byte, error) {
	name, ok := value.(string)
	if !ok {
		return nil, wrong("expected a value of the enum %s", ref.Name)
	}
	if t := s.Type(ref.Name); t != nil {
		for _, v := range t.Values {
			if v.Name == name {
				return []byte(v.Label), nil
			}
		}
	}
	return []byte(name), nil
}

func encodeHstore(value any) ([]byte, error) {
	m, ok := value.(map[string]any)
	if !ok {
		return nil, wrong("expected an object of texts")
	}
	var b []byte
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, key), "=>"...)
		if m[key] == nil {
			b = append(b, "NULL"...)
			continue
		}
		text, err := encodePlain(m[key])
		if err != nil {
			return nil, wrong("the value of key %q must be a text", key)
		}
		b = appendQuoted(b, string(text))
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// encodeArray writes an array literal. A value that is no list is a list of one, as GraphQL coerces.
func encodeArray(s *schema.Schema, element catalog.TypeID, ref schema.Ref, value any) ([]byte, error) {
	items, ok := value.([]any)
	if !ok {
		items = []any{value}
	}
	item := schema.Ref{Name: ref.Name, NonNull: ref.ItemNonNull}
	between := byte(',')
	if c := s.Catalog(); c.Types[baseOf(c, element)].OID == oidBox {
		between = ';' // pg_type.typdelim
	}
	b := []byte{'{'}
	for i, v := range items {
		if i > 0 {
			b = append(b, between)
		}
		text, err := Encode(s, element, item, v)
		if err != nil {
			return nil, err
		}
		if text == nil {
			b = append(b, "NULL"...)
			continue
		}
		b = appendQuoted(b, string(text))
	}
	return append(b, '}'), nil
}

// encodeComposite writes a row literal: every attribute in order, nothing for NULL.
func encodeComposite(s *schema.Schema, typ catalog.Type, ref schema.Ref, value any) ([]byte, error) {
	m, ok := value.(map[string]any)
	in := s.Type(ref.Name)
	if !ok || in == nil {
		return nil, wrong("expected an object of type %s", ref.Name)
	}
	c := s.Catalog()
	columns := c.Classes[typ.Class].Columns
	b := []byte{'('}
	for i := range uint32(columns.N) {
		if i > 0 {
			b = append(b, ',')
		}
		id := catalog.ColumnID(columns.From + i)
		field := inputOfColumn(in, id)
		if field == nil || m[field.Name] == nil {
			continue
		}
		text, err := Encode(s, c.Columns[id].Type, field.Type, m[field.Name])
		if err != nil {
			return nil, err
		}
		b = appendQuoted(b, string(text))
	}
	return append(b, ')'), nil
}

func inputOfColumn(in *schema.Type, id catalog.ColumnID) *schema.InputValue {
	for i := range in.Inputs {
		if b := in.Inputs[i].Bind; b.Op == schema.InColumn && b.Column == id {
			return &in.Inputs[i]
		}
	}
	return nil
}

// encodeRange writes a range literal. A bound that is absent or null is infinite.
func encodeRange(s *schema.Schema, typ catalog.Type, ref schema.Ref, value any) ([]byte, error) {
	m, ok := value.(map[string]any)
	if !ok {
		return nil, wrong("expected an object of type %s", ref.Name)
	}
	start, startIn, err := encodeBound(s, typ, ref, m["start"])
	if err != nil {
		return nil, err
	}
	end, endIn, err := encodeBound(s, typ, ref, m["end"])
	if err != nil {
		return nil, err
	}
	b := []byte{'('}
	if startIn {
		b[0] = '['
	}
	b = append(append(append(b, start...), ','), end...)
	if endIn {
		return append(b, ']'), nil
	}
	return append(b, ')'), nil
}

func encodeBound(s *schema.Schema, typ catalog.Type, ref schema.Ref, value any) (text []byte, inclusive bool, err error) {
	m, ok := value.(map[string]any)
	if !ok || m["value"] == nil {
		return nil, false, nil
	}
	item := schema.Ref{Name: ref.Name}
	if in := s.Type(strings.TrimSuffix(ref.Name, "Input") + "BoundInput"); in != nil {
		if f := in.Input("value"); f != nil {
			item = f.Type
		}
	}
	text, err = Encode(s, typ.Element, item, m["value"])
	if err != nil {
		return nil, false, err
	}
	inclusive, _ = m["inclusive"].(bool)
	return appendQuoted(nil, string(text)), inclusive, nil
}

// encodeInterval writes PostgreSQL's verbose form, which takes every sign and any size of each part.
func encodeInterval(value any) ([]byte, error) {
	m, ok := value.(map[string]any)
	if !ok {
		return nil, wrong("expected an object of interval parts")
	}
	var b []byte
	for _, unit := range []string{"years", "months", "days", "hours", "minutes", "seconds"} {
		if m[unit] == nil {
			continue
		}
		n, err := encodePlain(m[unit])
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, withoutExponent(n)...), ' '), unit...)
		b = append(b, ' ')
	}
	if b == nil {
		return []byte("0 seconds"), nil
	}
	return b, nil
}

// withoutExponent writes a number as PostgreSQL reads it in an interval.
func withoutExponent(n []byte) []byte {
	if !bytes.ContainsAny(n, "eE") {
		return n
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return n // PostgreSQL says what is wrong
	}
	return strconv.AppendFloat(nil, f, 'f', -1, 64)
}

// appendQuoted quotes for literals of arrays, rows, ranges and hstore: all take a backslash before a quote or backslash.
func appendQuoted(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i := range len(text) {
		if text[i] == '"' || text[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, text[i])
	}
	return append(dst, '"')
}
