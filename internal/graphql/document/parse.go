package document

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator/core"
)

// Parse checks a document and picks the operation of that name ("": the only one). The errors are for the client, with
// status 400, and say which limit was passed; counting stops there.
func Parse(s Schema, text, operationName string, l Limits) (*Operation, []Error) {
	l = l.WithDefaults()
	if len(text) > l.Bytes {
		return nil, []Error{{Message: fmt.Sprintf("The document is longer than %d bytes (graphql.max_query_bytes). Pass values as variables.", l.Bytes)}}
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: text}, l.Tokens)
	if err != nil {
		return nil, []Error{syntaxError(err, l)}
	}
	if err := unusual(doc); err != nil {
		return nil, []Error{*err}
	}
	if err := count(doc, l); err != nil {
		return nil, []Error{*err}
	}
	r := reach(s, doc, l)
	if errs := r.validate(doc); len(errs) > 0 {
		return nil, errs
	}
	def, picked := pick(doc, operationName)
	if picked != nil {
		return nil, []Error{*picked}
	}
	return r.operation(doc, def), nil
}

func syntaxError(err error, l Limits) Error {
	var g *gqlerror.Error
	if !errors.As(err, &g) {
		return Error{Message: "Syntax Error: " + shorten(err.Error())}
	}
	if strings.HasPrefix(g.Message, "exceeded token limit") {
		return Error{Message: fmt.Sprintf("The document has more than %d tokens (graphql.max_tokens). Ask for less in one request.", l.Tokens)}
	}
	e := fromParser(g)
	e.Message = "Syntax Error: " + e.Message
	return e
}

// unusual refuses what the parser takes beyond the language, and documents without operation.
func unusual(doc *ast.QueryDocument) *Error {
	if len(doc.Operations) == 0 {
		return &Error{Message: "Must provide an operation."}
	}
	for _, f := range doc.Fragments {
		if len(f.VariableDefinition) > 0 {
			e := errorAt(f.Position, "Syntax Error: a fragment cannot define variables.")
			return &e
		}
	}
	return nil
}

func pick(doc *ast.QueryDocument, name string) (*ast.OperationDefinition, *Error) {
	if name == "" {
		if len(doc.Operations) > 1 {
			return nil, &Error{Message: "Must provide operation name if query contains multiple operations."}
		}
		return doc.Operations[0], nil
	}
	for _, op := range doc.Operations {
		if op.Name == name {
			return op, nil
		}
	}
	return nil, &Error{Message: fmt.Sprintf("Unknown operation named %q.", cut(name))}
}

// operation drops the other operations of the document. Variables in fragments have been resolved for whichever operation
// came last, so they are resolved again.
func (r *reached) operation(doc *ast.QueryDocument, def *ast.OperationDefinition) *Operation {
	if len(doc.Operations) > 1 {
		doc.Operations = ast.OperationList{def}
		core.Walk(r.schema, doc, &core.Events{})
	}
	return &Operation{Definition: def, Document: doc, Variables: newVariables(r, def), limits: r.limits, source: r.source, types: r.types}
}

func errorAt(at *ast.Position, message string) Error {
	e := Error{Message: message}
	if at != nil {
		e.Locations = []Location{{at.Line, at.Column}}
	}
	return e
}

func fromParser(g *gqlerror.Error) Error {
	e := Error{Message: shorten(g.Message)}
	for _, l := range g.Locations {
		e.Locations = append(e.Locations, Location{l.Line, l.Column})
	}
	return e
}
