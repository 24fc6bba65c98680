package pgpool_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leveehq/levee/internal/graphql/pgpool"
)

func TestAnOutageIsOneRecordForAllWhoMeetItWithinTenSeconds(t *testing.T) {
	for _, keep := range []bool{true, false} { // the handle: a tenant that could not be built has none between its requests
		t.Run(fmt.Sprintf("handle kept %v", keep), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { outage(t, keep) })
		})
	}
}

func outage(t *testing.T, keep bool) {
	var log logged
	made := 0
	b := rig(t, pgpool.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), NewID: func() string { made++; return fmt.Sprint("record", made) }})
	const requests, every = 400, 100 * time.Millisecond
	for range requests {
		d := open(t, b, "postgres://postgres@127.0.0.1:1/none?sslmode=disable")
		_, err := try(d, "select 1")
		var gone *pgpool.Unavailable
		if !errors.As(err, &gone) || gone.Ran || !strings.Contains(log.String(), "id="+gone.ID+" ") {
			t.Fatalf("%v; the log has %s", err, log.String())
		}
		if !keep {
			d.Close()
		}
		time.Sleep(every)
	}
	if n := strings.Count(log.String(), "cannot connect"); n < 3 || n > 4 {
		t.Errorf("%d records in 40 s: %s", n, log.String())
	}
	s := b.Stats()
	if s.Failures > 110 || s.Failures+s.FastFail != requests {
		t.Errorf("%d attempts in 40 s, and %d requests were told without: %+v", s.Failures, s.FastFail, s)
	}
	if keep {
		return
	}
	time.Sleep(time.Minute)
	if s := b.Stats(); len(s.Databases) != 0 {
		t.Errorf("it is still remembered: %+v", s.Databases)
	}
}
