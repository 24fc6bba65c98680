package document

import (
	"strconv"

	"github.com/leveehq/levee/internal/graphql/schema"
)

// Shape distinguishes values of the variables that may need different SQL: which are absent or null, at any depth, the
// lengths of lists, and the values of booleans and of the enums that order. Two requests of one operation with equal shapes share a plan.
func (v *Variables) Shape(coerced map[string]any) string {
	if len(v.vars) == 0 {
		return ""
	}
	dst := make([]byte, 0, 64)
	for i := range v.vars {
		def := &v.vars[i]
		value, ok := coerced[def.name]
		if !ok {
			dst = append(dst, '-')
			continue
		}
		dst = v.appendShape(dst, def.ref, def.typ, value)
	}
	return string(dst)
}

// appendShape is read from left to right without ambiguity: what follows a letter is known from the type and the letter.
func (v *Variables) appendShape(dst []byte, ref schema.Ref, typ int, value any) []byte {
	if value == nil {
		return append(dst, 'n')
	}
	if list, ok := value.([]any); ok && ref.List {
		dst = strconv.AppendInt(append(dst, 'l'), int64(len(list)), 10)
		dst = append(dst, ':')
		for _, item := range list {
			dst = v.appendShape(dst, schema.Ref{Name: ref.Name}, typ, item)
		}
		return dst
	}
	switch t := &v.types[typ]; t.form {
	case formEnum:
		if !t.order {
			return append(dst, 'v')
		}
		name, _ := value.(string)
		return append(append(append(dst, 'e'), name...), ';')
	case formBoolean:
		if value == true {
			return append(dst, 't')
		}
		return append(dst, 'f')
	case formObject:
		object, _ := value.(map[string]any)
		return v.appendObjectShape(dst, t, object)
	default:
		return append(dst, 'v')
	}
}

func (v *Variables) appendObjectShape(dst []byte, t *inputType, object map[string]any) []byte {
	dst = append(dst, 'o')
	for i := range t.fields {
		f := &t.fields[i]
		member, ok := object[f.name]
		if !ok {
			dst = append(dst, '-')
			continue
		}
		dst = v.appendShape(dst, f.ref, f.typ, member)
	}
	return dst
}
