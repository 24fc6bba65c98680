package catalog

import "unsafe"

// Comment returns the text that Column.Comment stands for.
func (c *Catalog) Comment(id uint32) string { return c.comments[id] }

// Size is the memory that the catalog keeps reachable, in bytes, by walking its structures.
func (c *Catalog) Size() int64 {
	n := int64(unsafe.Sizeof(*c)) + c.textBytes
	for i := range c.Enums {
		n += c.Enums[i].size()
	}
	n += sizeOf(c.Enums) + sizeOf(c.Schemas) + sizeOf(c.Classes) + sizeOf(c.Columns) + sizeOf(c.Keys) + sizeOf(c.ForeignKeys)
	return n + sizeOf(c.Types) + sizeOf(c.Procs) + sizeOf(c.Args) + sizeOf(c.Numbers) + sizeOf(c.Labels) + sizeOf(c.comments)
}

func sizeOf[T any](s []T) int64 { return int64(cap(s)) * int64(unsafe.Sizeof(*new(T))) }
