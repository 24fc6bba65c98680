package document

import (
	"fmt"

	"github.com/vektah/gqlparser/v2/ast"
)

// Limits bound what one document may ask. Zero values mean the defaults.
type Limits struct {
	Bytes     int // longest text; default 1 MiB
	Tokens    int // with fragments expanded at every spread; default 10,000
	Depth     int // of fields, fragments included, introspection apart; default 16
	Aliases   int // fields with an alias, counted after fragments; default 200
	RootField int // fields of the root, counted after fragments; default 50
	Cost      int // rows that the lists may multiply to, by their first and last; default 100,000
	Page      int // largest first or last; default 1,000
	ListGuess int // rows that a list without first and last counts as; default 10

	// NoIntrospection turns __schema and __type off, and with them the suggestions in error texts.
	NoIntrospection bool
}

// WithDefaults is l with a default for each limit that is zero.
func (l Limits) WithDefaults() Limits {
	for _, d := range []struct {
		limit    *int
		standard int
	}{
		{&l.Bytes, 1 << 20}, {&l.Tokens, 10_000}, {&l.Depth, 16}, {&l.Aliases, 200}, {&l.RootField, 50},
		{&l.Cost, 100_000}, {&l.Page, 1_000}, {&l.ListGuess, 10},
	} {
		if *d.limit == 0 {
			*d.limit = d.standard
		}
	}
	return l
}

// Introspection has limits of its own, which no setting changes: its answers grow with the schema, so what multiplies is
// not the depth but lists of types within lists of types. The query that GraphQL's tools send is 15 deep, with two lists
// inside one another.
const (
	introspectionDepth = 20
	introspectionLists = 2
)

// Fragments are also expanded each on its own by the validator, so a document pays for them once per fragment that reaches
// them. Honest documents stay far below this many times the limit on tokens.
const fragmentAllowance = 4

// tally is what a selection set amounts to with all fragments expanded.
type tally struct {
	tokens  int // of the text
	aliases int
	depth   int // of fields
	top     int // fields on the first level
	inside  int // depth if this is introspection
	lists   int // lists of types inside one another if this is introspection
}

// plenty is where counting stops: above every limit, and small enough that sums of it do not overflow.
const plenty = 1 << 40

// and adds what stands beside.
func (t tally) and(u tally) tally {
	return tally{
		tokens:  min(t.tokens+u.tokens, plenty),
		aliases: min(t.aliases+u.aliases, plenty),
		top:     min(t.top+u.top, plenty),
		depth:   max(t.depth, u.depth),
		inside:  max(t.inside, u.inside),
		lists:   max(t.lists, u.lists),
	}
}

// counter counts every fragment once, however often it is spread, so that a document whose expansion is exponential is
// refused in linear time.
type counter struct {
	limits    Limits
	fragments map[string]*ast.FragmentDefinition
	counted   map[string]tally
	open      map[string]bool // being counted: a spread of one is a cycle
	err       *Error
}

// count checks the limits that need no schema.
func count(doc *ast.QueryDocument, l Limits) *Error {
	c := counter{
		limits: l, fragments: make(map[string]*ast.FragmentDefinition, len(doc.Fragments)),
		counted: make(map[string]tally, len(doc.Fragments)), open: map[string]bool{},
	}
	for _, f := range doc.Fragments {
		if c.fragments[f.Name] != nil {
			c.fail(f.Position, "There can be only one fragment named %q.", cut(f.Name))
		}
		c.fragments[f.Name] = f
	}
	total := 0
	for _, op := range doc.Operations {
		t := c.selections(op.SelectionSet)
		total += t.tokens
		c.check(op.Position, total, l.Tokens, "tokens, fragments expanded", "graphql.max_tokens")
		c.check(op.Position, t.depth, l.Depth, "fields within one another", "graphql.max_depth")
		c.check(op.Position, t.aliases, l.Aliases, "aliases", "graphql.max_aliases")
		c.check(op.Position, t.top, l.RootField, "fields at its root", "graphql.max_root_fields")
	}
	total = 0
	for _, f := range doc.Fragments {
		total += c.fragment(f).tokens
		c.check(f.Position, total, fragmentAllowance*l.Tokens, "tokens in fragments that are expanded", "four times graphql.max_tokens")
	}
	return c.err
}

