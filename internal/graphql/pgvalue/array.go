package pgvalue

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ItemErrors are the errors of single items of a list.
type ItemErrors []ItemError

// ItemError is the error of the item at Index, from 0.
type ItemError struct {
	Index int
	Err   error
}

func (e ItemErrors) Error() string {
	return fmt.Sprintf("item %d: %v (%d errors)", e[0].Index, e[0].Err, len(e))
}

// errNested is said of each item of an array with several dimensions: the type in the schema has one.
var errNested = errors.New("a list within a list cannot be represented: the type has one dimension")

// appendArray reads PostgreSQL's binary array: int32 dimensions, int32 flags, uint32 element type, then for each dimension
// int32 length and int32 lower bound, then each item as int32 length (-1: null) and bytes. (src/backend/utils/adt/arrayfuncs.c)
func (o Out) appendArray(dst, v []byte) ([]byte, error) {
	if len(v) < 12 {
		return dst, errMalformed
	}
	dimensions := int32(binary.BigEndian.Uint32(v))
	if dimensions == 0 {
		return append(dst, '[', ']'), nil
	}
	if dimensions < 0 || len(v) < 12+8*int(dimensions) {
		return dst, errMalformed
	}
	n, items := int(int32(binary.BigEndian.Uint32(v[12:]))), v[12+8*int(dimensions):]
	switch {
	case dimensions > 1 && (o.kind == asJSON || o.kind == asJSONB): // a list of JSON is JSON
		all, err := o.appendJSONLists(dst, v[12:12+8*dimensions], &items)
		if err != nil {
			return dst, err
		}
		return all, nil
	case dimensions > 1:
		return appendNested(dst, n, len(items))
	}
	return o.appendItems(dst, n, items)
}

func (o Out) appendItems(dst []byte, n int, items []byte) ([]byte, error) {
	start := len(dst)
	var failed ItemErrors
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		item, rest, ok := cutItem(items)
		if !ok {
			return dst[:start], errMalformed
		}
		items = rest
		if item == nil {
			dst = append(dst, "null"...)
			continue
		}
		var err error
		if dst, err = o.appendLeaf(dst, item); err != nil {
			failed = append(failed, ItemError{i, err})
			dst = append(dst, "null"...)
		}
	}
	dst = append(dst, ']')
	if failed != nil {
		return dst, failed
	}
	return dst, nil
}

// cutItem splits the first item off. A nil item is NULL.
func cutItem(v []byte) (item, rest []byte, ok bool) {
	if len(v) < 4 {
		return nil, nil, false
	}
	n := int32(binary.BigEndian.Uint32(v))
	v = v[4:]
	if n == -1 {
		return nil, v, true
	}
	if n < 0 || int(n) > len(v) {
		return nil, nil, false
	}
	return v[:n:n], v[n:], true
}

func appendNested(dst []byte, n, bytes int) ([]byte, error) {
	if n < 0 || n > bytes { // each item takes four bytes at least
		return dst, errMalformed
	}
	failed := make(ItemErrors, n)
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, "null"...)
		failed[i] = ItemError{i, errNested}
	}
	return append(dst, ']'), failed
}

// appendJSONLists appends what the rest of items begins with: a list whose dimensions are the first ones.
func (o Out) appendJSONLists(dst, dimensions []byte, items *[]byte) (_ []byte, err error) {
	if len(dimensions) == 0 {
		item, rest, ok := cutItem(*items)
		if !ok {
			return dst, errMalformed
		}
		if *items = rest; item == nil {
			return append(dst, "null"...), nil
		}
		return o.appendLeaf(dst, item)
	}
	dst = append(dst, '[')
	for i := range int(int32(binary.BigEndian.Uint32(dimensions))) {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = o.appendJSONLists(dst, dimensions[8:], items); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}
