package config

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
)

// Problem is one thing wrong with the configuration.
type Problem struct {
	At      string // levee.hcl:3,5 (line, column), $LEVEE_STORE_PATH, --store-path; "" if it is in no one place
	Text    string // what is wrong and what to do
	Snippet string // the line of the file with the place marked, or ""

	offset int // into the file, for the order
}

func (p Problem) String() string {
	text := p.Text
	if p.At != "" {
		text = p.At + ": " + text
	}
	if p.Snippet != "" {
		text += "\n" + p.Snippet
	}
	return text
}

// Problems is everything wrong with a configuration, as an error.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// err is nil when there are none, else all of them in the order of the file.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Compare(a.offset, b.offset) })
	return ps
}

// snippet shows the first line of r and marks the columns that r covers.
func snippet(src []byte, r hcl.Range) string {
	lines := bytes.Split(src, []byte("\n"))
	if r.Start.Line < 1 || r.Start.Line > len(lines) {
		return ""
	}
	line := strings.TrimRight(strings.ToValidUTF8(string(lines[r.Start.Line-1]), "\uFFFD"), "\r")
	runes := []rune(withoutPasswords(line))
	const most = 160 // a minified file must not fill the screen
	if len(runes) > most {
		runes = append(runes[:most:most], '…')
	}
	from := min(max(r.Start.Column-1, 0), len(runes))
	to := len(runes)
	if r.End.Line == r.Start.Line {
		to = min(max(r.End.Column-1, from+1), max(len(runes), from+1))
	}
	pad := strings.Map(func(c rune) rune { // tabs stay tabs, so that the mark stands under its place
		if c == '\t' {
			return c
		}
		return ' '
	}, string(runes[:from]))
	number := fmt.Sprint(r.Start.Line)
	return fmt.Sprintf("  %s | %s\n  %s | %s%s", number, string(runes),
		strings.Repeat(" ", len(number)), pad, strings.Repeat("^", max(to-from, 1)))
}

var password = regexp.MustCompile(`(://[^\s:/@"]*:)([^\s@"]+)(@)`)

// withoutPasswords hides those in URLs, and leaves every column where it is.
func withoutPasswords(line string) string {
	return password.ReplaceAllStringFunc(line, func(found string) string {
		part := password.FindStringSubmatch(found)
		return part[1] + strings.Repeat("•", len([]rune(part[2]))) + part[3]
	})
}

// didYouMean completes a message about an unknown word.
func didYouMean(word string, known []string) string {
	best, distance := "", 4
	for _, k := range known {
		if n := levenshtein.Distance(word, k, nil); n < distance && n < max(len(k), 2) {
			best, distance = k, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

func blockNames() []string {
	var names []string
	for name := range blocks() {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
