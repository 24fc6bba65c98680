package graphql

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/sqlgen"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// line passes connections on to a server.
type line struct {
	mu  sync.Mutex
	all []*pair
}

// pair is a connection and the one that it is passed on to. Of one that is mute nothing is answered.
type pair struct {
	client, server net.Conn
	mute           atomic.Bool
}

// newLine returns a line, and the address that it listens at.
func newLine(t *testing.T, to string) (*line, net.Addr) {
	l := &line{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			p := &pair{client: client, server: server}
			l.mu.Lock()
			l.all = append(l.all, p)
			l.mu.Unlock()
			running.Go(func() { _, _ = io.Copy(server, client); server.Close() })
			running.Go(p.answer)
		}
	})
	t.Cleanup(func() { listener.Close(); l.cut(); running.Wait() })
	return l, listener.Addr()
}

func (p *pair) answer() {
	defer p.client.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := p.server.Read(b)
		if n > 0 && !p.mute.Load() {
			_, err = p.client.Write(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// cut ends all connections that there are.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		p.client.Close()
		p.server.Close()
	}
	l.all = nil
}

// mute keeps from now on what is answered on the connections that there are.
func (l *line) mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		p.mute.Store(true)
	}
}

func TestAMutationThatIsDoneWhenItsConnectionIsLostIsOfUnknownOutcomeAndNotRepeated(t *testing.T) {
	t.Run("cut", func(t *testing.T) { doneAndLost(t, func(l *line, _ func(string) string) { l.cut() }) })
	t.Run("terminated", func(t *testing.T) {
		doneAndLost(t, func(_ *line, see func(string) string) {
			see("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app' and datname = current_database()")
		})
	})
}

// doneAndLost has a mutation's connection lost when it is committed, and before that is answered.
func doneAndLost(t *testing.T, lose func(*line, func(string) string)) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta")+`create table ta.mark (at text); grant insert, select on ta.mark to visitor;
		create function ta.mark_it(at text) returns text volatile language sql as $$ insert into ta.mark values (at) returning at $$`)
	l, address := newLine(t, fmt.Sprintf("127.0.0.1:%d", pgtest.Server(t).Port()))
	tenant := visitors(t, database, "ta")
	tenant.DatabaseURL = fmt.Sprintf("postgres://app@%s/%s?sslmode=disable", address, database)
	c := startCase(t, Options{Tenants: []Tenant{tenant}, Connections: 1})
	see := observerOf(t, database)
	c.sees("ta", []string{"1", "2"}, sub(t, "u1")) // on the connection that the mutation gets
	l.mute()
	ended := make(chan answered)
	go func() {
		ended <- c.ask("ta", `mutation { first: markIt(input: {at: "first"}) { result } second: markIt(input: {at: "second"}) { result } }`, sub(t, "u1"))
	}()
	const marks = "select coalesce(string_agg(at, ' ' order by at), '') from ta.mark"
	within(t, 10*time.Second, "it is done", func() bool { return see(marks) == "first" })
	lose(l, see)
	a := <-ended
	if line := c.masked(a, http.StatusOK, sqlgen.CodeUnknown); !strings.Contains(line, "lost a connection") || len(a.Errors) != 1 || a.Data["first"] != nil {
		t.Errorf("%s; the log has %q", a.text, line)
	}
	// What comes after it has a connection of its own.
	if there := see(marks); there != "first second" || a.Data["second"] == nil {
		t.Errorf("%s; there are %s", a.text, there)
	}
}
