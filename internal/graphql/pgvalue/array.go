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
	if dimensions > 1 {
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
