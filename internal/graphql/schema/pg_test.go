package schema

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type querier struct{ c *pgconn.PgConn }

func (q querier) Query(ctx context.Context, sql string, params []string, each func([][]byte) error) error {
	values := make([][]byte, len(params))
	for i, p := range params {
		values[i] = []byte(p)
	}
	rows := q.c.ExecParams(ctx, sql, values, nil, nil, nil)
	for rows.NextRow() {
		if err := each(rows.Values()); err != nil {
			_, _ = rows.Close()
			return err
		}
	}
	_, err := rows.Close()
	return err
}

func readCatalog(t testing.TB, user, database string, schemas ...string) *catalog.Catalog {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), pgtest.Server(t).URL(user, database))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	got, err := catalog.Read(t.Context(), querier{c}, catalog.Options{Schemas: schemas, RolesOfLogin: true})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func schemaOf(t testing.TB, user, database string, schemas ...string) *Schema {
	t.Helper()
	s, err := New(readCatalog(t, user, database, schemas...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sdlOf(t testing.TB, s *Schema) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteSDL(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheSDLIsThatOfPostGraphileByteForByte(t *testing.T) {
	database := pgtest.Load(t, "../testdata/forum/schema.sql")
	for user, file := range map[string]string{"forum_owner": "owner", "forum_authenticator": "restricted"} {
		want, err := os.ReadFile("../testdata/forum/" + file + ".graphql")
		if err != nil {
			t.Fatal(err)
		}
		wanted, got := strings.Split(string(want), "\n"), strings.Split(sdlOf(t, schemaOf(t, user, database, "app_public")), "\n")
		for i := range max(len(wanted), len(got)) {
			if i >= len(wanted) || i >= len(got) || wanted[i] != got[i] {
				t.Errorf("%s: line %d of %d is not that of %d", file, i+1, len(got), len(wanted))
				break
			}
		}
	}
}

// The order of what is in a schema of many tables is not compared: there it is that in which PostGraphile happens to hear of them.
func TestTheSDLOfASecondSchemaHasTheMembersOfPostGraphiles(t *testing.T) {
	unknown := regexp.MustCompile(`^Product(Input|Patch)?\.corner$`) // of a type that nobody has thought of: a String instead of nothing
	database := pgtest.Load(t, "../testdata/shop/schema.sql")
	for user, file := range map[string]string{"shop_owner": "owner", "shop_login": "restricted"} {
		want, err := os.ReadFile("../testdata/shop/" + file + ".graphql")
		if err != nil {
			t.Fatal(err)
		}
		wanted, got := members(string(want)), members(sdlOf(t, schemaOf(t, user, database, "shop_public", "shop_stock")))
		for _, name := range namesOf(wanted, got) {
			if wanted[name] != got[name] && !(wanted[name] == "" && unknown.MatchString(name)) {
				t.Errorf("%s: %s:\n%s\nwant:\n%s", file, name, got[name], wanted[name])
			}
		}
		if got["Product.corner"] == "" {
			t.Errorf("%s: a column of an unknown type is left out", file)
		}
	}
}

func TestAnAwkwardLabelIsRenamedAndNothingVanishes(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create type a.size as enum ('N/A', 'very-sad', 'n a', '', '1st', 'true', '*');
		create table a.shirt(id int primary key, size a.size)`)
	s := schemaOf(t, "postgres", database, "a")
	var names, labels []string
	for _, v := range s.Type("Size").Values {
		names, labels = append(names, v.Name), append(labels, v.Label)
	}
	if got := strings.Join(names, " "); got != "N_A very_sad n_a _EMPTY_ _1st _true ASTERISK" {
		t.Error(got)
	}
	if len(labels) != 7 || labels[0] != "N/A" || s.Type("Shirt").Field("size") == nil {
		t.Error(labels)
	}
	if w := strings.Join(s.Warnings(), "\n"); !strings.Contains(w, `"N/A"`) || !strings.Contains(w, "N_A") {
		t.Errorf("no warning names the label: %q", w)
	}
}

func TestSchemasWithEqualTableNamesAreToldApart(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create schema b; create table a.note(id int primary key); create table b.note(id int primary key, a_id int references a.note);
		create index on b.note(a_id)`)
	s := schemaOf(t, "postgres", database, "a", "b")
	if s.Type("Note") == nil || s.Type("BNote") == nil || s.RootField("Query", "allNotes") == nil || s.RootField("Query", "allBNotes") == nil {
		t.Error(sdlOf(t, s))
	}
	if f := s.Type("Note").Field("bNotesByAId"); f == nil || f.Bind.Op != OpBackward {
		t.Errorf("%+v", f)
	}
}

func TestAClashIsSettledForTheFirstAndWarnedOf(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create table a.note(id int primary key); create function a.all_notes() returns int language sql stable as 'select 1';
		create table a.query(id int primary key); create table a.text(id int primary key); create table a.page_info(id int primary key)`)
	s := schemaOf(t, "postgres", database, "a")
	if f := s.RootField("Query", "allNotes"); f == nil || f.Bind.Op != OpAll {
		t.Errorf("%+v", f)
	}
	if len(s.Warnings()) == 0 {
		t.Error("no warning")
	}
	for _, name := range []string{"QueryRecord", "Text", "PageInfoRecord"} {
		if s.Type(name) == nil {
			t.Errorf("no type %s", name)
		}
	}
	if q := s.Type("Query"); q.Field("allNotes") == nil || q.Class != 0 {
		t.Error("the root is not the root")
	}
}

func TestAnImpossibleTagNamesTheTableAndTheTag(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create view a.v as select 1 as one; comment on view a.v is '@primaryKey two'`)
	_, err := New(readCatalog(t, "postgres", database, "a"))
	if err == nil || !strings.Contains(err.Error(), "@primaryKey") || !strings.Contains(err.Error(), "a.v") || !strings.Contains(err.Error(), `"two"`) {
		t.Error(err)
	}
}

func TestEveryNameOfTheSchemaFindsItsType(t *testing.T) {
	s := schemaOf(t, "forum_owner", pgtest.Load(t, "../testdata/forum/schema.sql"), "app_public")
	n := 0
	for typ := range s.Types() {
		n++
		again := s.Type(typ.Name)
		if again == nil || again.Name != typ.Name || again.Kind != typ.Kind {
			t.Errorf("%s is not found by its name", typ.Name)
		}
		if typ.Name != "Query" && typ.Name != "Mutation" {
			continue
		}
		for _, f := range typ.Fields {
			if got := s.RootField(typ.Name, f.Name); got == nil || got.Type != f.Type || got.Bind.Op != f.Bind.Op {
				t.Errorf("%s.%s is not found by its name", typ.Name, f.Name)
			}
		}
	}
	if n < 180 {
		t.Errorf("%d types", n)
	}
}

func TestTheSizeOfAThousandTablesIsThatOfTheHeap(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, "create schema a")
	for from := 1; from <= 1000; from += 250 {
		pgtest.Exec(t, database, fmt.Sprintf(`do $do$ begin for i in %d..%d loop
			execute format('create table a.thing_%%s(id bigserial primary key, parent_id bigint %%s, slug text unique, title text, created_at timestamptz)',
				i, case when i > 1 then format('references a.thing_%%s', i - 1) end); end loop; end $do$`, from, from+249))
	}
	for _, n := range []int{1000} {
		c := readCatalog(t, "postgres", database, "a")
		const copies = 4
		kept := make([]*Schema, copies)
		before := liveHeap()
		for i := range kept {
			s, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			kept[i] = s
		}
		each, size := (liveHeap()-before)/copies, kept[0].Size()
		if size < each*8/10 || size > each*12/10 {
			t.Errorf("Size says %d bytes, the heap grew by %d", size, each)
		}
		t.Logf("%d tables: %d bytes beside %d of the catalog", n, size, c.Size())
		runtime.KeepAlive(kept)
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func FuzzComment(f *testing.F) {
	f.Add("@foreignKey (a, b) references s.t (c, d)|@fieldName x\n@name y\ntext")
	f.Add("@behavior -* +select\n@deprecated one\n@deprecated two")
	f.Fuzz(func(t *testing.T, comment string) {
		tags, _ := parseComment(comment)
		_ = matches("query:resource:connection", true, tags)
		_, _ = parseKey(tags.get("unique"))
		_, _ = parseForeignKey(tags.get("foreignKey"))
	})
}

func FuzzNames(f *testing.F) {
	f.Add("some_table", "N/A")
	f.Add("Übergrößen99", "*x*")
	f.Fuzz(func(t *testing.T, name, label string) {
		if got, _ := labelName(label); !validName(got) {
			t.Errorf("label %q became %q", label, got)
		}
		_ = camel(plain(name))
		_ = constant(name)
	})
}

func BenchmarkRootField(b *testing.B) {
	s := schemaOf(b, "forum_owner", pgtest.Load(b, "../testdata/forum/schema.sql"), "app_public")
	for _, name := range []string{"allPosts", "postByRowId", "searchPosts"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.RootField("Query", name)
			}
		})
	}
}

func BenchmarkType(b *testing.B) {
	s := schemaOf(b, "forum_owner", pgtest.Load(b, "../testdata/forum/schema.sql"), "app_public")
	for _, name := range []string{"Post", "TypeSample", "PostCondition", "PostConnection", "UpdatePostInput"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Type(name)
			}
		})
	}
}
