package schema

import (
	"bufio"
	"encoding/json"
	"io"
	"iter"
	"strings"
	"unicode/utf16"
)

// WriteSDL writes the schema definition, streamed type by type, in the form of GraphQL's reference implementation.
func (s *Schema) WriteSDL(w io.Writer) error {
	p := &printer{w: bufio.NewWriter(w), fields: s.FieldsOf}
	first := true
	for t := range s.walk(rootHead) {
		if t.Kind == Scalar && isBuiltIn(t.Name) {
			continue
		}
		if !first {
			p.put("\n")
		}
		first = false
		p.definition(t)
	}
	return p.w.Flush() // a bufio.Writer keeps its first error
}

func isBuiltIn(name string) bool {
	switch name {
	case "Int", "Float", "String", "Boolean", "ID":
		return true
	}
	return false
}

type printer struct {
	w      *bufio.Writer
	fields func(typeName string) iter.Seq[Field] // of the roots
}

func (p *printer) put(parts ...string) {
	for _, s := range parts {
		_, _ = p.w.WriteString(s)
	}
}

func (p *printer) definition(t *Type) {
	p.description(t.Description, "", true)
	switch t.Kind {
	case Scalar:
		p.put("scalar ", t.Name)
		if t.SpecifiedBy != "" {
			p.put(" @specifiedBy(url: ", quoted(t.SpecifiedBy), ")")
		}
		p.put("\n")
		return
	case Object:
		p.put("type ", t.Name)
	case Interface:
		p.put("interface ", t.Name)
	case Input:
		p.put("input ", t.Name)
	case Enum:
		p.put("enum ", t.Name)
	}
	if len(t.Implements) > 0 {
		p.put(" implements ", strings.Join(t.Implements, " & "))
	}
	p.put(" {\n")
	for i := range t.Fields {
		p.field(&t.Fields[i], i == 0)
	}
	if t.Name == "Query" || t.Name == "Mutation" {
		first := true
		for f := range p.fields(t.Name) {
			p.field(&f, first)
			first = false
		}
	}
	for i := range t.Inputs {
		p.description(t.Inputs[i].Description, "  ", i == 0)
		p.put("  ", inputText(&t.Inputs[i]), "\n")
	}
	for i, v := range t.Values {
		p.description(v.Description, "  ", i == 0)
		p.put("  ", v.Name, deprecation(v.Deprecated), "\n")
	}
	p.put("}\n")
}

func (p *printer) field(f *Field, first bool) {
	p.description(f.Description, "  ", first)
	p.put("  ", f.Name)
	p.args(f.Args)
	p.put(": ", f.Type.String(), deprecation(f.Deprecated), "\n")
}

// args are on one line if none of them is described.
func (p *printer) args(args []InputValue) {
	if len(args) == 0 {
		return
	}
	plain := true
	texts := make([]string, len(args))
	for i := range args {
		plain = plain && args[i].Description == ""
		texts[i] = inputText(&args[i])
	}
	if plain {
		p.put("(", strings.Join(texts, ", "), ")")
		return
	}
	p.put("(\n")
	for i := range args {
		p.description(args[i].Description, "    ", i == 0)
		p.put("    ", texts[i], "\n")
	}
	p.put("  )")
}

func inputText(v *InputValue) string {
	text := v.Name + ": " + v.Type.String()
	if v.Default != "" {
		text += " = " + v.Default
	}
	return text + deprecation(v.Deprecated)
}

func deprecation(reason string) string {
	switch reason {
	case "":
		return ""
	case "No longer supported":
		return " @deprecated"
	}
	return " @deprecated(reason: " + quoted(reason) + ")"
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always has JSON
	return unescape.Replace(string(b))
}

var unescape = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

// description writes a block string: on one line up to 70 characters, as the reference implementation does.
func (p *printer) description(text, indent string, first bool) {
	if text == "" {
		return
	}
	if indent != "" && !first {
		p.put("\n")
	}
	block := quoted(text)
	if isBlock(text) {
		block = blockString(text)
	}
	p.put(indent, strings.ReplaceAll(block, "\n", "\n"+indent), "\n")
}

// isBlock tells whether reading text as a block string gives it back: such strings lose empty lines around them, and what
// all lines are indented by.
func isBlock(text string) bool {
	if text == "" {
		return true
	}
	common, lines := true, strings.Split(text, "\n")
	for _, line := range lines {
		bare := strings.TrimLeft(line, " \t")
		common = common && (bare == "" || bare != line)
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' }) {
			return false
		}
	}
	first, last := strings.TrimLeft(lines[0], " \t"), strings.TrimLeft(lines[len(lines)-1], " \t")
	return first != "" && last != "" && (!common || len(lines) == 1)
}

func blockString(text string) string {
	escaped := strings.ReplaceAll(text, `"""`, `\"""`)
	single := !strings.ContainsAny(escaped, "\n\r")
	blank := func(b byte) bool { return b == ' ' || b == '\t' }
	lines := strings.Split(escaped, "\n")
	forceLeading := len(lines) > 1
	for _, line := range lines[1:] {
		forceLeading = forceLeading && (line == "" || blank(line[0]))
	}
	endsInBlock := strings.HasSuffix(escaped, `\"""`)
	forceTrailing := strings.HasSuffix(text, `"`) && !endsInBlock || strings.HasSuffix(text, `\`)
	multiple := !single || len(utf16.Encode([]rune(text))) > 70 || forceTrailing || forceLeading || endsInBlock
	out := escaped
	if multiple && (!single || !blank(text[0])) || forceLeading {
		out = "\n" + out
	}
	if multiple || forceTrailing {
		out += "\n"
	}
	return `"""` + out + `"""`
}
