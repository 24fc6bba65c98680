package schema

import "strings"

// tags are what a comment says in lines that begin with @, before its text.
type tags []tag

// tag is one such line. A tag without a value is bare.
type tag struct {
	name, value string
	bare        bool
}

// parseComment splits a comment into its tags and its text. The first line that is no tag begins the text, and the text keeps
// its line breaks and spaces: it may be Markdown.
func parseComment(comment string) (out tags, text string) {
	if comment == "" {
		return nil, ""
	}
	rest := strings.ReplaceAll(comment, "\r\n", "\n")
	before := ""
	if after, ok := strings.CutPrefix(rest, "\n"); ok {
		before, rest = "\n", after
	}
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\n")
		t, ok := parseTag(line)
		if !ok {
			break
		}
		out, before, rest = append(out, t), "", after
	}
	if strings.TrimSpace(rest) == "" {
		return out, ""
	}
	return out, before + rest
}

// parseTag reads a line such as "@name other". Its name is of letters, digits and underscores and begins with a letter.
func parseTag(line string) (tag, bool) {
	line, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), "@")
	if !ok || line == "" || !isLetter(line[0]) {
		return tag{}, false
	}
	n := 0
	for n < len(line) && (isLetter(line[n]) || line[n] >= '0' && line[n] <= '9' || line[n] == '_') {
		n++
	}
	if n == len(line) {
		return tag{name: line, bare: true}, true
	}
	if line[n] != ' ' && line[n] != '\t' {
		return tag{}, false
	}
	return tag{name: spelled(line[:n]), value: line[n+1:]}, true
}

// spelled reads what PostGraphile reads too.
func spelled(name string) string {
	switch name {
	case "behaviors", "behaviour", "behaviours":
		return "behavior"
	}
	return name
}

// size leaves out the texts: they are parts of the catalog's.
func (t tags) size() int64 { return sizeOf(t) }

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// get returns the value of the tag of that name, "" if there is none, it is bare or it is given twice: a name given twice is
// none.
func (t tags) get(name string) string {
	value, n := "", 0
	for _, tag := range t {
		if tag.name == name {
			value, n = tag.value, n+1
		}
	}
	if n != 1 {
		return ""
	}
	return value
}

func (t tags) has(name string) bool {
	for _, tag := range t {
		if tag.name == name {
			return true
		}
	}
	return false
}

// all joins the values of repeated tags by lines.
func (t tags) all(name string) string {
	var values []string
	for _, tag := range t {
		if tag.name == name {
			values = append(values, tag.value)
		}
	}
	return strings.Join(values, "\n")
}

// deprecation is the reason that @deprecated gives, or what GraphQL says without one.
func (t tags) deprecation() string {
	for _, tag := range t {
		if tag.name == "deprecated" && tag.bare {
			return "No longer supported"
		}
	}
	return t.all("deprecated")
}

// matches tells whether @behavior allows what: a name with scopes such as "query:resource:connection". Each of from is what
// one object says, the one that decides last. A word such as "-connection" or "-resource:connection" is meant for all
// whose last parts are these, "*" stands for any part; the last word that is meant decides. Without any, byDefault does.
func matches(what string, byDefault bool, from ...tags) bool {
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(from[i]) - 1; j >= 0; j-- {
			if from[i][j].name != "behavior" {
				continue
			}
			words := strings.Fields(from[i][j].value)
			for k := len(words) - 1; k >= 0; k-- {
				word := strings.TrimLeft(words[k], "+-")
				if isMeant(word, what) {
					return words[k][0] != '-'
				}
			}
		}
	}
	return byDefault
}

func isMeant(word, what string) bool {
	for {
		w, x := strings.LastIndexByte(word, ':'), strings.LastIndexByte(what, ':')
		if last := word[w+1:]; last != "*" && last != what[x+1:] {
			return false
		}
		if w < 0 {
			return true
		}
		if x < 0 {
			return false
		}
		word, what = word[:w], what[:x]
	}
}
