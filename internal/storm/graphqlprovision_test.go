package storm

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"
	"github.com/leveehq/levee/internal/config"
	"github.com/leveehq/levee/internal/pglocal"
)

// postgres starts a server of the test's own, so that none is left when leaks are looked for.
func postgres(t *testing.T) *pglocal.Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "levee-storm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, err := pglocal.New(pglocal.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// smallProvision has five tenants in three databases.
func smallProvision(t *testing.T, s *pglocal.Server) ProvisionOptions {
	var o ProvisionOptions
	_ = kong.ApplyDefaults(&o) // a required flag is not there: that is its error
	o.DatabaseURL = s.URL("postgres", "postgres")
	o.Tenants, o.Databases, o.SchemasPerDatabase, o.OwnDatabases, o.Tables = 5, 2, 2, 1, 12
	return o
}

func provision(t *testing.T, o ProvisionOptions) string {
	t.Helper()
	var said bytes.Buffer
	if err := Provision(t.Context(), o, &said, io.Discard); err != nil {
		t.Fatal(err)
	}
	return said.String()
}

// as connects as the login, as the server under test would, by the URL that the configuration has.
func as(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func TestTenantsAreMadeReachableAndRemoved(t *testing.T) {
	o := smallProvision(t, postgres(t))
	o.Config = filepath.Join(t.TempDir(), "tenants.hcl")
	if said := provision(t, o); !strings.HasPrefix(said, "made 5 tenants with 60 tables in 3 databases") {
		t.Error(said)
	}
	text, err := os.ReadFile(o.Config)
	if err != nil || strings.Count(string(text), "tenant ") != 5 {
		t.Errorf("%v: %s", err, text)
	}
	c, err := config.Load(config.Sources{File: o.Config})
	if err != nil || len(c.GraphQL.Tenants) != 5 || c.GraphQL.Tenants[4].Schemas[0] != ownSchema || c.GraphQL.Tenants[4].AnonymousRole != o.Role {
		t.Errorf("%v: %+v", err, c)
	}
	p := &provisioner{o: &o}
	routes, err := p.tenantURL(o.routesDatabase())
	if err != nil {
		t.Fatal(err)
	}
	conn := as(t, routes)
	rows, err := conn.Query(t.Context(), "select tenant, database_url, schemas[1], role from routes order by tenant")
	if err != nil {
		t.Fatal(err)
	}
	type route struct{ Tenant, URL, Schema, Role string }
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[route])
	if err != nil || len(all) != 5 || all[4].Schema != ownSchema {
		t.Fatalf("%v: %+v", err, all)
	}
	conn.Close(t.Context())
	for _, r := range all {
		conn := as(t, r.URL)
		var sentinel string
		sql := "select tenant from " + r.Schema + ".comment where id = 2"
		if err := conn.QueryRow(t.Context(), sql).Scan(&sentinel); err == nil {
			t.Errorf("%s: the login reads without the role", r.Tenant)
		}
		if _, err := conn.Exec(t.Context(), "set role "+r.Role); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), sql).Scan(&sentinel); err != nil || sentinel != sentinelOf(r.Tenant) {
			t.Errorf("%s: %q, %v", r.Tenant, sentinel, err)
		}
		conn.Close(t.Context())
	}
	if err := Provision(t.Context(), o, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("made twice: %v", err)
	}
	o.Drop = true
	if said := provision(t, o); said != "removed 4 databases and 2 roles\n" {
		t.Error(said)
	}
}

func TestWhatOthersMadeIsNotRemoved(t *testing.T) {
	s := postgres(t)
	o := smallProvision(t, s)
	o.Prefix, o.Drop, o.Login, o.Role = "kept", true, "kept_login", "kept_role"
	conn := as(t, o.DatabaseURL)
	for _, sql := range []string{"create database kept_01", "create role kept_login login", "create role kept_role"} {
		if err := runSQL(t.Context(), conn, sql); err != nil {
			t.Fatal(err)
		}
	}
	if said := provision(t, o); said != "removed 0 databases and 0 roles\n" {
		t.Error(said)
	}
	as(t, s.URL("kept_login", "kept_01"))
}

func TestConnectionsAreCountedAndHeldAgainstTheirBudget(t *testing.T) {
	db := postgres(t)
	admin := db.URL("postgres", "postgres")
	if err := runSQL(t.Context(), as(t, admin), "create role counted login"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		as(t, db.URL("counted", "postgres"))
	}
	target, _ := (&fakeGraphQL{}).start(t)
	s := smallChurn(target, "")
	s.DatabaseURL, s.Login, s.MaxConnections = admin, "counted", 3
	r := runGraphQL(t, s)
	keepsPromises(t, r)
	if r.Connections != 3 {
		t.Errorf("%d connections", r.Connections)
	}
	s.MaxConnections = 2
	breaksPromise(t, runGraphQL(t, s), "3 connections open at once, above 2")
}
