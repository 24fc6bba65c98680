package sqlgen

import (
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestValuesOfEnumsThatAreTablesGoInAndOutAsTheyDoAtPostGraphile(t *testing.T) {
	s := connect(t, "postgres", pgtest.Load(t, "../testdata/enums.sql"))
	answersAsRecorded(t, New(schemaOf(t, s, "app"), Options{}), s, "../testdata/enums.json")
}

func TestARowThatIsNewerThanTheEnumIsAFieldErrorAndNoUnknownValue(t *testing.T) {
	s := connect(t, "postgres", pgtest.Load(t, "../testdata/enums.sql"))
	e := New(schemaOf(t, s, "app"), Options{})
	for _, sql := range []string{"insert into app.status values ('new')", "update app.thing set other_status = 'new' where id = 1"} {
		if err := s.run(t.Context(), sql, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	got := ask(t, e, s, `{ thingByRowId(rowId: 1) { status otherStatus } }`, nil)
	if at(got.Data, "thingByRowId", "status") != "open" || at(got.Data, "thingByRowId", "otherStatus") != nil || len(got.Errors) != 1 || !strings.Contains(got.Errors[0].Message, `"new"`) {
		t.Error(got)
	}
	got = ask(t, New(schemaOf(t, s, "app"), Options{}), s, `{ thingByRowId(rowId: 1) { otherStatus } }`, nil)
	if at(got.Data, "thingByRowId", "otherStatus") != "new" {
		t.Error(got)
	}
}
