package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// inner is a kind of block inside another, of which a file may have several: graphql { tenant "a" { … } }. Its settings have
// neither flag nor variable. In the structs it is a field with the tags
//
//	inner  the block's name; the field is a slice of structs, or a pointer to one where there is one at most
//	label  the field of that struct that takes the block's label, if it has one
type inner struct {
	block    string // that it stands in
	name     string
	label    string
	typ      reflect.Type // of one
	settings []Setting
	index    []int // of the field in Config
}

var inners = sync.OnceValue(func() []inner {
	return appendInners(nil, reflect.TypeFor[Config](), "", nil)
})

func appendInners(out []inner, t reflect.Type, block string, index []int) []inner {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clone(index), i)
		if name, ok := f.Tag.Lookup("block"); ok {
			out = appendInners(out, f.Type, name, at)
		}
		if name, ok := f.Tag.Lookup("inner"); ok {
			typ := f.Type.Elem()
			out = append(out, inner{block: block, name: name, label: f.Tag.Get("label"), typ: typ, index: at,
				settings: appendSettings(nil, typ, block+"."+name+".", "", nil)})
		}
	}
	return out
}

func innerOf(block, name string) (inner, bool) {
	for _, in := range inners() {
		if in.block == block && in.name == name {
			return in, true
		}
	}
	return inner{}, false
}

func innerNames(block string) []string {
	var names []string
	for _, in := range inners() {
		if in.block == block {
			names = append(names, in.name)
		}
	}
	return names
}

// InnerPath is where one such block's setting is in messages, and for Origin: graphql.tenant "a".schemas.
func InnerPath(block, label, setting string) string {
	if label != "" {
		block += fmt.Sprintf(" %q", label)
	}
	return block + "." + setting
}

// inner reads a block that stands in another. seen has those before it.
func (d *decoder) inner(outer string, b *hclsyntax.Block, seen map[string]int) {
	in, ok := innerOf(outer, b.Type)
	if !ok {
		d.problem(b.TypeRange, fmt.Sprintf("unknown block %q inside of %q%s", b.Type, outer, didYouMean(b.Type, innerNames(outer))))
		return
	}
	label, ok := d.label(in, b)
	if !ok {
		return
	}
	if first, twice := seen[in.name+" "+label]; twice {
		d.problem(b.TypeRange, fmt.Sprintf("block %s is written twice; merge it with the one in line %d", strings.TrimSpace(fmt.Sprintf("%q %s", in.name, label)), first))
		return
	}
	seen[in.name+" "+label] = b.TypeRange.Start.Line
	one := reflect.New(in.typ)
	for _, s := range in.settings {
		mustDefault(one.Elem(), s)
	}
	if in.label != "" {
		one.Elem().FieldByName(in.label).SetString(label)
	}
	path := func(s Setting) string { return InnerPath(in.block+"."+in.name, label, s.name()) }
	d.settings(scope{block: in.name, settings: in.settings, in: one.Elem(), path: path}, b.Body)
	for _, deeper := range b.Body.Blocks {
		d.problem(deeper.TypeRange, fmt.Sprintf("unknown block %q inside of %q", deeper.Type, in.name))
	}
	field := reflect.ValueOf(d.c).Elem().FieldByIndex(in.index)
	if field.Kind() == reflect.Slice {
		field.Set(reflect.Append(field, one.Elem()))
		return
	}
	field.Set(one)
}

func (d *decoder) label(in inner, b *hclsyntax.Block) (string, bool) {
	switch {
	case in.label == "" && len(b.Labels) > 0:
		d.problem(b.LabelRanges[0], fmt.Sprintf("block %q takes no label; remove %q", in.name, b.Labels[0]))
		return "", false
	case in.label != "" && len(b.Labels) != 1:
		d.problem(b.TypeRange, fmt.Sprintf("block %[1]q takes one label, its name: write %[1]s \"NAME\" { … }", in.name))
		return "", false
	case in.label == "":
		return "", true
	}
	return b.Labels[0], true
}
