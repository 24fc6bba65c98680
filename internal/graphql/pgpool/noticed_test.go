package pgpool_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

type logged struct {
	sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

func (l *logged) String() string {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.String()
}

func TestAPoolerThatNobodyMentionedIsNoticedAndFailsNoRequest(t *testing.T) {
	for title, more := range map[string]string{"refusing": "", "ignoring": "ignore_startup_parameters = IntervalStyle, bytea_output"} {
		name := pgtest.Database(t)
		pgtest.Exec(t, name, q3Schema)
		for kind, url := range poolers(t, name, 3, more) {
			t.Run(kind+", "+title, func(t *testing.T) { unmentioned(t, url) })
		}
	}
}

func unmentioned(t *testing.T, url string) {
	var log logged
	b := rig(t, pgpool.Options{Budget: 4, Wait: 20 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	d := open(t, b, url)
	if ask(t, d, "select 1"); !strings.Contains(log.String(), "graphql.pooler") {
		t.Errorf("it is not noticed with the first request: %s", log.String())
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 30 {
				got, err := try(d, fmt.Sprintf("select id from note, pg_sleep(0.001) where id <> %d order by 1", 10+i%5), visitor("u1")...)
				if err != nil || !slices.Equal(got, []string{"1", "2"}) {
					t.Errorf("request %d: %v, %v", i, got, err)
				}
			}
		})
	}
	all.Wait()
	ask(t, d, "select taint()", visitor("u1")...)
	for range 4 { // sessions
		if got := ask(t, d, "select current_user, coalesce(current_setting('jwt.claims.sub', true), ''), '90 min'::interval::text"); !slices.Equal(got, []string{"postgres", "", "01:30:00"}) {
			t.Errorf("a request without a role finds %v", got)
		}
	}
	if n := strings.Count(log.String(), "graphql.pooler"); n != 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
}

func TestStatementsThatAFunctionDeallocatesAreNoPooler(t *testing.T) {
	var log logged
	_, d, _ := database(t, pgpool.Options{Budget: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		ask(t, d, "select 1")
		ask(t, d, "deallocate all")
	}
	ask(t, d, "select 2")
	if n := number(t, ask(t, d, "select count(*) from pg_prepared_statements")[0]); n == 0 || log.String() != "" {
		t.Fatalf("%d statements are prepared: %s", n, log.String())
	}
}
