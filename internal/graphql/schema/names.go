package schema

import (
	"strings"
	"unicode"

	pluralize "github.com/gertd/go-pluralize"
)

// English plurals and singulars, by the rules of the JavaScript library that PostGraphile's names come from.
var english = pluralize.NewClient()

func plural(s string) string   { return english.Plural(s) }
func singular(s string) string { return english.Singular(s) }

// words splits a name where its writer would have: at signs that are no letters or digits, before a capital after a small
// letter, before the last capital of a run that a small letter follows, and between letters and digits.
func words(s string) (out []string) {
	runes := []rune(s)
	start := -1
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			if start >= 0 {
				out, start = append(out, string(runes[start:i])), -1
			}
			continue
		}
		if start >= 0 && splits(runes, i) {
			out, start = append(out, string(runes[start:i])), i
		}
		if start < 0 {
			start = i
		}
	}
	if start >= 0 {
		out = append(out, string(runes[start:]))
	}
	return out
}

func splits(runes []rune, i int) bool {
	before, now := runes[i-1], runes[i]
	switch {
	case unicode.IsDigit(before) != unicode.IsDigit(now):
		return true
	case unicode.IsUpper(now) && !unicode.IsUpper(before):
		return true
	default:
		return unicode.IsUpper(before) && unicode.IsUpper(now) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
	}
}

// camel keeps leading and trailing underscores, which tell names apart.
func camel(s string) string {
	start, middle, end := underscores(s)
	var b strings.Builder
	b.WriteString(start)
	for i, word := range words(middle) {
		word = strings.ToLower(word)
		if i > 0 {
			word = upperFirst(word)
		}
		b.WriteString(word)
	}
	b.WriteString(end)
	return b.String()
}

func upperCamel(s string) string { return upperFirst(camel(s)) }

func upperFirst(s string) string {
	for i, r := range s {
		return string(unicode.ToUpper(r)) + s[i+len(string(r)):]
	}
	return s
}

// constant is for the values of OrderBy enums.
func constant(s string) string {
	start, middle, end := underscores(s)
	var b strings.Builder
	previous := '_'
	for i, r := range middle {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = '_'
		}
		if unicode.IsUpper(r) && !unicode.IsUpper(previous) && previous != '_' {
			b.WriteByte('_')
		}
		if i == 0 && start == "" && unicode.IsDigit(r) {
			b.WriteByte('_')
		}
		if r != '_' || previous != '_' {
			b.WriteRune(unicode.ToUpper(r))
		}
		previous = r
	}
	return start + b.String() + end
}

func underscores(s string) (start, middle, end string) {
	middle = strings.TrimLeft(s, "_")
	start = s[:len(s)-len(middle)]
	trimmed := strings.TrimRight(middle, "_")
	return start, trimmed, middle[len(trimmed):]
}

// plain makes a name that GraphQL can express of one that PostgreSQL can: a digit in front gets an underscore, two
// underscores in front belong to introspection, and letters that are not ASCII are written without their marks.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r <= unicode.MaxASCII {
			b.WriteRune(r)
			continue
		}
		b.WriteString(ascii(r))
	}
	s = b.String()
	if strings.HasPrefix(s, "__") {
		s = "_" + strings.TrimLeft(s, "_")
	}
	if s != "" && s[0] >= '0' && s[0] <= '9' {
		s = "_" + s
	}
	return s
}

var asciiOf = map[rune]string{
	'ä': "a", 'ö': "o", 'ü': "u", 'Ä': "A", 'Ö': "O", 'Ü': "U", 'ß': "ss", 'é': "e", 'è': "e", 'ê': "e", 'ë': "e", 'á': "a", 'à': "a", 'â': "a", 'ã': "a", 'å': "a",
	'í': "i", 'ì': "i", 'î': "i", 'ï': "i", 'ó': "o", 'ò': "o", 'ô': "o", 'õ': "o", 'ø': "o", 'ú': "u", 'ù': "u", 'û': "u", 'ñ': "n", 'ç': "c", 'ý': "y", 'ÿ': "y",
	'æ': "ae", 'œ': "oe", 'É': "E", 'Å': "A", 'Ø': "O", 'Ñ': "N", 'Ç': "C", 'š': "s", 'ž': "z", 'č': "c", 'ř': "r", 'ě': "e", 'ł': "l", 'ś': "s", 'ź': "z", 'ż': "z", 'ą': "a", 'ę': "e", 'ć': "c", 'ń': "n",
}

