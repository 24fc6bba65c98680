package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/leveehq/levee/internal/graphql/schema"
)

// Coerce checks the request's variables (decoded with json.Number) and adds defaults. An omitted variable without default
// is absent from the result, a null one is nil.
//
// Values keep the form of JSON: numbers are json.Number (an Int without fraction and exponent), enums, IDs and scalars that
// are written as strings are strings even if a number was sent, a single value where a list is expected is a list. Members
// of objects are as sent, with defaults; omitted ones are absent. Defaults are shared between requests: nothing in the
// result may be changed.
func (v *Variables) Coerce(raw map[string]any) (map[string]any, []Error) {
	out := make(map[string]any, len(v.vars))
	c := coercion{Variables: v}
	for i := range v.vars {
		def := &v.vars[i]
		c.of = def
		value, sent := raw[def.name]
		switch {
		case !sent && def.fallback.is:
			out[def.name] = def.fallback.value
		case !sent && def.ref.NonNull:
			c.fail("Variable %q of required type %q was not provided.", "$"+cut(def.name), def.ref.String())
		case !sent:
		case value == nil && def.ref.NonNull:
			c.fail("Variable %q of non-null type %q must not be null.", "$"+cut(def.name), def.ref.String())
		default:
			out[def.name] = c.value(def.ref, def.typ, value)
		}
	}
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	return out, nil
}

// coercion is the checking of one request's variables.
type coercion struct {
	*Variables
	of   *variable
	path []any
	errs []Error
}

func (c *coercion) fail(format string, args ...any) {
	if len(c.errs) < maxErrors {
		c.errs = append(c.errs, Error{Message: fmt.Sprintf(format, args...), Locations: []Location{c.of.at}})
	}
}

// invalid is an error about a value within the variable.
func (c *coercion) invalid(value any, format string, args ...any) any {
	if len(c.errs) == maxErrors {
		return nil
	}
	at := ""
	if len(c.path) > 0 {
		at = fmt.Sprintf(" at %q", cut(c.of.name+pathText(c.path)))
	}
	c.fail("Variable %q got invalid value %s%s; %s", "$"+cut(c.of.name), inspect(value), at, fmt.Sprintf(format, args...))
	return nil
}

func pathText(path []any) string {
	var b strings.Builder
	for _, p := range path {
		if b.Len() > quoteBytes {
			break
		}
		if i, ok := p.(int); ok {
			fmt.Fprintf(&b, "[%d]", i)
		} else {
			fmt.Fprintf(&b, ".%s", p)
		}
	}
	return b.String()
}

func (c *coercion) value(ref schema.Ref, typ int, value any) any {
	switch {
	case value == nil && ref.NonNull:
		return c.invalid(value, "Expected non-nullable type %q not to be null.", ref.String())
	case value == nil:
		return nil
	case ref.List:
		return c.list(schema.Ref{Name: ref.Name, NonNull: ref.ItemNonNull}, typ, value)
	}
	switch t := &c.types[typ]; t.form {
	case formObject:
		return c.object(ref.Name, t, value)
	case formEnum:
		return c.enum(ref.Name, t, value)
	default:
		return c.scalar(ref.Name, t.form, value)
	}
}

func (c *coercion) list(item schema.Ref, typ int, value any) any {
	items, ok := value.([]any)
	if !ok {
		return []any{c.value(item, typ, value)}
	}
	list := make([]any, len(items))
	for i := range items {
		c.path = append(c.path, i)
		list[i] = c.value(item, typ, items[i])
		c.path = c.path[:len(c.path)-1]
	}
	return list
}

func (c *coercion) object(name string, t *inputType, value any) any {
	members, ok := value.(map[string]any)
	if !ok {
		return c.invalid(value, "Expected type %q to be an object.", name)
	}
	object := make(map[string]any, len(members))
	known := 0
	for i := range t.fields {
		f := &t.fields[i]
		member, sent := members[f.name]
		switch {
		case sent:
			known++
			c.path = append(c.path, f.name)
			object[f.name] = c.value(f.ref, f.typ, member)
			c.path = c.path[:len(c.path)-1]
		case f.fallback.is:
			object[f.name] = f.fallback.value
		case f.ref.NonNull:
			c.invalid(value, "Field %q of required type %q was not provided.", f.name, f.ref.String())
		}
	}
	if known < len(members) {
		c.unknown(name, t, members)
	}
	return object
}

