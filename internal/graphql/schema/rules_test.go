package schema

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// justified is what ours has otherwise than PostGraphile, and why. Each pattern matches a member as "Type.member".
var justified = []struct{ pattern, why string }{
	{`Heir|heir`, "a table does not inherit its parent's keys: PostgreSQL lets two rows of it have one value of them"},
	{`anAggregate|aProcedure|AProcedure`, "aggregates and procedures cannot be called as functions"},
	{`^Query\.fCursor$|^AllType(Input|Patch)?\.(b7|e3|e4|e5)$`, "a type that nobody has thought of is a String instead of nothing"},
	{`^Email\.$`, "the comment on a domain is shown"},
	{`^RenamedThing\.firstLetter$`, "@deprecated without a reason has GraphQL's own reason, not the word true"},
	{`^Person(Condition\.sortable|OrderBy\.SORTABLE_(ASC|DESC))$`, "there is no ordering by computed columns and no condition on them; a warning says so"},
}

func TestEveryRuleIsThatOfPostGraphileOrHasAReason(t *testing.T) {
	want, err := os.ReadFile("testdata/rules.graphql")
	if err != nil {
		t.Fatal(err)
	}
	s := schemaOf(t, "rules_owner", pgtest.Load(t, "testdata/rules.sql"), "first", "second")
	wanted, got := members(string(want)), members(sdlOf(t, s))
	used := map[string]bool{}
	for _, name := range namesOf(wanted, got) {
		if wanted[name] == got[name] {
			continue
		}
		i := slices.IndexFunc(justified, func(j struct{ pattern, why string }) bool { return regexp.MustCompile(j.pattern).MatchString(name) })
		if i < 0 {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got[name], wanted[name])
			continue
		}
		used[justified[i].pattern] = true
	}
	for _, j := range justified {
		if !used[j.pattern] {
			t.Errorf("nothing differs any more because %s", j.why)
		}
	}
}

func namesOf(texts ...map[string]string) (names []string) {
	for _, text := range texts {
		for name := range text {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var (
	definition = regexp.MustCompile(`^(?:type|input|enum|scalar|interface) (\w+)`)
	memberName = regexp.MustCompile(`^  (\w+)`)
)

// members cuts an SDL into its definitions' headers, as "Type.", and their members, as "Type.member", each with its description.
func members(sdl string) map[string]string {
	out := map[string]string{}
	var pending []string
	owner, name := "", ""
	inText, depth := false, 0
	for _, line := range strings.Split(sdl, "\n") {
		if line == "" && !inText || line == "}" {
			continue
		}
		pending = append(pending, line)
		if quotes := strings.Count(line, `"""`); inText || quotes > 0 {
			inText = inText != (quotes == 1)
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(line), `"`) { // a description in one line
			continue
		}
		if m := definition.FindStringSubmatch(line); m != nil {
			owner, name = m[1], ""
		} else if m := memberName.FindStringSubmatch(line); m != nil && depth == 0 {
			name = m[1]
		}
		switch {
		case strings.HasSuffix(line, "("):
			depth++
		case strings.HasPrefix(line, "  )"):
			depth--
		}
		if depth == 0 {
			out[owner+"."+name] = strings.Join(pending, "\n")
			pending = nil
		}
	}
	return out
}

func TestGrantsShapeTheSchemaAsTheyDoPostGraphiles(t *testing.T) {
	want, err := os.ReadFile("testdata/grants.graphql")
	if err != nil {
		t.Fatal(err)
	}
	wanted, got := members(string(want)), members(sdlOf(t, schemaOf(t, "rules_reader", pgtest.Load(t, "testdata/grants.sql"), "first")))
	for _, name := range namesOf(wanted, got) {
		if wanted[name] != got[name] {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got[name], wanted[name])
		}
	}
}
