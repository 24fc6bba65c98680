package schema

import (
	"strings"
	"unicode"
)

// Letters of European scripts in Latin letters, by code point; "-" is for those that have no sound.
var (
	latin    = strings.Fields(`A A A A A A Ae C E E E E I I I I D N O O O O O x O U U U U Y Th ss a a a a a a ae c e e e e i i i i d n o o o o o / o u u u u y th y A a A a A a C c C c C c C c D d D d E e E e E e E e E e G g G g G g G g H h H h I i I i I i I i I i IJ ij J j K k k L l L l L l L l L l N n N n N n 'n N n O o O o O o Oe oe R r R r R r S s S s S s S s T t T t T t U u U u U u U u U u U u W w Y y Y Z z Z z Z z s`)
	greek    = strings.Fields(`A ; E I I - O - U O I A V G D E Z I Th I K L M N X O P R - S T Y F H Ps O I Y a e i i y a v g d e z i th i k l m n x o p r s s t y f h ps o i y o y o`)
	cyrillic = strings.Fields(`Jo Yo Dj Gj Ie Dz I Yi J Lj Nj Tsh Kj I U Dzh A B V G D E Zh Z I Y K L M N O P R S T U F H C Ch Sh Shch - Y - E Yu Ya a b v g d e zh z i y k l m n o p r s t u f h c ch sh shch - y - e yu ya je yo dj gj ie dz i yi j lj nj tsh kj i u dzh`)
)

const (
	firstLatin    = 0xc0
	firstGreek    = 0x386
	firstCyrillic = 0x400
)

// letterIn writes a character in Latin letters, if it is of the table.
func letterIn(table []string, first, r rune) (string, bool) {
	if r < first || int(r-first) >= len(table) {
		return "", false
	}
	if s := table[r-first]; s != "-" {
		return s, true
	}
	return "", true
}

// unmarked drops the marks of Latin letters.
func unmarked(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch letter, ok := letterIn(latin, firstLatin, r); {
		case unicode.Is(unicode.Mn, r):
		case ok && r != 0xd7 && r != 0xf7:
			b.WriteString(letter)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] > unicode.MaxASCII {
			return false
		}
	}
	return true
}

// plain makes of any name one that begins as GraphQL's do and has Latin letters only: a digit in front gets an underscore, and
// two underscores in front, which belong to introspection, become one.
func plain(s string) string {
	s = plainStart(s)
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range unmarked(s) {
		b.WriteString(inLatin(r))
	}
	return b.String()
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

// inLatin writes a letter of a script that there is no table for as its code point: ugly, and the same in every build.
func inLatin(r rune) string {
	if r <= unicode.MaxASCII {
		return string(r)
	}
	for _, t := range []struct {
		table []string
		first rune
	}{{latin, firstLatin}, {greek, firstGreek}, {cyrillic, firstCyrillic}} {
		if letter, ok := letterIn(t.table, t.first, r); ok {
			return letter
		}
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
	for i := range len(s) {
		if c := s[i]; c != '_' && !isLetter(c) && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
