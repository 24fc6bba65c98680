package sqlgen

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// ordering is one column that rows are ordered by.
type ordering struct {
	column catalog.ColumnID
	desc   bool
	tie    bool // it orders only rows whose unique key is null, and is in the cursors of those only
}

// orderBy resolves an ordering. One that leaves rows in ties is made total by the primary key, in the direction of the first.
func (c *compiler) orderBy(class catalog.ClassID, v *ast.Value, def *schema.Field) []ordering {
	var names []string
	var t *schema.Type
	// A table whose behaviour is -order has no such argument.
	if i := slices.IndexFunc(def.Args, func(a schema.InputValue) bool { return a.Bind.Op == schema.InOrderBy }); i >= 0 {
		names, t = c.orderNames(def.Args[i], v), c.types(def.Args[i].Type.Name)
	}
	key, keyed := c.schema.NodeKey(class)
	var out []ordering
	desc := false
	for _, name := range names {
		o := valueNamed(t, name)
		if len(out) == 0 {
			desc = o.Desc
		}
		switch o.Kind {
		case schema.OrderByColumn:
			out = append(out, ordering{column: o.Column, desc: o.Desc})
		case schema.OrderPrimaryKey:
			for _, id := range key.Columns {
				out = append(out, ordering{column: id, desc: o.Desc})
			}
		}
	}
	unique, nullable := c.unique(class, out)
	if keyed && (!unique || nullable) {
		for _, id := range key.Columns {
			out = append(out, ordering{column: id, desc: desc, tie: unique})
		}
	}
	return out
}

func (c *compiler) orderNames(in schema.InputValue, v *ast.Value) []string {
	if v == nil {
		return defaultOrder(in)
	}
	value, given := c.op.Value(in.Type, v, c.vars)
	if !given || value == nil {
		return defaultOrder(in)
	}
	items, ok := value.([]any)
	if !ok {
		items = []any{value}
	}
	var names []string
	for _, item := range items {
		if name, ok := item.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func defaultOrder(in schema.InputValue) []string {
	return []string{in.Default[1 : len(in.Default)-1]}
}

func valueNamed(t *schema.Type, name string) schema.Order {
	for _, v := range t.Values {
		if v.Name == name {
			return v.Order
		}
	}
	return schema.Order{}
}

// unique tells whether the columns hold a key, and whether only one that can be null: rows in which it is are alike.
func (c *compiler) unique(class catalog.ClassID, order []ordering) (unique, nullable bool) {
	for _, k := range c.schema.Keys(class) {
		all, null := true, false
		for _, id := range k.Columns {
			all = all && slices.ContainsFunc(order, func(o ordering) bool { return o.column == id })
			null = null || !k.Primary && !c.notNull(id)
		}
		if all && !null {
			return true, false
		}
		unique, nullable = unique || all, nullable || all
	}
	return unique, nullable
}

func (c *compiler) notNull(id catalog.ColumnID) bool {
	return c.cat.Columns[id].Flags&catalog.NotNull != 0
}

// digest tells cursors of one ordering from those of others. Directions are not in it: a cursor is a place, whichever way one
// goes from there.
func (c *compiler) digest(class catalog.ClassID, order []ordering) string {
	var exprs []string
	for _, o := range order {
		if o.tie {
			continue
		}
		exprs = append(exprs, "__"+c.cat.Classes[class].Name+"__."+quote(c.cat.Columns[o.column].Name))
	}
	b, _ := json.Marshal(exprs) // strings always have JSON
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:10]
}

// cursorColumns puts what cursors are made of behind the columns of a row's record.
func (c *compiler) cursorColumns(x *connOut, cols *columns, order []ordering, row rowRef) {
	x.cursors = len(cols.list)
	for _, o := range order {
		leaf := c.keyLeaf(o.column)
		x.leaves = append(x.leaves, leaf)
		if !o.tie {
			x.named++
		}
		cols.leaf(leaf, c.column(row, o.column))
	}
}
