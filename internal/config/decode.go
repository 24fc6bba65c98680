package config

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Parse reads src, the text of a file called name, over the defaults. The error is a Problems that lists everything
// wrong with it, each with its place; the settings are not yet checked against one another (see Validate).
func Parse(src []byte, name string) (*Config, error) {
	c := Default()
	d := decoder{c: c, src: src, name: name}
	d.file()
	return c, d.problems.err()
}

// decoder walks the syntax tree itself, in place of gohcl: so the table of settings stays the only schema, each value
// remembers where it was written, and every message can be worded for the setting at hand.
type decoder struct {
	c        *Config
	src      []byte
	name     string
	problems Problems
}

func (d *decoder) file() {
	file, diags := hclsyntax.ParseConfig(d.src, d.name, hcl.InitialPos)
	d.diagnostics(diags)
	if file == nil || diags.HasErrors() {
		return
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok { // cannot happen with ParseConfig
		return
	}
	known := blocks()
	d.settings(d.top("", known), body)
	seen := map[string]hcl.Range{}
	for _, b := range body.Blocks {
		d.block(b, seen, known)
	}
}

func (d *decoder) block(b *hclsyntax.Block, seen map[string]hcl.Range, known map[string][]Setting) {
	at := b.TypeRange
	if _, ok := known[b.Type]; !ok || b.Type == "" {
		d.problem(at, fmt.Sprintf("unknown block %q%s", b.Type, didYouMean(b.Type, blockNames())))
		return
	}
	if first, twice := seen[b.Type]; twice {
		d.problem(at, fmt.Sprintf("block %q is written twice; merge it with the one in line %d", b.Type, first.Start.Line))
		return
	}
	seen[b.Type] = at
	if len(b.Labels) > 0 {
		d.problem(b.LabelRanges[0], fmt.Sprintf("block %q takes no label; remove %q", b.Type, b.Labels[0]))
	}
	d.settings(d.top(b.Type, known), b.Body)
	seenInside := map[string]int{}
	for _, inside := range b.Body.Blocks {
		d.inner(b.Type, inside, seenInside)
	}
}

// scope is where the attributes of one block go; block "" is the top of the file.
type scope struct {
	block    string
	settings []Setting
	in       reflect.Value        // what they are fields of
	path     func(Setting) string // of one of them, in messages and for Origin
}

// top is the scope of a block that is written once.
func (d *decoder) top(block string, known map[string][]Setting) scope {
	return scope{block: block, settings: known[block], in: reflect.ValueOf(d.c).Elem(), path: func(s Setting) string { return s.Path }}
}

// settings sets the attributes of one block.
func (d *decoder) settings(to scope, body *hclsyntax.Body) {
	byName := map[string]Setting{}
	var names []string
	for _, s := range to.settings {
		byName[s.name()] = s
		names = append(names, s.name())
	}
	for _, attr := range body.Attributes {
		s, ok := byName[attr.Name]
		if !ok {
			d.problem(attr.NameRange, unknownSetting(to.block, attr.Name, names))
			continue
		}
		d.setting(to, s, attr)
	}
}

func unknownSetting(block, name string, names []string) string {
	where := "at the top of the file"
	if block != "" {
		where = fmt.Sprintf("in block %q", block)
	}
	text := fmt.Sprintf("unknown setting %q %s", name, where)
	if hint := didYouMean(name, names); hint != "" {
		return text + hint
	}
	for _, s := range settings() { // the right name in the wrong block
		if s.name() == name {
			return text + "; there is " + s.Path
		}
	}
	if _, isBlock := blocks()[name]; isBlock && block == "" {
		return text + fmt.Sprintf("; it is a block: write %s { … } without =", name)
	}
	return text
}

func (d *decoder) setting(to scope, s Setting, attr *hclsyntax.Attribute) {
	at := attr.Expr.Range()
	value, diags := attr.Expr.Value(nil)
	d.diagnostics(diags)
	if diags.HasErrors() {
		return
	}
	text, err := fileText(s, value)
	if err == nil {
		err = setText(to.in.FieldByIndex(s.index), s, text)
	}
	if err != nil {
		d.problem(at, fmt.Sprintf("%s = %s %v", to.path(s), s.shown(d.excerpt(at)), err))
		return
	}
	d.c.origins[to.path(s)] = fileOrigin(attr.NameRange)
}

// fileText is what an operator would have written on the command line for a value of the file. It is strict about
// types, because "10" for a number is more often a slip than an intention.
func fileText(s Setting, v cty.Value) (string, error) {
	if v.IsNull() || !v.IsKnown() {
		return "", errors.New("is null; leave the line out for the default")
	}
	if s.Kind == "LIST" {
		return listText(v)
	}
	if s.Kind == "PAIRS" {
		return pairsText(v)
	}
	if s.Kind == "BOOL" {
		if v.Type() != cty.Bool {
			return "", errors.New("must be true or false, without quotes")
		}
		return strconv.FormatBool(v.True()), nil
	}
	text := v.Type() == cty.String
	number := v.Type() == cty.Number
	switch {
	case text && s.Default == Auto && v.AsString() == Auto:
		return Auto, nil
	case s.Kind == "SIZE" && (text || number), s.Kind == "TIME" && text, (s.Kind == "TEXT" || s.Kind == "WORD") && text,
		(s.Kind == "NUMBER" || s.Kind == "SHARE") && number:
	default:
		return "", fmt.Errorf("must be %s", wanted[s.Kind])
	}
	if text {
		return v.AsString(), nil
	}
	f := v.AsBigFloat()
	if exp := f.MantExp(nil); f.IsInf() || exp > 64 || exp < -1000 { // the digits of 1e999999999 would take the memory that is ours to guard
		return "", errors.New("is out of range")
	}
	if i, exact := f.Int(nil); exact == big.Exact {
		return i.String(), nil
	}
	return f.Text('g', 17), nil
}

var wanted = map[string]string{
	"SIZE":   `a size such as "512MiB", or a number of bytes`,
	"TIME":   `a time in quotes with its unit, such as "10s"`,
	"TEXT":   "a text in quotes",
	"WORD":   "a word in quotes",
	"NUMBER": "a whole number without quotes",
	"SHARE":  "a number such as 0.75, without quotes",
	"LIST":   `a list such as ["cache.example.com"]`,
	"PAIRS":  `pairs such as { "github.com" = "env:GITHUB_TOKEN" }`,
}

func listText(v cty.Value) (string, error) {
	if !v.CanIterateElements() || v.Type().IsMapType() || v.Type().IsObjectType() {
		return "", fmt.Errorf("must be %s", wanted["LIST"])
	}
	joined := ""
	for _, e := range v.AsValueSlice() {
		if e.IsNull() || e.Type() != cty.String {
			return "", fmt.Errorf("must be %s", wanted["LIST"])
		}
		joined += e.AsString() + ","
	}
	return joined, nil
}

func pairsText(v cty.Value) (string, error) {
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		return "", fmt.Errorf("must be %s", wanted["PAIRS"])
	}
	joined := ""
	for name, e := range v.AsValueMap() {
		if e.IsNull() || e.Type() != cty.String {
			return "", fmt.Errorf("must be %s", wanted["PAIRS"])
		}
		if strings.ContainsAny(name+e.AsString(), ",") {
			return "", errors.New("has a comma in a pair, which cannot be part of either side")
		}
		joined += name + "=" + e.AsString() + ","
	}
	return joined, nil
}

// excerpt is the text of the file at r, in one line.
func (d *decoder) excerpt(r hcl.Range) string {
	return oneLine(string(r.SliceBytes(d.src)), 60)
}

func (d *decoder) diagnostics(diags hcl.Diagnostics) {
	for _, diag := range diags {
		if diag.Severity != hcl.DiagError {
			continue
		}
		at := hcl.Range{Filename: d.name, Start: hcl.InitialPos, End: hcl.InitialPos}
		if diag.Subject != nil {
			at = *diag.Subject
		}
		d.problem(at, diag.Summary+": "+diag.Detail)
	}
}

func (d *decoder) problem(at hcl.Range, text string) {
	d.problems = append(d.problems, Problem{At: position(at), Text: text, Snippet: snippet(d.src, at), offset: at.Start.Byte})
}

func fileOrigin(r hcl.Range) Origin { return Origin{Kind: FromFile, Where: position(r)} }

func position(r hcl.Range) string {
	return fmt.Sprintf("%s:%d,%d", r.Filename, r.Start.Line, r.Start.Column)
}
