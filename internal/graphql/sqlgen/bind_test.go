package sqlgen

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
)

func given(n int) source { return source{value: json.Number(fmt.Sprint(n))} }

func cursorOf(parts ...any) source {
	text, _ := json.Marshal(parts)
	return source{value: base64.StdEncoding.EncodeToString(text)}
}

var none = source{kind: absent}

// pageOf is a connection's arguments; what is not said is absent.
func pageOf(change func(a *connArgs)) connArgs {
	a := connArgs{first: none, last: none, offset: none, before: none, after: none, page: 100, wantNext: true, wantPrevious: true,
		keys: []keyPart{{}}, digest: "6776d37f70"}
	change(&a)
	return a
}

// shown is what a connection makes of rows that came.
type shown struct {
	limit, offset  int64
	reversed       bool
	next, previous bool // with more rows than asked for
}

func TestAPageReadsWhatItsArgumentsSay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(a *connArgs)
		want   shown
	}{
		"nothing: all, and one more than may be":   {func(*connArgs) {}, shown{limit: 101}},
		"first":                                    {func(a *connArgs) { a.first = given(3) }, shown{limit: 4, next: true}},
		"first, hasNextPage not asked for":         {func(a *connArgs) { a.first, a.wantNext = given(3), false }, shown{limit: 3}},
		"first 0 has no next page":                 {func(a *connArgs) { a.first = given(0) }, shown{limit: 0}},
		"first with offset":                        {func(a *connArgs) { a.first, a.offset = given(3), given(2) }, shown{limit: 4, offset: 2, next: true, previous: true}},
		"offset 0 is none":                         {func(a *connArgs) { a.first, a.offset = given(3), given(0) }, shown{limit: 4, next: true}},
		"first 0 with offset has no previous page": {func(a *connArgs) { a.first, a.offset = given(0), given(2) }, shown{limit: 0, offset: 2}},
		"last is read from the end":                {func(a *connArgs) { a.last = given(3) }, shown{limit: 4, reversed: true, previous: true}},
		"last, hasPreviousPage not asked for":      {func(a *connArgs) { a.last, a.wantPrevious = given(3), false }, shown{limit: 3, reversed: true}},
		"last 0":                                   {func(a *connArgs) { a.last = given(0) }, shown{limit: 0, reversed: true}},
		"last of the first":                        {func(a *connArgs) { a.first, a.last = given(5), given(2) }, shown{limit: 5}},
		"after alone has no previous page":         {func(a *connArgs) { a.first, a.after = given(3), cursorOf("6776d37f70", 7) }, shown{limit: 4, next: true}},
		"positions: after is an offset":            {func(a *connArgs) { a.first, a.natural, a.after = given(3), true, cursorOf("natural", 4) }, shown{limit: 4, offset: 4, next: true}},
		"positions: after and offset add up": {func(a *connArgs) {
			a.first, a.natural, a.after, a.offset = given(3), true, cursorOf("natural", 4), given(2)
		}, shown{limit: 4, offset: 6, next: true, previous: true}},
		"positions: last must be read from the start": {func(a *connArgs) { a.last, a.natural = given(3), true }, shown{limit: 101, previous: true}},
		"positions: before is a limit":                {func(a *connArgs) { a.natural, a.before = true, cursorOf("natural", 4) }, shown{limit: 3}},
		"positions: before what has been skipped":     {func(a *connArgs) { a.natural, a.before, a.offset = true, cursorOf("natural", 4), given(9) }, shown{limit: 0, offset: 9, previous: true}},
	} {
		a := pageOf(c.change)
		b, err := a.bind(nil)
		got := shown{b.limit, b.offset, b.reversed, b.hasNext || b.nextByRow, b.hasPre || b.preByRow}
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func TestArgumentsThatMakeNoPageAreErrorsOfTheField(t *testing.T) {
	for name, change := range map[string]func(a *connArgs){
		"first below 0":                   func(a *connArgs) { a.first = given(-1) },
		"last below 0":                    func(a *connArgs) { a.last = given(-1) },
		"offset below 0":                  func(a *connArgs) { a.first, a.offset = given(1), given(-1) },
		"offset with last":                func(a *connArgs) { a.last, a.offset = given(1), given(1) },
		"a cursor of another ordering":    func(a *connArgs) { a.after = cursorOf("0fa5e0eeec", 1) },
		"a cursor with too few values":    func(a *connArgs) { a.after = cursorOf("6776d37f70") },
		"a cursor with too many values":   func(a *connArgs) { a.before = cursorOf("6776d37f70", 1, 2) },
		"a cursor that holds an object":   func(a *connArgs) { a.before = cursorOf("6776d37f70", map[string]any{}) },
		"a position where there is order": func(a *connArgs) { a.after = cursorOf("natural", 1) },
		"order where there is position":   func(a *connArgs) { a.natural, a.after = true, cursorOf("6776d37f70", 1) },
		"a position that is no number":    func(a *connArgs) { a.natural, a.after = true, cursorOf("natural", "x") },
		"text that is not base64":         func(a *connArgs) { a.after = source{value: "garbage!"} },
		"base64 of no JSON":               func(a *connArgs) { a.after = source{value: "e3s="} },
		"base64 of an object":             func(a *connArgs) { a.after = source{value: "e30="} },
		"no text":                         func(a *connArgs) { a.after = source{value: ""} },
	} {
		a := pageOf(change)
		if b, err := a.bind(nil); err == nil {
			t.Errorf("%s was taken: %+v", name, b)
		}
	}
}

func TestANullArgumentIsAnAbsentOne(t *testing.T) {
	null := source{}
	a := pageOf(func(a *connArgs) {
		a.first, a.last, a.offset, a.before, a.after = null, source{kind: variable, name: "omitted"}, null, null, null
	})
	b, err := a.bind(map[string]any{})
	if err != nil || b.limit != 101 || b.after != nil || b.before != nil {
		t.Errorf("got %+v, %v", b, err)
	}
}

func TestACursorOfATieHasAllOfTheOrderingsValues(t *testing.T) {
	a := pageOf(func(a *connArgs) { a.keys = []keyPart{{}, {tie: true}} })
	for _, parts := range [][]any{{"6776d37f70", "a@b"}, {"6776d37f70", nil, 3}} {
		a.after = cursorOf(parts...)
		b, err := a.bind(nil)
		if err != nil || len(b.after) != 2 {
			t.Errorf("%v: %v, %v", parts, b.after, err)
		}
	}
}
