// Package demo brings what a service needs to be tried: for GraphQL a private PostgreSQL with a small blog in it.
//
// It refuses to install anything and to serve anything. What it starts listens on 127.0.0.1 and ends with Close.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/pglocal"
)

//go:embed blog.sql
var blogSQL string

// Names in blog.sql.
const (
	Schema  = "blog"
	Visitor = "demo_visitor" // sees what is published
	Author  = "demo_author"  // also what the claim person_id says is its own
	login   = "demo_login"
	base    = "blog"
)

// GraphQL is a PostgreSQL server with the sample schema.
type GraphQL struct {
	dir    string
	remove bool
	server *pglocal.Server
}

// startTime is enough for a slow disk: initdb writes 40 MB.
const startTime = 2 * time.Minute

// StartGraphQL makes the server in dir, or in a directory of its own if dir is "", which Close then removes. One that is there
// from an earlier time is used as it is.
func StartGraphQL(ctx context.Context, dir string) (*GraphQL, error) {
	g := &GraphQL{dir: dir}
	if _, err := pglocal.Find(); err != nil { // before a directory is made
		return nil, err
	}
	if err := g.makeDir(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := g.start(ctx); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func (g *GraphQL) makeDir() (err error) {
	if g.dir == "" {
		g.remove = true
		if g.dir, err = os.MkdirTemp("", "levee-demo-"); err != nil {
			return err
		}
	}
	if g.dir, err = filepath.Abs(g.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		return err
	}
	if g.remove {
		return os.Chmod(g.dir, 0o755) // PostgreSQL may run as somebody else than us
	}
	return nil
}

func (g *GraphQL) start(ctx context.Context) (err error) {
	g.server, err = pglocal.New(pglocal.Options{Dir: filepath.Join(g.dir, "postgresql"), Durable: !g.remove})
	if err != nil {
		return err
	}
	if err := g.server.Start(ctx); err != nil {
		return err
	}
	there, err := g.query(ctx, "postgres", "select 1 from pg_database where datname = '"+base+"'")
	if err != nil || there {
		return err
	}
	// Under another name until it is whole: what is cut short must not be taken for the blog.
	const part = base + "_part"
	for _, step := range []struct{ database, sql string }{
		{"postgres", "drop database if exists " + part},
		{"postgres", "drop role if exists " + Visitor + ", " + Author + ", " + login},
		{"postgres", "create database " + part},
		{part, blogSQL},
		{"postgres", "alter database " + part + " rename to " + base},
	} {
		if _, err := g.query(ctx, step.database, step.sql); err != nil {
			return fmt.Errorf("making the sample schema: %w", err)
		}
	}
	return nil
}

// query tells whether there was a row.
func (g *GraphQL) query(ctx context.Context, database, sql string) (bool, error) {
	c, err := pgconn.Connect(ctx, g.server.URL("postgres", database))
	if err != nil {
		return false, err
	}
	defer c.Close(ctx)
	results, err := c.Exec(ctx, sql).ReadAll()
	return err == nil && len(results) > 0 && len(results[0].Rows) > 0, err
}

// URL is how a service logs in: by a role that owns nothing.
func (g *GraphQL) URL() string { return g.server.URL(login, base) }

// Dir holds the data.
func (g *GraphQL) Dir() string { return g.dir }

// Close ends the server, and removes the directory if it was made for this.
func (g *GraphQL) Close() error {
	if g.server != nil {
		g.server.Stop()
	}
	if g.remove {
		return os.RemoveAll(g.dir)
	}
	return nil
}
