package sqlgen

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/leveehq/levee/internal/graphql/pgvalue"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// errors of arguments: they are the field's, and other fields go on.
var (
	errNegativeLimit  = errors.New("LIMIT must not be negative")
	errNegativeOffset = errors.New("OFFSET must not be negative")
	errOffsetLast     = errors.New("Cannot use 'offset' with 'last'")
	errCursor         = errors.New("Invalid cursor, please enter a cursor from a previous request, or null.")
)

// binding is one root field with the values of one request.
type binding struct {
	conns []bound
	nodes [][]any
}

// bind works out a root's connections and node ids.
func (r *root) bind(vars map[string]any) (b binding, err error) {
	b.conns = make([]bound, len(r.conns))
	for i := range r.conns {
		if b.conns[i], err = r.conns[i].bind(vars); err != nil {
			return b, err
		}
	}
	for i, s := range r.nodes {
		v, _ := s.get(vars)
		text, _ := v.(string)
		typeName, parts, ok := decodeID(text)
		if !ok || typeName != r.nodeType[i] {
			parts = nil
		}
		b.nodes = append(b.nodes, parts)
	}
	return b, nil
}

// encode is a parameter's text.
func (b *binding) encode(s *schema.Schema, p param, vars map[string]any) ([]byte, error) {
	index, _ := p.of.value.(int)
	var value any
	switch p.role {
	case limitOf:
		return strconv.AppendInt(nil, b.conns[p.conn].limit, 10), nil
	case offsetOf:
		return strconv.AppendInt(nil, b.conns[p.conn].offset, 10), nil
	case afterOf:
		value = b.conns[p.conn].after[index]
	case beforeOf:
		value = b.conns[p.conn].before[index]
	case nodePart:
		if parts := b.nodes[p.conn]; index < len(parts) {
			value = parts[index]
		}
	default:
		value, _ = p.of.get(vars)
	}
	return pgvalue.Encode(s, p.pg, p.ref, value)
}

// bind works out what a connection reads and shows. The rules are PostGraphile's; they are listed with the package's tests.
func (a *connArgs) bind(vars map[string]any) (b bound, err error) {
	first, hasFirst, err := count(a.first, vars, errNegativeLimit)
	if err != nil {
		return b, err
	}
	last, hasLast, err := count(a.last, vars, errNegativeLimit)
	if err != nil {
		return b, err
	}
	offset, hasOffset, err := count(a.offset, vars, errNegativeOffset)
	if err != nil {
		return b, err
	}
	if hasOffset && hasLast {
		return b, errOffsetLast
	}
	b.offset, b.keep = offset, -1
	after, err := a.cursor(a.after, vars)
	if err != nil {
		return b, err
	}
	before, err := a.cursor(a.before, vars)
	if err != nil {
		return b, err
	}
	b.after, b.before = after, before
	b.hasPre = offset > 0
	switch {
	case hasFirst:
		b.limit, b.keep = first, int(first)
		if !hasLast && first > 0 {
			b.nextByRow = a.wantNext
		}
		if hasLast {
			b.keep, b.fromEnd = int(last), true
			b.hasPre = false
		}
		if first == 0 {
			b.hasPre = false
		}
	case hasLast:
		b.limit, b.keep, b.reversed = last, int(last), !a.natural
		b.fromEnd = a.natural
		b.preByRow = a.wantPrevious && last > 0
		if a.natural {
			b.limit, b.most = int64(a.page)+1, a.page
		}
	default:
		b.limit, b.most = int64(a.page)+1, a.page
	}
	if b.nextByRow || b.preByRow && !a.natural {
		b.limit++
	}
	if a.natural {
		a.naturalCursors(&b, after, before)
	}
	return b, nil
}

// fixedLimit is the limit of all requests of a plan, if the document says what it is. It is then a part of the statement: of a limit
// that it is not told, PostgreSQL takes a tenth of the table, and so plans the statement anew for each request, with the value in
// hand, which takes longer than to run it. Of limits that come in variables, see sizes.
func (a *connArgs) fixedLimit(vars map[string]any) (limit int64, ok bool) {
	if !a.first.settled(vars) || !a.last.settled(vars) || a.natural && (a.after.has(vars) || a.before.has(vars)) {
		return 0, false
	}
	whole := *a
	whole.offset, whole.before, whole.after = source{kind: absent}, source{kind: absent}, source{kind: absent}
	b, err := whole.bind(vars)
	return b.limit, err == nil // one that is wrong fails when it is bound
}

// fixedOffset is the same of an offset.
func (a *connArgs) fixedOffset(vars map[string]any) (offset int64, ok bool) {
	if !a.offset.settled(vars) || a.natural && a.after.has(vars) {
		return 0, false
	}
	offset, _, err := count(a.offset, vars, errNegativeOffset)
	return offset, err == nil
}

// naturalCursors turns positions into offset and limit.
func (a *connArgs) naturalCursors(b *bound, after, before []any) {
	if n := position(after); n > 0 {
		b.offset += n
	}
	if before != nil {
		room := max(position(before)-1-b.offset, 0)
		if room <= b.limit {
			b.limit, b.nextByRow = room, false
		}
	}
	b.base = b.offset
}

func position(cursor []any) int64 {
	if len(cursor) == 0 {
		return 0
	}
	n, _ := cursor[0].(json.Number)
	i, _ := n.Int64()
	return min(max(i, 0), math.MaxInt32) // further than any list, and its sums fit
}

func count(s source, vars map[string]any, negative error) (n int64, given bool, err error) {
	v, ok := s.get(vars)
	if !ok || v == nil {
		return 0, false, nil
	}
	switch v := v.(type) {
	case json.Number:
		n, err = v.Int64()
	case int64:
		n = v
	case int:
		n = int64(v)
	}
	if err != nil || n > math.MaxInt32 {
		return 0, false, fmt.Errorf("%v is more rows than there can be", v)
	}
	if n < 0 {
		return 0, false, negative
	}
	return n, true, nil
}

// cursor decodes a cursor of this ordering into its values; nil is none.
func (a *connArgs) cursor(s source, vars map[string]any) ([]any, error) {
	v, ok := s.get(vars)
	if !ok || v == nil {
		return nil, nil
	}
	text, _ := v.(string)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errCursor
	}
	var parts []any
	if decodeNumbers(raw, &parts) != nil || len(parts) == 0 {
		return nil, errCursor
	}
	kind, _ := parts[0].(string)
	parts = parts[1:]
	if a.natural {
		if kind != "natural" || len(parts) != 1 {
			return nil, errCursor
		}
		if _, ok := parts[0].(json.Number); !ok {
			return nil, errCursor
		}
		return parts, nil
	}
	named := 0
	for _, k := range a.keys {
		if !k.tie {
			named++
		}
	}
	if kind != a.digest || len(parts) != named && len(parts) != len(a.keys) {
		return nil, errCursor
	}
	for len(parts) < len(a.keys) {
		parts = append(parts, nil)
	}
	for _, p := range parts {
		switch p.(type) {
		case nil, string, json.Number, bool:
		default:
			return nil, errCursor
		}
	}
	return parts, nil
}

func decodeNumbers(raw []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(to)
}
