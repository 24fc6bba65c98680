package document

import (
	"math"
	"regexp"
	"strconv"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/core"
)

// form is what a value of an input type may look like.
type form uint8

const (
	formText  form = iota // a string; a number or boolean in variables is one without quotes
	formLoose             // the same, and in literals too
	formString
	formInt
	formOid // an integer without sign, or a string of one
	formFloat
	formBoolean
	formID
	formUUID
	formJSON // anything
	formHash // an object of strings; in literals also of numbers, in variables not
	formEnum
	formObject
)

// formsByName are those of the scalars that every schema has. What is not here, a Cursor or a Datetime, is text.
var formsByName = map[string]form{
	"Int": formInt, "Float": formFloat, "String": formString, "Boolean": formBoolean, "ID": formID,
	"UUID": formUUID, "JSON": formJSON, "KeyValueHash": formHash, "Oid": formOid, "LTree": formLoose, "Base64EncodedBinary": formString,
}

// formsByOID are those of domains, by the object id (pg_type.dat) of what they are over. All others are strings.
var formsByOID = map[uint32]form{
	16: formBoolean, 21: formInt, 23: formInt, 700: formFloat, 701: formFloat, 790: formFloat, 2950: formUUID, 114: formJSON, 3802: formJSON,
	26: formOid, 20: formText, 1700: formText, 1082: formText, 1083: formText, 1266: formText, 1114: formText, 1184: formText,
	869: formText, 650: formText, 829: formText, 774: formText, 1560: formText, 1562: formText, 142: formText, 4072: formText,
	24: formText, 2202: formText, 2203: formText, 2204: formText, 2205: formText, 2206: formText, 4096: formText, 4089: formText, 3734: formText, 3769: formText,
}

func formOf(t *schema.Type, c *catalog.Catalog) form {
	switch {
	case t.Kind == schema.Enum:
		return formEnum
	case t.Kind == schema.Input:
		return formObject
	case t.Pg == 0:
		return formsByName[t.Name]
	}
	base := &c.Types[t.Pg]
	for base.Kind == 'd' && base.Base != 0 {
		base = &c.Types[base.Base]
	}
	if base.Extension && base.Name == "hstore" {
		return formHash
	}
	if base.Extension && base.Name == "ltree" {
		return formLoose
	}
	if f, ok := formsByOID[base.OID]; ok {
		return f
	}
	return formString
}

var uuid = regexp.MustCompile(`^[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}$`)

// value checks a literal against what is expected where it stands. Items and members come by themselves.
func (v *validation) value(_ *core.Walker, value *ast.Value) {
	if value.Kind == ast.Variable || value.Definition == nil || value.ExpectedType == nil {
		return
	}
	if value.Kind == ast.NullValue {
		if value.ExpectedType.NonNull {
			v.failValue(value, "Expected value of type %q, found null.", value.ExpectedType.String())
		}
		return
	}
	if value.Kind == ast.ListValue && value.ExpectedType.Elem != nil {
		return
	}
	t := v.types[value.Definition.Name]
	if t == nil || value.ExpectedType.Elem != nil && value.ExpectedType.Elem.Elem != nil {
		return // refused already: no input type, or a list of lists
	}
	switch f := formOf(t, v.source.Catalog()); {
	case f == formEnum:
		v.enum(t, value)
	case f == formObject:
		v.object(t, value)
	case !fits(f, value):
		v.misfit(f, t.Name, value)
	}
}

func (v *validation) enum(t *schema.Type, value *ast.Value) {
	if value.Kind != ast.EnumValue {
		v.failValue(value, "Enum %q cannot represent non-enum value: %s.", t.Name, cut(value.String()))
		return
	}
	for i := range t.Values {
		if t.Values[i].Name == value.Raw {
			return
		}
	}
	v.add(core.Message("Value %q does not exist in %q enum.", cut(value.Raw), t.Name), v.suggest(value.Raw, valueNames(t)), core.At(value.Position))
}

