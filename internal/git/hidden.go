package git

import "strings"

// hidden says which refs clients are not shown. The rules are those of git's transfer.hideRefs: a rule names a ref and all
// below it, "!" in front shows them again, and the last rule that matches decides.
type hidden []rule

type rule struct {
	name string
	show bool
}

// newHidden always hides refs/levee/, where mirrors keep what was asked for by its object id.
func newHidden(rules []string) hidden {
	h := make(hidden, 0, len(rules)+1)
	for _, text := range rules {
		name, show := strings.CutPrefix(text, "!")
		h = append(h, rule{strings.TrimSuffix(name, "/"), show})
	}
	return append(h, rule{name: "refs/levee"})
}

func (h hidden) hides(ref string) bool {
	for i := len(h) - 1; i >= 0; i-- {
		if rest, ok := strings.CutPrefix(ref, h[i].name); ok && (rest == "" || rest[0] == '/') {
			return !h[i].show
		}
	}
	return false
}
