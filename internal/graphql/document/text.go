package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Error texts repeat names and values of the client's own, but not more of each than this.
const quoteBytes = 100

// cut shortens a text from the client for an error text.
func cut(s string) string {
	if len(s) <= quoteBytes {
		return s
	}
	return strings.ToValidUTF8(s[:quoteBytes], "") + "…"
}

// shorten cuts what is quoted in a text, and the text.
func shorten(message string) string {
	if len(message) <= quoteBytes {
		return message
	}
	parts := strings.Split(message, `"`)
	for i, p := range parts {
		if quoted := i%2 == 1; quoted || len(p) > 3*quoteBytes {
			parts[i] = cut(p)
		}
	}
	if len(parts) > 20 {
		parts = append(parts[:20], "…")
	}
	return strings.Join(parts, `"`)
}

// inspect writes a variable's value as JavaScript's servers do in their errors, as far as an error text shows it.
func inspect(v any) string { return cut(string(appendInspect(nil, v))) }

func appendInspect(dst []byte, v any) []byte {
	if len(dst) > quoteBytes {
		return dst
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		return strconv.AppendQuote(dst, cut(v))
	case json.Number:
		return append(dst, cut(v.String())...)
	case []any:
		return appendInspectList(dst, v)
	case map[string]any:
		return appendInspectObject(dst, v)
	default:
		return fmt.Append(dst, v)
	}
}

func appendInspectList(dst []byte, v []any) []byte {
	dst = append(dst, '[')
	for i, item := range v {
		if len(dst) > quoteBytes {
			return dst
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendInspect(dst, item)
	}
	return append(dst, ']')
}

func appendInspectObject(dst []byte, v map[string]any) []byte {
	if len(v) == 0 {
		return append(dst, "{}"...)
	}
	dst = append(dst, "{ "...)
	for i, key := range slices.Sorted(maps.Keys(v)) {
		if len(dst) > quoteBytes {
			return dst
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendInspect(append(append(dst, cut(key)...), ": "...), v[key])
	}
	return append(dst, " }"...)
}
