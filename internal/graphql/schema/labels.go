package schema

import "strings"

// symbols spell the labels that are operators.
var symbols = map[string]string{
	">": "GREATER_THAN", ">=": "GREATER_THAN_OR_EQUAL", "=": "EQUAL", "!=": "NOT_EQUAL", "<>": "DIFFERENT", "<=": "LESS_THAN_OR_EQUAL", "<": "LESS_THAN",
	"~~": "LIKE", "!~~": "NOT_LIKE", "~": "TILDE", "!~": "NOT_TILDE",
	"%": "PERCENT", "+": "PLUS", "-": "MINUS", "/": "SLASH", `\`: "BACKSLASH", "_": "UNDERSCORE", "#": "POUND", "£": "STERLING", "$": "DOLLAR", "&": "AMPERSAND", "@": "AT",
	"'": "APOSTROPHE", `"`: "QUOTE", "`": "BACKTICK", ":": "COLON", ";": "SEMICOLON", "!": "EXCLAMATION_POINT", "?": "QUESTION_MARK", ",": "COMMA", ".": "DOT", "^": "CARET", "|": "BAR",
	"[": "OPEN_BRACKET", "]": "CLOSE_BRACKET", "(": "OPEN_PARENTHESIS", ")": "CLOSE_PARENTHESIS", "{": "OPEN_BRACE", "}": "CLOSE_BRACE",
}

// labelName is the name of an enum's label; renamed says that the shape's inventor would have lost it and we made one up.
func labelName(label string) (name string, renamed bool) {
	if label == "" {
		return "_EMPTY_", false
	}
	name = stars(label)
	if s, ok := symbols[name]; ok {
		name = s
	}
	if name = plain(name); validName(name) && !isLiteral(name) {
		return name, false
	}
	return madeUp(label), true
}

// isLiteral is true for what GraphQL reads as something else than an enum's value.
func isLiteral(s string) bool { return s == "true" || s == "false" || s == "null" }

// stars spells out asterisks: "*" is ASTERISK, "a*" is a_ASTERISK, "**" is ASTERISK__ASTERISK.
func stars(s string) string {
	if !strings.Contains(s, "*") {
		return s
	}
	s = strings.ReplaceAll(s, "*", "_ASTERISK_")
	if rest := strings.TrimLeft(s, "_"); strings.HasPrefix(rest, "ASTERISK") {
		s = strings.Repeat("_", min(1, len(s)-len(rest)-1)) + rest
	}
	if rest := strings.TrimRight(s, "_"); strings.HasSuffix(rest, "ASTERISK") {
		s = rest + strings.Repeat("_", min(1, len(s)-len(rest)-1))
	}
	return s
}

// madeUp keeps the letters and digits of a label.
func madeUp(label string) string {
	var b strings.Builder
	for _, r := range label {
		if letter := inLatin(r); validName("_" + letter) {
			b.WriteString(letter)
		} else {
			b.WriteByte('_')
		}
	}
	switch s := plainStart(b.String()); {
	case isLiteral(s):
		return "_" + s
	case strings.Trim(s, "_") == "":
		return "_SIGN"
	default:
		return s
	}
}
