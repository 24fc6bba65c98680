package schema

import (
	"slices"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// place orders the entries of one kind.
func (s *Schema) place(e entry) int {
	if e.kind == procQuery || e.kind == procMutation {
		return int(e.id)
	}
	return int(s.classes[e.id].place)
}

// nameRoots gives the names of the roots' fields.
func (b *builder) nameRoots() error {
	b.taken = map[uint64]string{}
	for _, f := range queryFields {
		b.taken[hashOf(f.Name)] = "a field that is always there"
	}
	query := func(name string, kind what, id uint32, sub int, who string) bool {
		return b.give(&b.queryNames, name, entry{kind: kind, id: id, sub: uint8(sub)}, "query", who)
	}
	for _, id := range b.order {
		b.nameQueriesOf(catalog.ClassID(id), query)
	}
	for i, p := range b.procs {
		if p.query {
			query(camel(b.procName(p.id)), procQuery, uint32(i), 0, b.describeProc(p.id))
		}
	}
	b.taken = map[uint64]string{}
	change := func(name string, kind what, id uint32, sub int, who string) bool {
		return b.give(&b.changeNames, name, entry{kind: kind, id: id, sub: uint8(sub)}, "mutation", who)
	}
	for i, p := range b.procs {
		if p.mutation {
			change(camel(b.procName(p.id)), procMutation, uint32(i), 0, b.describeProc(p.id))
		}
	}
	for _, id := range b.order {
		b.nameMutationsOf(catalog.ClassID(id), change)
	}
	b.taken = nil
	return nil
}

func (b *builder) nameQueriesOf(c catalog.ClassID, give giver) {
	who, name, tags := "table "+b.describe(c), b.tableName(c), b.classTags(c)
	readable := b.classes[c].readable
	for i, k := range b.Keys(c) {
		if matches("query:resource:single", readable, tags, b.keyTags(c, i)) {
			give(camel(b.keyName(k)), byKey, uint32(c), i, who)
		}
	}
	if b.isNode(c) {
		give(camel(name), byNodeID, uint32(c), 0, who)
	}
	if matches("query:resource:connection", readable, tags) {
		give(camel("all-"+plural(name)), all, uint32(c), 0, who)
	}
}

// isNode tells whether rows have ids and can be found by them.
func (s *Schema) isNode(c catalog.ClassID) bool {
	tags := s.classTags(c)
	return s.classes[c].shown && s.hasPrimary(c) && matches("type:node", true, tags) && matches("resource:select", s.classes[c].readable, tags)
}

// change says by what rows of a class can be updated or deleted.
type change struct {
	verb string
	node bool  // by id
	keys []int // of Keys
}

func (s *Schema) creatable(c catalog.ClassID) bool {
	k := &s.catalog.Classes[c]
	return matches("resource:insert", k.Updatable&s.mayOf(c)&catalog.Insert != 0, s.classTags(c))
}

// changesOf says which mutations of rows a class has: what it allows, somebody may do, no comment forbids, and a key can find.
func (s *Schema) changesOf(c catalog.ClassID) (out []change) {
	k := &s.catalog.Classes[c]
	may, tags := k.Updatable&s.mayOf(c), s.classTags(c)
	n := int(k.Keys.N) + len(s.classes[c].keys)
	for _, x := range []struct {
		of   catalog.Privileges
		verb string
	}{{catalog.Update, "update"}, {catalog.Delete, "delete"}} {
		allowed := may&x.of != 0
		if n == 0 || !matches("resource:"+x.verb, allowed, tags) {
			continue
		}
		m := change{verb: x.verb, node: s.isNode(c) && matches("nodeId:resource:"+x.verb, true, tags)}
		for i := range n {
			if matches("constraint:resource:"+x.verb, allowed, tags, s.keyTags(c, i)) {
				m.keys = append(m.keys, i)
			}
		}
		m.keys = slices.Clip(m.keys)
		out = append(out, m)
	}
	return out
}

func (b *builder) nameMutationsOf(c catalog.ClassID, give giver) {
	who, name := "table "+b.describe(c), b.tableName(c)
	if b.creatable(c) {
		give(camel("create-"+name), create, uint32(c), 0, who)
	}
	for _, m := range b.changesOf(c) {
		one, byKey := update, updateByKey
		if m.verb == "delete" {
			one, byKey = remove, removeByKey
		}
		if m.node {
			give(camel(m.verb+"-"+name), one, uint32(c), 0, who)
		}
		for _, i := range m.keys {
			give(camel(m.verb+"-"+b.keyName(b.Keys(c)[i])), byKey, uint32(c), i, who)
		}
	}
}
