package schema

import (
	"fmt"
	"strings"
)

// tags are what a comment says in lines that begin with @, before its text.
type tags []tag

type tag struct{ name, value string }

// parseComment splits a comment into its tags and its text. A tag's line may go on: a backslash at its end joins the next.
func parseComment(comment string) (tags, string) {
	if !strings.HasPrefix(strings.TrimLeft(comment, "\n "), "@") {
		return nil, strings.TrimSpace(comment)
	}
	var out tags
	rest := strings.TrimLeft(comment, "\n ")
	for strings.HasPrefix(rest, "@") {
		line, after, _ := strings.Cut(rest, "\n")
		for strings.HasSuffix(line, `\`) && after != "" {
			var more string
			more, after, _ = strings.Cut(after, "\n")
			line = strings.TrimSuffix(line, `\`) + "\n" + more
		}
		name, value, _ := strings.Cut(line[1:], " ")
		out = append(out, tag{name, strings.TrimSpace(value)})
		rest = after
	}
	return out, strings.TrimSpace(rest)
}

// get returns the value of the last tag of that name, "" if there is none.
func (t tags) get(name string) string {
	for i := len(t) - 1; i >= 0; i-- {
		if t[i].name == name {
			return t[i].value
		}
	}
	return ""
}

func (t tags) has(name string) bool {
	for _, tag := range t {
		if tag.name == name {
			return true
		}
	}
	return false
}

// all joins the values of repeated tags by lines.
func (t tags) all(name string) string {
	var values []string
	for _, tag := range t {
		if tag.name == name {
			values = append(values, tag.value)
		}
	}
	return strings.Join(values, "\n")
}

// forbids tells whether @behavior takes something away: "-insert", or all by "-*". A later "+" gives it back. Words are
// compared by their last part, so "-resource:insert" and "-query:resource:connection" are meant too.
func (t tags) forbids(what string) bool {
	off := false
	for _, word := range strings.Fields(t.all("behavior")) {
		sign, scope := word[0], strings.TrimLeft(word, "+-")
		if sign != '+' && sign != '-' {
			sign = '+'
		}
		last := scope[strings.LastIndexByte(scope, ':')+1:]
		if scope == "*" || last == what || scope == what {
			off = sign == '-'
		}
	}
	return off
}

// allows tells whether @behavior adds something that is off by default.
func (t tags) allows(what string) bool {
	on := false
	for _, word := range strings.Fields(t.all("behavior")) {
		scope := strings.TrimLeft(word, "+-")
		if scope == "*" || scope == what || scope[strings.LastIndexByte(scope, ':')+1:] == what {
			on = word[0] != '-'
		}
	}
	return on
}

// virtualKey is what @foreignKey says: (a, b) references schema.table (c, d)|@fieldName x|@foreignFieldName y.
type virtualKey struct {
	columns, foreignColumns []string
	schema, table           string
	tags                    tags
}

func parseForeignKey(value string) (virtualKey, error) {
	parts := strings.Split(value, "|")
	var v virtualKey
	for _, part := range parts[1:] {
		name, text, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(part), "@"), " ")
		v.tags = append(v.tags, tag{name, strings.TrimSpace(text)})
	}
	local, foreign, ok := cutFold(parts[0], " references ")
	if !ok {
		return v, fmt.Errorf("%q has no \"references\": write (column) references table (column)", value)
	}
	v.columns = columnList(local)
	table, columns, _ := strings.Cut(foreign, "(")
	v.foreignColumns = columnList(columns)
	v.table = unquote(table)
	if schema, name, ok := strings.Cut(strings.TrimSpace(table), "."); ok {
		v.schema, v.table = unquote(schema), unquote(name)
	}
	if len(v.columns) == 0 || v.table == "" || len(v.foreignColumns) > 0 && len(v.foreignColumns) != len(v.columns) {
		return v, fmt.Errorf("%q does not pair columns with columns: write (column) references table (column)", value)
	}
	return v, nil
}

func cutFold(s, sep string) (before, after string, ok bool) {
	i := strings.Index(strings.ToLower(s), sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func columnList(s string) (out []string) {
	for _, name := range strings.Split(strings.Trim(strings.TrimSpace(s), "()"), ",") {
		if name = unquote(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return strings.ReplaceAll(s[1:len(s)-1], `""`, `"`)
	}
	return s
}
