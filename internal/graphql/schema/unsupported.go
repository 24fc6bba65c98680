package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

const (
	polymorphic = "interfaces and unions are not made of tables: what it is on is served as a table, and as what its columns say"
	ofV4        = "it is of PostGraphile's V4 preset, and nothing there without it either: write @behavior"
	noLists     = "there are no lists beside connections"
)

// unsupported are the tags that PostGraphile knows, in any preset, and that do nothing here.
var unsupported = map[string]string{
	"interface": polymorphic, "type": polymorphic, "unionMember": polymorphic, "implements": polymorphic, "returnType": polymorphic,
	"omit": ofV4, "uniqueKey": ofV4, "simpleCollections": ofV4, "sortable": ofV4, "filterable": ofV4,
	"foreignSimpleFieldName": noLists,
	"nodeIdCodec":            "node ids are base64 of JSON always",
	"partitionExpose":        "partitions are served as what they are partitions of, always",
	"deprecation":            "write @deprecated",
}

// without are the values that say what is done anyway.
var without = map[string]string{"nodeIdCodec": "base64JSON", "partitionExpose": "parent"}

// ignored is a tag that does nothing, and what it is on.
type ignored struct {
	tag   string
	first []string
	n     int
}

// namesOfIgnored is how many objects a warning names. A schema may have a tag on each of ten thousand tables.
const namesOfIgnored = 5

// warnOfIgnored names the tags that do nothing, each once.
func (b *builder) warnOfIgnored() {
	var all []ignored
	note := func(comment string, what func() string) {
		if !strings.Contains(comment, "@") {
			return
		}
		t, _ := parseComment(comment)
		for _, tag := range t {
			if _, known := unsupported[tag.name]; !known || without[tag.name] != "" && tag.value == without[tag.name] {
				continue
			}
			i := slices.IndexFunc(all, func(x ignored) bool { return x.tag == tag.name })
			if i < 0 {
				i, all = len(all), append(all, ignored{tag: tag.name})
			}
			if all[i].n++; all[i].n <= namesOfIgnored {
				all[i].first = append(all[i].first, what())
			}
		}
	}
	b.eachComment(note)
	slices.SortFunc(all, func(x, y ignored) int { return strings.Compare(x.tag, y.tag) })
	for _, x := range all {
		more := ""
		if x.n > len(x.first) {
			more = fmt.Sprintf(" and %d more", x.n-len(x.first))
		}
		b.warn("tag @%s of %s%s is without effect: %s", x.tag, strings.Join(x.first, ", "), more, unsupported[x.tag])
	}
}

// eachComment walks all comments on what is exposed.
func (b *builder) eachComment(note func(comment string, what func() string)) {
	c := b.catalog
	for i := 1; i < len(c.Classes); i++ {
		k, id := &c.Classes[i], catalog.ClassID(i)
		if int(k.Schema) >= c.Exposed {
			continue
		}
		note(k.Comment, func() string { return "table " + b.describe(id) })
		for j := range uint32(k.Columns.N) {
			column := &c.Columns[k.Columns.From+j]
			note(b.commentOf(column), func() string { return "column " + b.describe(id) + "." + column.Name })
		}
	}
	for i := range c.Types {
		note(c.Types[i].Comment, func() string { return b.describeType(catalog.TypeID(i)) })
	}
	for i := range c.Procs {
		note(c.Procs[i].Comment, func() string { return b.describeProc(catalog.ProcID(i)) })
	}
	for i := range c.Keys {
		note(c.Keys[i].Comment, func() string { return "constraint " + c.Keys[i].Name + " of " + b.describe(c.Keys[i].Class) })
	}
	for i := range c.ForeignKeys {
		note(c.ForeignKeys[i].Comment, func() string {
			return "constraint " + c.ForeignKeys[i].Name + " of " + b.describe(c.ForeignKeys[i].Class)
		})
	}
}
