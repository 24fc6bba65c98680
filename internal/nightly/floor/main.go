// Command floor answers the three operations of levee storm graphql bench with SQL written by hand: what a GraphQL server
// over PostgreSQL is measured against. It trusts whoever asks, and its own SQL: no token is read, and unless -timeout and -reset say
// so, nothing bounds a statement and nothing is taken back from a session. It refuses to be anything else: it parses no GraphQL and knows three names.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

func main() {
	log.SetFlags(0)
	database := flag.String("database-url", "postgres://forum_owner@127.0.0.1/oracle_forum", "database with the forum's schema, app_public")
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	role := flag.String("role", "app_user", "role that requests run as")
	person := flag.String("person", "3", "claim person_id of every request")
	connections := flag.Int("connections", 10, "connections to the database")
	timeout := flag.Duration("timeout", 0, "statement_timeout of every request, as Levee has it; 0 sets none")
	reset := flag.Bool("reset", false, "take back behind every request what it may have left in its session, as Levee does")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	f := &floor{free: make(chan *pgx.Conn, *connections), role: *role, person: *person, timeout: strconv.FormatInt(timeout.Milliseconds(), 10), reset: *reset}
	if err := f.connect(ctx, *database, *connections); err != nil {
		log.Fatal(err)
	}
	if err := f.serve(ctx, *listen); err != nil {
		log.Fatal(err)
	}
}

type floor struct {
	free         chan *pgx.Conn
	role, person string
	timeout      string // "0": none
	reset        bool
}

func (f *floor) connect(ctx context.Context, url string, n int) error {
	for range n {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		f.free <- conn
	}
	return nil
}

func (f *floor) serve(ctx context.Context, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /graphql", f)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { s.Close() })
	fmt.Printf("floor at http://%s/graphql\n", l.Addr())
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// maxBody is far above any of the three.
const maxBody = 64 << 10

func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		OperationName string
		Variables     struct{ ID, Offset int }
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil {
		http.Error(w, "the body is no request", http.StatusBadRequest)
		return
	}
	var data any
	switch q.OperationName {
	case "lookup":
		data, err = f.lookup(r.Context(), q.Variables.ID)
	case "list":
		data, err = f.list(r.Context(), q.Variables.Offset)
	case "nested":
		data, err = f.nested(r.Context(), q.Variables.Offset)
	default:
		http.Error(w, "operationName is not lookup, list or nested", http.StatusBadRequest)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/graphql-response+json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer) // a client that left is its own business
}

// query runs SQL as the role, with its claims, in one round trip: a batch without BEGIN is one transaction.
func (f *floor) query(ctx context.Context, sql string, arg int, read func(pgx.Rows) error) error {
	conn := <-f.free
	defer f.release(conn)
	var b pgx.Batch
	if f.timeout == "0" {
		b.Queue("select set_config('role', $1, true), set_config('jwt.claims.person_id', $2, true)", f.role, f.person)
	} else {
		b.Queue("select set_config('role', $1, true), set_config('jwt.claims.person_id', $2, true), set_config('statement_timeout', $3, true)", f.role, f.person, f.timeout)
	}
	b.Queue(sql, arg)
	results := conn.SendBatch(ctx, &b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// resetSession is what Levee sends.
const resetSession = "set session authorization default; reset role; reset all; discard temp; discard sequences; unlisten *; close all; select pg_catalog.pg_advisory_unlock_all()"

func (f *floor) release(conn *pgx.Conn) {
	if !f.reset {
		f.free <- conn
		return
	}
	go func() { // the answer need not wait for that
		if _, err := conn.PgConn().Exec(context.Background(), resetSession).ReadAll(); err != nil {
			log.Printf("the session is not reset: %v", err)
		}
		f.free <- conn
	}()
}
