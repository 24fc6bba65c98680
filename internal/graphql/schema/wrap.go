package schema

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
)

// say makes a description that is part of the shape. Long lines are broken as the first printers of GraphQL schemas did,
// by the indentation that it will have: a type's 0, a field's 2, an argument's 4.
func say(indent int, format string, args ...any) string {
	most := 120 - indent
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i, line := range lines {
		if len(utf16.Encode([]rune(line))) >= most+5 {
			lines[i] = breakLine(line, breaks[indent])
		}
	}
	return strings.Join(lines, "\n")
}

// breaks find the next space after 15 to 80 characters, less the indentation.
var breaks = map[int]*regexp.Regexp{
	0: regexp.MustCompile(`(?: |^).{15,80}(?: |$)`),
	2: regexp.MustCompile(`(?: |^).{15,78}(?: |$)`),
	4: regexp.MustCompile(`(?: |^).{15,76}(?: |$)`),
}

func breakLine(line string, at *regexp.Regexp) string {
	var out []string
	for {
		m := at.FindStringIndex(line)
		if m == nil || m[1] == len(line) {
			return strings.Join(append(out, line), "\n")
		}
		out, line = append(out, line[:m[1]-1]), line[m[1]:]
	}
}