// ascii writes a letter of another alphabet as its code point: ugly, and the same in every build.
func ascii(r rune) string {
	if s, ok := asciiOf[r]; ok {
		return s
	}
	if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
		return "_"
	}
	const digits = "0123456789abcdef"
	out := []byte("u")
	for shift := 20; shift >= 0; shift -= 4 {
		if d := r >> shift & 15; d != 0 || len(out) > 1 || shift < 16 {
			out = append(out, digits[d])
		}
	}
	return string(out)
}

// validName is GraphQL's Name, but for those that introspection keeps for itself.
func validName(s string) bool {
	if s == "" || strings.HasPrefix(s, "__") || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for _, r := range s {
		if r > unicode.MaxASCII || r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return true
}

// notInput keeps the names of row types from looking like those of their inputs and patches.
func notInput(s string) string {
	for _, end := range []string{"_input", "-input", "Input", "_patch", "-patch", "Patch"} {
		if strings.HasSuffix(s, end) && len(s) > len(end) {
			return s + "_record"
		}
	}
	return s
}

// symbols spell the labels that are operators.
var symbols = map[string]string{
	">": "GREATER_THAN", ">=": "GREATER_THAN_OR_EQUAL", "=": "EQUAL", "!=": "NOT_EQUAL", "<>": "DIFFERENT", "<=": "LESS_THAN_OR_EQUAL", "<": "LESS_THAN",
	"~~": "LIKE", "!~~": "NOT_LIKE", "~": "TILDE", "!~": "NOT_TILDE",
	"%": "PERCENT", "+": "PLUS", "-": "MINUS", "/": "SLASH", `\`: "BACKSLASH", "_": "UNDERSCORE", "#": "POUND", "£": "STERLING", "$": "DOLLAR", "&": "AMPERSAND", "@": "AT",
	"'": "APOSTROPHE", `"`: "QUOTE", "`": "BACKTICK", ":": "COLON", ";": "SEMICOLON", "!": "EXCLAMATION_POINT", "?": "QUESTION_MARK", ",": "COMMA", ".": "DOT", "^": "CARET", "|": "BAR",
	"[": "OPEN_BRACKET", "]": "CLOSE_BRACKET", "(": "OPEN_PARENTHESIS", ")": "CLOSE_PARENTHESIS", "{": "OPEN_BRACE", "}": "CLOSE_BRACE",
}

// enumName is the name of an enum's label; renamed says that Amber would have lost it and we made one up.
func enumName(label string) (name string, renamed bool) {
	if label == "" {
		return "_EMPTY_", false
	}
	name = label
	if strings.Contains(name, "*") {
		name = stars(name)
	}
	if s, ok := symbols[name]; ok {
		name = s
	}
	if name = plainStart(name); validName(name) && name != "true" && name != "false" && name != "null" {
		return name, false
	}
	return awkward(label), true
}

func plainStart(s string) string {
	if s != "" && s[0] >= '0' && s[0] <= '9' {
		s = "_" + s
	}
	if strings.HasPrefix(s, "__") {
		s = "_" + strings.TrimLeft(s, "_")
	}
	return s
}

// stars spells out asterisks: "*" is ASTERISK, "a*" is a_ASTERISK, "**" is ASTERISK__ASTERISK.
func stars(s string) string {
	s = strings.ReplaceAll(s, "*", "_ASTERISK_")
	if strings.HasPrefix(s, "_ASTERISK") {
		s = s[1:]
	}
	return strings.TrimSuffix(s, "_")
}

func awkward(label string) string {
	var b strings.Builder
	for _, r := range label {
		switch {
		case r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(r)
		case r > unicode.MaxASCII:
			b.WriteString(ascii(r))
		default:
			b.WriteByte('_')
		}
	}
	s := plainStart(b.String())
	switch s {
	case "true", "false", "null":
		return "_" + s
	}
	if strings.Trim(s, "_") == "" {
		return "_SIGN"
	}
	return s
}
