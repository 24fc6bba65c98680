package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// readKeys reads the keys that tags make.
func (b *builder) readKeys() error {
	for _, id := range b.order {
		c := catalog.ClassID(id)
		for _, t := range b.classTags(c) {
			if t.name != "primaryKey" && t.name != "unique" {
				continue
			}
			k, err := parseKey(t.value)
			if err != nil {
				return fmt.Errorf("tag @%s of %s: %w", t.name, b.describe(c), err)
			}
			columns, err := b.columnsNamed(c, k.columns)
			if err != nil {
				return fmt.Errorf("tag @%s of %s: %w", t.name, b.describe(c), err)
			}
			b.classes[id].keys = append(b.classes[id].keys, virtualUnique{Key{Class: c, Columns: columns, Primary: t.name == "primaryKey"}, k.tags})
		}
	}
	return nil
}

// readRelations lists foreign keys from both of their ends. Those of partitions and to what is not shown are none.
func (b *builder) readRelations() error {
	for id := range b.catalog.ForeignKeys {
		b.addRelation(uint32(id), b.catalog.ForeignKeys[id].Class, b.catalog.ForeignKeys[id].Foreign)
	}
	for _, id := range b.order {
		for _, t := range b.classTags(catalog.ClassID(id)) {
			if t.name != "foreignKey" {
				continue
			}
			if err := b.addVirtual(catalog.ClassID(id), t.value); err != nil {
				return fmt.Errorf("tag @foreignKey of %s: %w", b.describe(catalog.ClassID(id)), err)
			}
		}
	}
	slices.SortStableFunc(b.forward, func(x, y relation) int {
		return cmp.Or(cmp.Compare(x.of, y.of), cmp.Compare(b.relationName(x.id), b.relationName(y.id)))
	})
	slices.SortStableFunc(b.backward, func(x, y relation) int {
		return cmp.Or(cmp.Compare(x.of, y.of), cmp.Compare(boolInt(b.isVirtual(x.id)), boolInt(b.isVirtual(y.id))),
			cmp.Compare(b.referrer(x.id), b.referrer(y.id)), cmp.Compare(b.relationName(x.id), b.relationName(y.id)))
	})
	return nil
}

// referrer orders relations by the table that has them: those of the first schemas first, and old ones before new ones.
func (b *builder) referrer(id uint32) uint64 {
	c := b.foreignKey(id).Class
	return uint64(b.catalog.Classes[c].Schema)<<32 | uint64(c)
}

func (b *builder) addRelation(id uint32, class, foreign catalog.ClassID) {
	if b.classes[class].shown && b.classes[foreign].shown {
		b.forward = append(b.forward, relation{class, id})
		b.backward = append(b.backward, relation{foreign, id})
	}
}

func (s *Schema) isVirtual(id uint32) bool { return int(id) >= len(s.catalog.ForeignKeys) }

func (s *Schema) relationName(id uint32) string {
	if s.isVirtual(id) {
		return "\uffff" // behind the real ones, in their own order
	}
	return s.catalog.ForeignKeys[id].Name
}

// addVirtual adds what a tag @foreignKey says.
func (b *builder) addVirtual(id catalog.ClassID, value string) error {
	v, err := parseForeignKey(value)
	if err != nil {
		return err
	}
	if b.useEnum(id, v) {
		return nil
	}
	foreign := b.classNamed(v.schema, v.table, id)
	if foreign == 0 {
		b.warn("tag @foreignKey of %s is without effect: %s is not exposed", b.describe(id), strings.TrimPrefix(v.schema+"."+v.table, "."))
		return nil
	}
	key := ForeignKey{Class: id, Foreign: foreign}
	if key.Columns, err = b.columnsNamed(id, v.columns); err != nil {
		return err
	}
	if v.foreignColumns == nil {
		primary, ok := b.NodeKey(foreign)
		if !ok || len(primary.Columns) != len(key.Columns) {
			return fmt.Errorf("%s has no primary key of as many columns: name the columns it references", b.describe(foreign))
		}
		key.ForeignColumns = primary.Columns
	} else if key.ForeignColumns, err = b.columnsNamed(foreign, v.foreignColumns); err != nil {
		return err
	}
	if !b.isUnique(foreign, key.ForeignColumns, true) {
		return fmt.Errorf("the columns that it references in %s are no unique key: make them one, or say so there with @unique", b.describe(foreign))
	}
	key.Unique = b.isUnique(id, key.Columns, false)
	b.virtual = append(b.virtual, virtualRelation{key, v.tags})
	b.addRelation(uint32(len(b.catalog.ForeignKeys)+len(b.virtual)-1), key.Class, key.Foreign)
	return nil
}

func (b *builder) classNamed(schema, name string, near catalog.ClassID) catalog.ClassID {
	if schema == "" {
		schema = b.catalog.Schemas[b.catalog.Classes[near].Schema]
	}
	for _, id := range b.order {
		if k := b.catalog.Classes[id]; k.Name == name && b.catalog.Schemas[k.Schema] == schema {
			return catalog.ClassID(id)
		}
	}
	return 0
}

// isUnique tells whether columns hold a whole key of the class, so that no two rows agree in them; with just, and nothing else.
func (s *Schema) isUnique(id catalog.ClassID, columns []catalog.ColumnID, just bool) bool {
	for _, k := range s.Keys(id) {
		if just && len(k.Columns) != len(columns) {
			continue
		}
		if !slices.ContainsFunc(k.Columns, func(c catalog.ColumnID) bool { return !slices.Contains(columns, c) }) {
			return true
		}
	}
	return false
}

