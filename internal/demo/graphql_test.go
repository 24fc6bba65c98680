package demo

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestTheBlogBelongsToNobodyWhoLogsInAndIsRemoved(t *testing.T) {
	g, err := StartGraphQL(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c, err := pgconn.Connect(t.Context(), g.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, test := range []struct{ setting, posts string }{
		{"set role demo_visitor", "3"},
		{"set role demo_author", "3"},
		{"set role demo_author; set jwt.claims.person_id to 1", "4"},
	} {
		results, err := c.Exec(t.Context(), "begin;"+test.setting+";select count(*) from blog.posts; rollback; reset all; reset role").ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if len(r.Rows) == 1 && string(r.Rows[0][0]) != test.posts {
				t.Errorf("%s: %s posts are seen, %s are to be", test.setting, r.Rows[0][0], test.posts)
			}
		}
	}
	if _, err := c.Exec(t.Context(), "select from blog.posts").ReadAll(); err == nil {
		t.Error("the login itself may read")
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(g.Dir()); !os.IsNotExist(err) {
		t.Errorf("the directory: %v", err)
	}
}

func TestAMachineWithoutPostgreSQLIsToldHowToGetIt(t *testing.T) {
	t.Setenv("LEVEE_PG_BIN", t.TempDir())
	if _, err := StartGraphQL(t.Context(), ""); err == nil {
		t.Error("it was started")
	}
}
