package schema

import (
	"fmt"
	"strings"
)

// virtualKey is what @primaryKey or @unique say: a, b|@behavior -single.
type virtualKey struct {
	columns []string
	tags    tags
}

// virtualForeignKey is what @foreignKey says: (a, b) references schema.table (c, d)|@fieldName x|@foreignFieldName y.
type virtualForeignKey struct {
	virtualKey
	schema, table  string
	foreignColumns []string // none: the primary key
}

// parseKey reads the value of @primaryKey or @unique. Names are as they are in the database.
func parseKey(value string) (virtualKey, error) {
	spec, rest, _ := strings.Cut(value, "|")
	k := virtualKey{tags: tagsOf(rest)}
	for _, name := range strings.Split(spec, ",") {
		if name = strings.Trim(strings.TrimSpace(name), `"`); name == "" {
			return k, fmt.Errorf("%q names no column: write the columns' names, separated by commas", value)
		}
		k.columns = append(k.columns, name)
	}
	return k, nil
}

func tagsOf(parts string) tags {
	t, _ := parseComment(strings.ReplaceAll(parts, "|", "\n"))
	return t
}

// parseForeignKey reads the value of @foreignKey. Names without quotes are in small letters, as in SQL.
func parseForeignKey(value string) (v virtualForeignKey, err error) {
	spec, rest, _ := strings.Cut(value, "|")
	v.tags = tagsOf(rest)
	wrong := fmt.Errorf("%q is not understood: write (column, …) references schema.table (column, …)", value)
	local, foreign, ok := cutFold(spec, " references ")
	if !ok {
		return v, wrong
	}
	if v.columns, ok = columnList(local); !ok {
		return v, wrong
	}
	table := foreign
	if at := strings.IndexByte(foreign, '('); at >= 0 {
		table = foreign[:at]
		if v.foreignColumns, ok = columnList(foreign[at:]); !ok || len(v.foreignColumns) != len(v.columns) {
			return v, wrong
		}
	}
	if schema, name, ok := strings.Cut(table, "."); ok {
		v.schema, table = identifier(schema), name
	}
	if v.table = identifier(table); v.table == "" {
		return v, wrong
	}
	return v, nil
}

func cutFold(s, sep string) (before, after string, ok bool) {
	i := strings.Index(strings.ToLower(s), sep)
	if i < 0 || len(strings.ToLower(s)) != len(s) {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// columnList reads "(a, b)".
func columnList(s string) (out []string, ok bool) {
	s = strings.TrimSpace(s)
	if len(s) < 2 || s[0] != '(' || s[len(s)-1] != ')' {
		return nil, false
	}
	for _, name := range strings.Split(s[1:len(s)-1], ",") {
		if name = identifier(name); name == "" {
			return nil, false
		}
		out = append(out, name)
	}
	return out, true
}

// identifier reads a name as SQL does.
func identifier(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return strings.ReplaceAll(s[1:len(s)-1], `""`, `"`)
	}
	return strings.ToLower(s)
}