// failValue points to a string's quote, where the library points behind it.
func (v *validation) failValue(value *ast.Value, format string, args ...any) {
	at := *value.Position
	if value.Kind == ast.StringValue {
		at.Column--
	}
	v.fail(&at, format, args...)
}

func (v *validation) object(t *schema.Type, value *ast.Value) {
	if value.Kind != ast.ObjectValue {
		v.failValue(value, "Expected value of type %q, found %s.", t.Name, cut(value.String()))
		return
	}
	given := make(map[string]bool, len(value.Children))
	for _, c := range value.Children {
		given[c.Name] = true
		if t.Input(c.Name) == nil {
			v.add(core.Message("Field %q is not defined by type %q.", c.Name, t.Name), v.suggest(c.Name, inputNames(t)), core.At(c.Position))
		}
	}
	for i := range t.Inputs {
		if in := &t.Inputs[i]; in.Type.NonNull && in.Default == "" && !given[in.Name] {
			v.failValue(value, "Field %q of required type %q was not provided.", t.Name+"."+in.Name, in.Type.String())
		}
	}
}

func (v *validation) misfit(f form, name string, value *ast.Value) {
	text := cut(value.String())
	switch {
	case f == formInt && value.Kind == ast.IntValue:
		v.failValue(value, "%s cannot represent non 32-bit signed integer value: %s", name, text)
	case f == formInt:
		v.failValue(value, "%s cannot represent non-integer value: %s", name, text)
	case f == formOid:
		v.failValue(value, "%s cannot represent what is no unsigned 32-bit integer: %s", name, text)
	case f == formFloat:
		v.failValue(value, "%s cannot represent non numeric value: %s", name, text)
	case f == formBoolean:
		v.failValue(value, "%s cannot represent a non boolean value: %s", name, text)
	case f == formID:
		v.failValue(value, "%s cannot represent a non-string and non-integer value: %s", name, text)
	case f == formUUID && value.Kind == ast.StringValue:
		v.failValue(value, "%s cannot represent %s: expected 32 hexadecimal digits, with or without hyphens.", name, text)
	case f == formHash:
		v.failValue(value, "%s cannot represent %s: expected an object whose values are strings, numbers or null. Pass variables as the whole object.", name, text)
	case f == formJSON:
		v.failValue(value, "%s cannot represent an enum value: %s. Write it as a string.", name, text)
	default:
		v.failValue(value, "%s cannot represent a non string value: %s. Write it as a string.", name, text)
	}
}

// fits says whether a literal that is not null has the form.
func fits(f form, v *ast.Value) bool {
	text := v.Kind == ast.StringValue || v.Kind == ast.BlockValue
	switch f {
	case formInt:
		_, err := strconv.ParseInt(v.Raw, 10, 32)
		return v.Kind == ast.IntValue && err == nil
	case formOid:
		return (text || v.Kind == ast.IntValue) && isOid(v.Raw)
	case formLoose:
		return text || v.Kind == ast.IntValue || v.Kind == ast.FloatValue || v.Kind == ast.BooleanValue
	case formFloat:
		n, err := strconv.ParseFloat(v.Raw, 64)
		return (v.Kind == ast.IntValue || v.Kind == ast.FloatValue) && err == nil && !math.IsInf(n, 0)
	case formBoolean:
		return v.Kind == ast.BooleanValue
	case formID:
		return text || v.Kind == ast.IntValue
	case formUUID:
		return text && uuid.MatchString(v.Raw)
	case formJSON:
		return fitsJSON(v)
	case formHash:
		return fitsHash(v)
	default:
		return text
	}
}

func isOid(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}

func fitsJSON(v *ast.Value) bool {
	for _, c := range v.Children {
		if !fitsJSON(c.Value) {
			return false
		}
	}
	return v.Kind != ast.EnumValue
}

func fitsHash(v *ast.Value) bool {
	for _, c := range v.Children {
		switch c.Value.Kind {
		case ast.StringValue, ast.BlockValue, ast.IntValue, ast.FloatValue, ast.NullValue:
		default:
			return false
		}
	}
	return v.Kind == ast.ObjectValue
}
