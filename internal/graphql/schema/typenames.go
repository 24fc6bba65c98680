package schema

import (
	"github.com/leveehq/levee/internal/graphql/catalog"
)

// nameTypes gives the names of all types. Those of classes, enums and domains are settled; whatever else wants one of them is
// left out.
func (b *builder) nameTypes() error {
	b.nameOwnTypes()
	b.taken = map[uint64]string{}
	for _, name := range fixedNames() {
		b.taken[hashOf(name)] = "a type that is always there"
	}
	give := func(name string, kind what, id uint32, sub int, who string) bool {
		return b.give(&b.typeNames, name, entry{kind: kind, id: id, sub: uint8(sub)}, "type", who)
	}
	for id := range b.classes {
		if b.classes[id].typed {
			b.nameRowTypes(catalog.ClassID(id), give)
		}
	}
	b.namePgTypes(give)
	b.nameProcTypes(give)
	for _, id := range b.order {
		b.nameChangeTypes(catalog.ClassID(id), give)
	}
	b.taken = nil
	return nil
}

// give enters a name. Two entries that mean the same PostgreSQL type under one GraphQL type (tsrange and tstzrange) are no
// clash.
func (b *builder) give(to *[]entry, name string, e entry, kind, who string) bool {
	if !validName(name) {
		b.warn("%s has no name that GraphQL can express (%q): left out; give it another with a comment such as @name", who, name)
		return false
	}
	e.hash = hashOf(name)
	if first, ok := b.taken[e.hash]; ok {
		if first != who && e.kind != rangeType && e.kind != boundType && e.kind != rangeInput && e.kind != boundInput {
			b.warn("%s %s of %s is left out, because %s has that name: give one of them another with a comment such as @name", kind, name, who, first)
		}
		return first == who
	}
	b.taken[e.hash] = who
	*to = append(*to, e)
	return true
}

type giver func(name string, kind what, id uint32, sub int, who string) bool

func (b *builder) nameRowTypes(c catalog.ClassID, give giver) {
	id, name, who := uint32(c), b.typeName(c), "table "+b.describe(c)
	give(name, rowType, id, 0, who)
	give(name+"Connection", connectionType, id, 0, who)
	give(name+"Edge", edgeType, id, 0, who)
	give(name+"Input", inputType, id, 0, who)
	if b.classes[c].shown {
		give(name+"Condition", conditionType, id, 0, who)
		give(name+"OrderBy", orderByType, id, 0, who)
		give(name+"Patch", patchType, id, 0, who)
	}
}

func (b *builder) nameChangeTypes(c catalog.ClassID, give giver) {
	id, name, who := uint32(c), b.tableName(c), "table "+b.describe(c)
	if b.creatable(c) {
		give(upperCamel("create-"+name+"-payload"), createPayload, id, 0, who)
		give(upperCamel("create-"+name+"-input"), createInput, id, 0, who)
	}
	for _, m := range b.changesOf(c) {
		payload, node, byKey := updatePayload, updateInput, updateKeyInput
		if m.verb == "delete" {
			payload, node, byKey = deletePayload, deleteInput, deleteKeyInput
		}
		if !m.node && len(m.keys) == 0 {
			continue
		}
		give(upperCamel(m.verb+"-"+name+"-payload"), payload, id, 0, who)
		if m.node {
			give(upperCamel(m.verb+"-"+name+"-input"), node, id, 0, who)
		}
		for _, i := range m.keys {
			give(upperCamel(m.verb+"-"+b.keyName(b.Keys(c)[i])+"-input"), byKey, id, i, who)
		}
	}
}

func (b *builder) namePgTypes(give giver) {
	for i := 1; i < len(b.catalog.Types); i++ {
		id := catalog.TypeID(i)
		t := &b.catalog.Types[id]
		who := b.describeType(id)
		if t.Kind == 'e' {
			b.warnOfLabels(t, who)
		}
		if b.hasOwnType(id) {
			name := b.typeOwnName(id)
			give(name, ownType, uint32(id), 0, who)
			if t := &b.catalog.Types[b.baseOf(id)]; t.Kind == 'c' || t.OID == oidInterval {
				give(name+"Input", ownInput, uint32(id), 0, who)
			}
		}
		if name, ok := b.leafName(t.Element, false); ok && t.Kind == 'r' {
			give(name+"Range", rangeType, uint32(id), 0, who)
			give(name+"RangeBound", boundType, uint32(id), 0, who)
			give(name+"RangeInput", rangeInput, uint32(id), 0, who)
			give(name+"RangeBoundInput", boundInput, uint32(id), 0, who)
		}
	}
}

// warnOfLabels names the labels that became something that no rule spells: the shape's inventor would have left out the
// enum, and everything that uses it.
func (b *builder) warnOfLabels(t *catalog.Type, who string) {
	for _, v := range b.enumValues(t) {
		if name, renamed := labelName(v.Label); renamed || v.Name != name {
			b.warn("label %q of %s has no GraphQL name, and is %s", v.Label, who, v.Name)
		}
	}
}
