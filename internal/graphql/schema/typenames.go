package schema

import (
	"strings"

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

// companions are the types that go with a row type and are named after it. The index has only the row type: it would be three
// times as large with all.
var companions = []struct {
	before, after string
	kind          what
}{
	{"", "Connection", connectionType}, {"", "Edge", edgeType}, {"", "Condition", conditionType}, {"", "OrderBy", orderByType}, {"", "Patch", patchType},
	{"Create", "Payload", createPayload}, {"Create", "Input", createInput}, {"Update", "Payload", updatePayload}, {"Update", "Input", updateInput},
	{"Delete", "Payload", deletePayload}, {"Delete", "Input", deleteInput}, {"", "Input", inputType},
}

// companion finds the type that goes with a row type.
func (s *Schema) companion(name string) (entry, bool) {
	for _, c := range companions {
		if len(name) <= len(c.before)+len(c.after) || !strings.HasPrefix(name, c.before) || !strings.HasSuffix(name, c.after) {
			continue
		}
		e, ok := s.types.find(name[len(c.before) : len(name)-len(c.after)])
		if !ok || e.kind != rowType || !s.hasCompanion(catalog.ClassID(e.id), c.kind) {
			continue
		}
		if c.before == "" || upperCamel(c.before+"-"+s.tableName(catalog.ClassID(e.id))+"-"+c.after) == name {
			e.kind = c.kind
			return e, true
		}
	}
	return entry{}, false
}

func (s *Schema) hasCompanion(c catalog.ClassID, kind what) bool {
	verb := ""
	switch kind {
	case connectionType, edgeType:
		return s.classes[c].shown || s.classes[c].listed
	case inputType:
		return s.classes[c].given || s.classes[c].shown && s.creatable(c)
	case patchType:
		if s.classes[c].given && s.classes[c].shown {
			return true // a function's argument may be one
		}
		verb = "update"
	case conditionType, orderByType:
		return s.classes[c].shown
	case createPayload, createInput:
		return s.classes[c].shown && s.creatable(c)
	case updatePayload, updateInput:
		verb = "update"
	default:
		verb = "delete"
	}
	if !s.classes[c].shown {
		return false
	}
	for _, m := range s.changesOf(c) {
		if m.verb == verb {
			return m.node || kind != updateInput && kind != deleteInput && len(m.keys) > 0
		}
	}
	return false
}

func (b *builder) nameRowTypes(c catalog.ClassID, give giver) {
	name, who := b.typeName(c), "table "+b.describe(c)
	give(name, rowType, uint32(c), 0, who)
	for _, x := range companions {
		if x.before == "" && b.hasCompanion(c, x.kind) {
			b.claim(name+x.after, who)
		}
	}
}

// nameChangeTypes enters only what companion would not find: the types of keys, and of tables with an underscore in front.
func (b *builder) nameChangeTypes(c catalog.ClassID, give giver) {
	id, name, who := uint32(c), b.typeName(c), "table "+b.describe(c)
	for _, x := range companions {
		if x.before == "" || !b.hasCompanion(c, x.kind) {
			continue
		}
		if full := upperCamel(x.before + "-" + b.tableName(c) + "-" + x.after); full != x.before+name+x.after {
			give(full, x.kind, id, 0, who)
		} else {
			b.claim(full, who)
		}
	}
	for _, m := range b.changesOf(c) {
		byKey := updateKeyInput
		if m.verb == "delete" {
			byKey = deleteKeyInput
		}
		for _, i := range m.keys {
			give(upperCamel(m.verb+"-"+b.keyName(b.Keys(c)[i])+"-input"), byKey, id, i, who)
		}
	}
}

// claim keeps a name that companion finds from others.
func (b *builder) claim(name, who string) {
	hash := hashOf(name)
	if first, ok := b.taken[hash]; ok && first != who {
		b.warn("type %s of %s is left out, because %s has that name: give one of them another with a comment such as @name", name, who, first)
		return
	}
	b.taken[hash] = who
}

func (b *builder) namePgTypes(give giver) {
	for i, name := range b.enums.names {
		if name == "" {
			continue
		}
		e := &b.catalog.Enums[i]
		b.warnOfLabels(b.labelled(e.Labels), b.describeEnum(e))
		give(name, rowEnum, uint32(i), 0, b.describeEnum(e))
	}
	for i := 1; i < len(b.catalog.Types); i++ {
		id := catalog.TypeID(i)
		t := &b.catalog.Types[id]
		who := b.describeType(id)
		if t.Kind == 'e' {
			b.warnOfLabels(b.enumValues(t), who)
		}
		if b.hasOwnType(id) && b.used[id] {
			name := b.typeOwnName(id)
			give(name, ownType, uint32(id), 0, who)
			if t := &b.catalog.Types[b.baseOf(id)]; t.Kind == 'c' || t.OID == oidInterval || isShape(t) {
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
func (b *builder) warnOfLabels(values []EnumValue, who string) {
	for _, v := range values {
		if name, renamed := labelName(v.Label); renamed || v.Name != name {
			b.warn("label %q of %s has no GraphQL name, and is %s", v.Label, who, v.Name)
		}
	}
}
