package schema

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// camel joins the words of s, all but the first with a capital. Underscores before and behind tell names apart, and stay.
func camel(s string) string {
	if isCamel(s) {
		return s
	}
	start, middle, end := underscores(s)
	var b strings.Builder
	b.WriteString(start)
	for i, word := range words(middle) {
		word = strings.ToLower(word)
		if i > 0 {
			word = capital(word)
		}
		b.WriteString(word)
	}
	b.WriteString(end)
	return b.String()
}

// isCamel recognises the commonest names, of small letters alone, which are many.
func isCamel(s string) bool {
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return true
}

func upperCamel(s string) string { return upperFirst(camel(s)) }

// upperFirst makes the first character behind underscores a capital.
func upperFirst(s string) string {
	start, rest, end := underscores(s)
	return start + capital(rest) + end
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || unicode.IsUpper(r) {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

func underscores(s string) (start, middle, end string) {
	middle = strings.TrimLeft(s, "_")
	start = s[:len(s)-len(middle)]
	trimmed := strings.TrimRight(middle, "_")
	return start, trimmed, middle[len(trimmed):]
}

// constant is for the values of OrderBy enums: capitals, and an underscore before what was one, or a run of them.
func constant(s string) string {
	start, middle, end := underscores(s)
	out := make([]byte, 0, len(middle)+8)
	score := func() {
		if len(out) > 0 && out[len(out)-1] != '_' {
			out = append(out, '_')
		}
	}
	for i := range len(middle) {
		switch c := middle[i]; {
		case c >= 'A' && c <= 'Z':
			if i == 0 || middle[i-1] < 'A' || middle[i-1] > 'Z' {
				score()
			}
			out = append(out, c)
		case c >= 'a' && c <= 'z':
			out = append(out, c-'a'+'A')
		case c >= '0' && c <= '9':
			if len(out) == 0 {
				out = append(out, '_')
			}
			out = append(out, c)
		default:
			score()
		}
	}
	return start + string(out) + end
}

// glyph is what a character is to the finding of words.
type glyph uint8

const (
	gap   glyph = iota // between words
	small              // Latin letters
	upper              //
	digit              //
	other              // letters of other scripts, which are not split
)

func glyphOf(r rune) glyph {
	switch {
	case r >= 'a' && r <= 'z':
		return small
	case r >= 'A' && r <= 'Z':
		return upper
	case r >= '0' && r <= '9':
		return digit
	case r <= 0xbf || r == 0xd7 || r == 0xf7 || unicode.IsPunct(r) || unicode.IsSpace(r):
		return gap
	default:
		return other
	}
}

// words splits a name where its writer would have: at what is no letter or digit, before a capital behind a small letter,
// before the last capital of a run that a small letter follows, and between letters and digits; but "2nd" is one word. Marks
// on letters are dropped, and so are apostrophes.
func words(s string) (out []string) {
	runes := []rune(apostrophes.Replace(unmarked(s)))
	for i := 0; i < len(runes); {
		n := wordAt(runes[i:])
		if n == 0 {
			i++
			continue
		}
		out = append(out, string(runes[i:i+n]))
		i += n
	}
	return out
}

var apostrophes = strings.NewReplacer("'", "", "’", "")

// wordAt is the length of the word that s begins with; 0 if it begins with none.
func wordAt(s []rune) int {
	run := func(from int, of ...glyph) int {
		n := from
		for n < len(s) && oneOf(glyphOf(s[n]), of) {
			n++
		}
		return n
	}
	switch glyphOf(s[0]) {
	case gap:
		return 0
	case digit:
		n := run(0, digit)
		if isOrdinal(s, n) {
			return n + 2
		}
		return n
	}
	// A run of capitals ends before the one that begins a word of small letters.
	for n := run(0, upper, other); n > 0; n-- {
		if n == len(s) || glyphOf(s[n]) == gap {
			return n
		}
		if glyphOf(s[n]) == upper && n+1 < len(s) && oneOf(glyphOf(s[n+1]), []glyph{small, other}) {
			return n
		}
	}
	first := 0
	if glyphOf(s[0]) == upper {
		first = 1
	}
	if n := run(first, small, other); n > first {
		return n
	}
	return run(0, upper)
}

func oneOf(g glyph, of []glyph) bool {
	for _, o := range of {
		if g == o {
			return true
		}
	}
	return false
}

// isOrdinal tells whether the n digits that s begins with go on as in 1st, 22ND or 11th.
func isOrdinal(s []rune, n int) bool {
	if n+2 > len(s) {
		return false
	}
	want := "th"
	switch s[n-1] {
	case '1':
		want = "st"
	case '2':
		want = "nd"
	case '3':
		want = "rd"
	}
	end, next := string(s[n:n+2]), gap
	if n+2 < len(s) {
		next = glyphOf(s[n+2])
	}
	return end == want && (next == gap || next == upper || next == other) || end == strings.ToUpper(want) && (next == gap || next == small || next == other)
}
