// Command floor answers the three operations of levee storm graphql bench with SQL written by hand: what a GraphQL server
// over PostgreSQL is measured against. It refuses to be anything else: it parses no GraphQL and knows three names.
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
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	f := &floor{free: make(chan *pgx.Conn, *connections), role: *role, person: *person}
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
	defer func() { f.free <- conn }()
	var b pgx.Batch
	b.Queue("select set_config('role', $1, true), set_config('jwt.claims.person_id', $2, true)", f.role, f.person)
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
