package schema

import (
	"strings"
	"unicode"
	"unicode/utf8"

	pluralize "github.com/gertd/go-pluralize"
)

// english makes plurals and singulars as the shape's inventor does, who uses an older edition of the rules that the library
// has: names must be the same, be they good English or not ("databasis", "cooky").
var english = func() *pluralize.Client {
	c := pluralize.NewClient()
	for _, r := range [][2]string{
		{`(?i)(octop)(?:us|i)$`, `$1i`}, {`(?i)(mas)$`, `$1`}, {`(?i)(m|l)(?:ice|ouse)$`, `$1ice`},
	} {
		c.AddPluralRule(r[0], r[1])
	}
	for _, r := range [][2]string{
		{`(?i)(dg|ss|ois|lk|ok|wn|mb|th|ch|ec|oal|is|ck|ix|sser|ts|wb|hogt|auntt|hipp|junk|vegg|porkp|charl|calor)ies$`, `$1y`},
		{`(?i)\b([pl]|zomb|(?:neck|cross)?t|coll|faer|food|gen|goon|group|lass|talk|goal|cut)ies$`, `$1ie`},
		{`(?i)(octop)(?:us|i)$`, `$1us`}, {`(?i)(ris)(?:es)?$`, `$1`}, {`(?i)(ba)(?:sis|ses)$`, `$1sis`}, {`(?i)(m|l)ice$`, `$1ouse`},
	} {
		c.AddSingularRule(r[0], r[1])
	}
	for _, word := range []string{"aircraft", "analytic", "firmware", "hardware", "mud", "personnel", "software", "transportation", "whiskey"} {
		many := word + "s"
		if word == "whiskey" {
			many = "whiskies"
		}
		c.AddIrregularRule(word, many)
	}
	c.AddUncountableRule("species")
	return c
}()

// plural repeats the older edition's way with what does not end in a small letter: a capital S.
func plural(s string) string {
	many := english.Plural(s)
	if last, _ := utf8.DecodeLastRuneInString(s); many == s+"s" && !unicode.IsLower(last) {
		return s + "S"
	}
	return many
}

func singular(s string) string { return english.Singular(s) }

// notInput keeps the names of row types from looking like those of their inputs and patches.
func notInput(s string) string {
	for _, end := range []string{"_input", "-input", "Input", "_patch", "-patch", "Patch"} {
		if strings.HasSuffix(s, end) && len(s) > len(end) {
			return s + "_record"
		}
	}
	return s
}