func (c *counter) check(at *ast.Position, n, limit int, what, setting string) {
	if n > limit && c.err == nil {
		c.fail(at, "The document has more than %d %s (%s). Ask for less in one request.", limit, what, setting)
	}
}

func (c *counter) fail(at *ast.Position, format string, args ...any) {
	e := errorAt(at, fmt.Sprintf(format, args...))
	c.err = &e
}

func (c *counter) selections(set ast.SelectionSet) (t tally) {
	t.tokens = 2
	for _, s := range set {
		if c.err != nil {
			return t
		}
		switch s := s.(type) {
		case *ast.Field:
			t = t.and(c.field(s))
		case *ast.InlineFragment:
			t = t.and(c.selections(s.SelectionSet)).and(tally{tokens: 3 + directiveTokens(s.Directives)})
		case *ast.FragmentSpread:
			t = t.and(c.spread(s)).and(tally{tokens: 2 + directiveTokens(s.Directives)})
		}
	}
	return t
}

func (c *counter) field(f *ast.Field) tally {
	t := tally{tokens: 1, depth: 1, inside: 1, top: 1}
	if f.Alias != f.Name {
		t.tokens, t.aliases = 3, 1
	}
	t.tokens += argumentTokens(f.Arguments) + directiveTokens(f.Directives)
	if len(f.SelectionSet) == 0 {
		return t
	}
	sub := c.selections(f.SelectionSet)
	if f.Name == "__schema" || f.Name == "__type" {
		c.introspection(f, sub)
		sub.depth = 0
	}
	t.tokens += sub.tokens
	t.aliases += sub.aliases
	t.depth += sub.depth
	t.inside += sub.inside
	t.lists = sub.lists
	switch f.Name {
	case "types", "fields", "inputFields", "interfaces", "possibleTypes":
		t.lists++
	}
	return t
}

func (c *counter) introspection(f *ast.Field, sub tally) {
	switch {
	case c.err != nil:
	case sub.lists > introspectionLists:
		c.fail(f.Position, "Introspection may ask for types, fields, inputFields, interfaces and possibleTypes %d within one another, not more. Ask for the inner ones by __type.", introspectionLists)
	case sub.inside > introspectionDepth:
		c.fail(f.Position, "Introspection may be %d fields deep, not more.", introspectionDepth)
	}
}

func (c *counter) spread(s *ast.FragmentSpread) tally {
	f := c.fragments[s.Name]
	if f == nil {
		return tally{} // the validator says so
	}
	if c.open[s.Name] {
		if c.err == nil {
			c.fail(s.Position, "Cannot spread fragment %q within itself.", cut(s.Name))
		}
		return tally{}
	}
	return c.fragment(f)
}

func (c *counter) fragment(f *ast.FragmentDefinition) tally {
	t, ok := c.counted[f.Name]
	if ok {
		return t
	}
	c.open[f.Name] = true
	t = c.selections(f.SelectionSet)
	delete(c.open, f.Name)
	c.counted[f.Name] = t
	return t
}

func argumentTokens(args ast.ArgumentList) (n int) {
	for _, a := range args {
		n += 2 + valueTokens(a.Value)
	}
	return n
}

func directiveTokens(ds ast.DirectiveList) (n int) {
	for _, d := range ds {
		n += 2 + argumentTokens(d.Arguments)
	}
	return n
}

func valueTokens(v *ast.Value) int {
	n := 1
	switch v.Kind {
	case ast.Variable, ast.ListValue, ast.ObjectValue:
		n = 2
	}
	for _, c := range v.Children {
		if c.Name != "" {
			n += 2
		}
		n += valueTokens(c.Value)
	}
	return n
}
