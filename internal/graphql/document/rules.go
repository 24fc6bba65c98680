package document

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/validator/core"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// libraryRules are the rules that work as well on a schema of what the document reaches. The others are ours: those that
// name alternatives, because the reached schema has none; values, because the library lets every literal of a scalar of
// ours pass; merging of fields, because the library's time is quadratic; cycles and introspection, which are limits.
var libraryRules = []core.Rule{
	rules.FragmentsOnCompositeTypesRule, rules.KnownDirectivesRule, rules.KnownFragmentNamesRule, rules.KnownRootTypeRule,
	rules.KnownTypeNamesRuleWithoutSuggestions, rules.LoneAnonymousOperationRule, rules.NoUndefinedVariablesRule,
	rules.NoUnusedFragmentsRule, rules.NoUnusedVariablesRule, rules.PossibleFragmentSpreadsRule,
	rules.ProvidedRequiredArgumentsRule, rules.UniqueArgumentNamesRule, rules.UniqueDirectivesPerLocationRule,
	rules.UniqueInputFieldNamesRule, rules.UniqueOperationNamesRule, rules.UniqueVariableNamesRule,
	rules.VariablesAreInputTypesRule, rules.VariablesInAllowedPositionRule,
}

// maxErrors is how many errors one answer has. Suggestions cost time in proportion to the type, so fewer have one.
const (
	maxErrors      = 50
	maxSuggestions = 10
)

// validate returns what is wrong with the document, in the order of its text.
func (r *reached) validate(doc *ast.QueryDocument) []Error {
	if len(r.errs) > 0 {
		return r.errs[:min(len(r.errs), maxErrors)]
	}
	v := &validation{reached: r, seen: map[string]bool{}}
	var events core.Events
	for _, rule := range libraryRules {
		rule.RuleFunc(&events, v.add)
	}
	leaves := rules.ScalarLeafsRule
	if r.limits.NoIntrospection {
		leaves = rules.ScalarLeafsRuleWithoutSuggestions
	}
	leaves.RuleFunc(&events, v.add)
	events.OnField(v.field)
	events.OnDirective(v.directive)
	events.OnValue(v.value)
	core.Walk(r.schema, doc, &events)
	if len(v.errs) == 0 {
		v.merging(doc)
	}
	slices.SortStableFunc(v.errs, func(a, b Error) int {
		return slices.CompareFunc(a.Locations, b.Locations, func(a, b Location) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
	})
	return v.errs
}

// validation collects errors. Fragments are walked once for each operation that spreads them and once alone, so what is
// wrong in them is found several times.
type validation struct {
	*reached
	errs      []Error
	seen      map[string]bool
	suggested int
}

func (v *validation) add(options ...core.ErrorOption) {
	if len(v.errs) == maxErrors {
		return
	}
	var g gqlerror.Error
	for _, o := range options {
		o(&g)
	}
	e := fromParser(&g)
	key := fmt.Sprint(e.Message, e.Locations)
	if v.seen[key] {
		return
	}
	v.seen[key] = true
	v.errs = append(v.errs, e)
}

func (v *validation) fail(at *ast.Position, format string, args ...any) {
	v.add(core.Message(format, args...), core.At(at))
}

// suggest completes an error with names that the client may have meant.
func (v *validation) suggest(typed string, names func(yield func(string) bool)) core.ErrorOption {
	if v.limits.NoIntrospection || v.suggested == maxSuggestions || len(typed) > quoteBytes || len(v.errs) == maxErrors {
		return func(*gqlerror.Error) {}
	}
	v.suggested++
	return core.SuggestListQuoted("Did you mean", typed, slices.Collect(names))
}

func (v *validation) field(_ *core.Walker, f *ast.Field) {
	switch {
	case f.ObjectDefinition == nil || !f.ObjectDefinition.IsCompositeType(): // something else is wrong above
	case f.Definition == nil:
		t := v.types[f.ObjectDefinition.Name] // of a root the fields reached: some that exist
		v.add(core.Message("Cannot query field %q on type %q.", f.Name, f.ObjectDefinition.Name), v.suggest(f.Name, fieldNames(t)), core.At(f.Position))
	default:
		where := fmt.Sprintf("field %q", f.ObjectDefinition.Name+"."+f.Name)
		v.arguments(where, f.Definition.Arguments, f.Arguments)
	}
}

func (v *validation) directive(_ *core.Walker, d *ast.Directive) {
	if d.Definition != nil {
		v.arguments(fmt.Sprintf("directive %q", "@"+d.Name), d.Definition.Arguments, d.Arguments)
	}
}

func (v *validation) arguments(where string, defs ast.ArgumentDefinitionList, args ast.ArgumentList) {
	for _, a := range args {
		if defs.ForName(a.Name) != nil {
			continue
		}
		names := func(yield func(string) bool) {
			for _, d := range defs {
				if !yield(d.Name) {
					return
				}
			}
		}
		v.add(core.Message("Unknown argument %q on %s.", a.Name, where), v.suggest(a.Name, names), core.At(a.Position))
	}
}

func fieldNames(t *schema.Type) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; t != nil && i < len(t.Fields) && yield(t.Fields[i].Name); i++ {
		}
	}
}

func inputNames(t *schema.Type) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; i < len(t.Inputs) && yield(t.Inputs[i].Name); i++ {
		}
	}
}

func valueNames(t *schema.Type) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; i < len(t.Values) && yield(t.Values[i].Name); i++ {
		}
	}
}