func (c *coercion) unknown(name string, t *inputType, members map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if !slices.ContainsFunc(t.fields, func(f inputField) bool { return f.name == key }) {
			c.invalid(members, "Field %q is not defined by type %q.", cut(key), name)
		}
	}
}

func (c *coercion) enum(name string, t *inputType, value any) any {
	text, ok := value.(string)
	if !ok {
		return c.invalid(value, "Enum %q cannot represent non-string value: %s.", name, inspect(value))
	}
	if _, found := slices.BinarySearch(t.values, text); !found {
		return c.invalid(value, "Value %q does not exist in %q enum.", cut(text), name)
	}
	return text
}

func (c *coercion) scalar(name string, f form, value any) any {
	switch f {
	case formInt:
		return c.integer(name, value)
	case formFloat:
		if n, ok := value.(json.Number); ok && finite(n) {
			return n
		}
		return c.invalid(value, "%s cannot represent non numeric value: %s", name, inspect(value))
	case formBoolean:
		if b, ok := value.(bool); ok {
			return b
		}
		return c.invalid(value, "%s cannot represent a non boolean value: %s", name, inspect(value))
	case formString:
		if s, ok := value.(string); ok {
			return s
		}
		return c.invalid(value, "%s cannot represent a non string value: %s", name, inspect(value))
	case formJSON:
		return value
	case formHash:
		return c.hash(name, value)
	default:
		return c.text(name, f, value)
	}
}

func (c *coercion) integer(name string, value any) any {
	n, ok := value.(json.Number)
	if !ok {
		return c.invalid(value, "%s cannot represent non-integer value: %s", name, inspect(value))
	}
	if _, err := strconv.ParseInt(n.String(), 10, 32); err == nil {
		return n
	}
	whole, ok := wholeNumber(n)
	if !ok {
		return c.invalid(value, "%s cannot represent non-integer value: %s", name, inspect(value))
	}
	if whole < math.MinInt32 || whole > math.MaxInt32 {
		return c.invalid(value, "%s cannot represent non 32-bit signed integer value: %s", name, inspect(value))
	}
	return json.Number(strconv.FormatInt(int64(whole), 10))
}

// wholeNumber reads 2.0 and 1e3, which are integers to clients that know one kind of number.
func wholeNumber(n json.Number) (float64, bool) {
	f, err := n.Float64()
	if err != nil { // beyond a float: an integer if it is written as one
		_, ok := new(big.Int).SetString(cut(n.String()), 10)
		return math.Inf(1), ok
	}
	return f, f == math.Trunc(f)
}

// plainly writes 5.0 and 5e0 as 5, where nothing is lost by it.
func plainly(n json.Number) string {
	const exact = 1 << 53
	if strings.ContainsAny(n.String(), ".eE") {
		if f, whole := wholeNumber(n); whole && math.Abs(f) < exact {
			return strconv.FormatInt(int64(f), 10)
		}
	}
	return n.String()
}

func finite(n json.Number) bool {
	f, err := n.Float64()
	return err == nil && !math.IsInf(f, 0)
}

// text is an ID, a UUID, an Oid, or a scalar that PostgreSQL reads from a string.
func (c *coercion) text(name string, f form, value any) any {
	var s string
	switch v := value.(type) {
	case string:
		s = v
	case json.Number:
		s = plainly(v)
	case bool:
		s = strconv.FormatBool(v)
	default:
		return c.invalid(value, "%s cannot represent a non string value: %s", name, inspect(value))
	}
	if f == formID {
		return c.id(name, value, s)
	}
	if f == formOid && !isOid(s) {
		return c.invalid(value, "%s cannot represent what is no unsigned 32-bit integer.", name)
	}
	if f == formUUID && !uuid.MatchString(s) {
		return c.invalid(value, "%s expects 32 hexadecimal digits, with or without hyphens.", name)
	}
	return s
}

func (c *coercion) id(name string, value any, s string) any {
	if n, ok := value.(json.Number); ok {
		if _, whole := wholeNumber(n); whole {
			return s
		}
	} else if _, ok := value.(string); ok {
		return s
	}
	return c.invalid(value, "%s cannot represent value: %s", name, inspect(value))
}

func (c *coercion) hash(name string, value any) any {
	members, ok := value.(map[string]any)
	for _, member := range members {
		if _, text := member.(string); !text && member != nil {
			ok = false
		}
	}
	if !ok {
		return c.invalid(value, "%s expects an object whose values are strings or null.", name)
	}
	return members
}