// foreignKey derives the relation of that id.
func (s *Schema) foreignKey(id uint32) ForeignKey {
	if s.isVirtual(id) {
		return s.virtual[int(id)-len(s.catalog.ForeignKeys)].ForeignKey
	}
	k := s.catalog.ForeignKeys[id]
	out := ForeignKey{Class: k.Class, Foreign: k.Foreign, Columns: s.columnsAt(k.Class, k.Numbers), ForeignColumns: s.columnsAt(k.Foreign, k.ForeignNumbers)}
	out.Unique = s.isUnique(k.Class, out.Columns, false)
	return out
}

func (s *Schema) relationTags(id uint32) (t tags, text string) {
	if s.isVirtual(id) {
		return s.virtual[int(id)-len(s.catalog.ForeignKeys)].tags, ""
	}
	return parseComment(s.catalog.ForeignKeys[id].Comment)
}

// isIndexed tells whether finding the rows that refer to one takes no reading of the whole table. What has no indexes of its
// own gets the benefit of the doubt, and so do relations that somebody took the trouble of writing in a tag.
func (s *Schema) isIndexed(id uint32, t tags) bool {
	if s.isVirtual(id) || t.has("isIndexed") {
		return true
	}
	k := &s.catalog.ForeignKeys[id]
	return k.Indexed || !s.hasIndexes(k.Class)
}

func (s *Schema) hasIndexes(c catalog.ClassID) bool {
	kind := s.catalog.Classes[c].Kind
	return kind == 'r' || kind == 'm' || kind == 'f'
}

// behaviorOf adds to the tags of a relation what they say about one direction of it.
func behaviorOf(t tags, direction string) tags {
	for _, tag := range t {
		if tag.name == direction {
			tag.name = "behavior"
			t = append(t[:len(t):len(t)], tag)
		}
	}
	return t
}

func (s *Schema) forwardFields(c catalog.ClassID) (fields []Field) {
	for _, r := range relationsOf(s.forward, c) {
		k := s.foreignKey(r.id)
		own, text := s.relationTags(r.id)
		remote := s.classTags(k.Foreign)
		if !matches("singularRelation:resource:single", s.classes[k.Foreign].readable, remote, behaviorOf(own, "forwardBehavior")) {
			continue
		}
		foreign := s.typeName(k.Foreign)
		if described := own.get("forwardDescription"); described != "" {
			text = described
		}
		if text == "" {
			text = say(2, "Reads a single `%s` that is related to this `%s`.", foreign, s.typeName(c))
		}
		fields = append(fields, Field{Name: s.forwardName(own, k), Description: text, Deprecated: deprecationOf(own, remote), Type: Ref{Name: foreign},
			Bind: Bind{Op: OpForward, Class: c, ForeignKey: k}})
	}
	return fields
}

func (s *Schema) backwardFields(c catalog.ClassID) (fields []Field) {
	for _, r := range relationsOf(s.backward, c) {
		k := s.foreignKey(r.id)
		own, _ := s.relationTags(r.id)
		remote := s.classTags(k.Class)
		what := "manyRelation:resource:connection"
		if k.Unique {
			what = "singularRelation:resource:single"
		}
		if !matches(what, s.classes[k.Class].readable && s.isIndexed(r.id, own), remote, behaviorOf(own, "backwardBehavior")) {
			continue
		}
		f := Field{Name: s.backwardName(own, k), Deprecated: deprecationOf(own, remote), Bind: Bind{Op: OpBackward, Class: c, ForeignKey: k}}
		other := s.typeName(k.Class)
		if k.Unique {
			f.Bind.Op, f.Type = OpBackwardOne, Ref{Name: other}
			f.Description = say(2, "Reads a single `%s` that is related to this `%s`.", other, s.typeName(c))
		} else {
			f.Type, f.Args = Ref{Name: other + "Connection", NonNull: true}, s.connectionArgs(k.Class, "manyRelation")
			f.Description = say(2, "Reads and enables pagination through a set of `%s`.", other)
		}
		if described := own.get("backwardDescription"); described != "" {
			f.Description = described
		}
		fields = append(fields, f)
	}
	return fields
}

// deprecationOf is the first reason that is given.
func deprecationOf(from ...tags) string {
	for _, t := range from {
		if t.has("deprecated") {
			return t.deprecation()
		}
	}
	return ""
}

func (s *Schema) forwardName(t tags, k ForeignKey) string {
	if name := t.get("fieldName"); name != "" {
		return camel(name)
	}
	return camel(s.tableName(k.Foreign) + "-by-" + s.joined(k.Columns))
}

func (s *Schema) backwardName(t tags, k ForeignKey) string {
	if k.Unique {
		if name := t.get("foreignSingleFieldName"); name != "" {
			return camel(name)
		}
	} else if name := t.get("foreignConnectionFieldName"); name != "" {
		return name
	}
	if name := t.get("foreignFieldName"); name != "" {
		return camel(name)
	}
	if k.Unique {
		return camel(s.tableName(k.Class) + "-by-" + s.joined(k.Columns))
	}
	return camel(plural(s.tableName(k.Class)) + "-by-" + s.joined(k.Columns))
}

// relationsOf is the part of list that belongs to class c.
func relationsOf(list []relation, c catalog.ClassID) []relation {
	from, _ := slices.BinarySearchFunc(list, c, func(r relation, c catalog.ClassID) int { return int(r.of) - int(c) })
	to := from
	for to < len(list) && list[to].of == c {
		to++
	}
	return list[from:to]
}
