package storm

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// All names are plain ones, and all texts our own, so that nothing below needs quotes.

// rolesSQL leaves roles alone that are there.
func rolesSQL(o *ProvisionOptions) string {
	var b strings.Builder
	create := func(name, attributes string) {
		fmt.Fprintf(&b, "do $$ begin if not exists (select from pg_roles where rolname = '%[1]s') then create role %[1]s %[2]s; comment on role %[1]s is '%[3]s'; end if; end $$;\n", name, attributes, madeByUs)
	}
	create(o.Login, "login noinherit nosuperuser nobypassrls")
	create(o.Role, "nologin nosuperuser nobypassrls")
	fmt.Fprintf(&b, "grant %s to %s;\n", o.Role, o.Login)
	return b.String()
}

// tenantSQL makes a schema with tables that refer each to the one before, row to row, and the function to sleep in.
func tenantSQL(o *ProvisionOptions, t provisioned) string {
	var b strings.Builder
	sentinel, s := sentinelOf(t.tenant), t.schema
	fmt.Fprintf(&b, "create schema %s; grant usage on schema %[1]s to %s;\n", s, o.Role)
	before := ""
	for _, table := range tableNames(o.Tables) {
		columns := fmt.Sprintf("id int primary key, %s text not null, title text not null, done boolean not null default false, created_at timestamptz not null default '2024-01-01 00:00+00'", sentinelColumn)
		insert, values := "id, "+sentinelColumn+", title", fmt.Sprintf("i, '%s', '%s ' || i", sentinel, table)
		if before != "" {
			columns += fmt.Sprintf(", %s_id int not null references %s.%[1]s", before, s)
			insert, values = insert+", "+before+"_id", values+", i"
		}
		fmt.Fprintf(&b, "create table %s.%s (%s);\n", s, table, columns)
		if before != "" {
			fmt.Fprintf(&b, "create index on %s.%s (%s_id);\n", s, table, before)
		}
		fmt.Fprintf(&b, "insert into %s.%s (%s) select %s from generate_series(1, %d) i;\n", s, table, insert, values, o.Rows)
		before = table
	}
	fmt.Fprintf(&b, "grant select on all tables in schema %s to %s;\n", s, o.Role)
	fmt.Fprintf(&b, "create function %s.%s(seconds float8) returns text language sql stable as $$ select '%s'::text from (select pg_sleep(seconds)) s $$;\n", s, napFunction, sentinel)
	return b.String()
}

func routesSQL(o *ProvisionOptions) string {
	return fmt.Sprintf("create table routes (tenant text primary key, host text not null unique, database_url text not null, schemas text[] not null, role text not null); grant select on routes to %s;", o.Login)
}

// tenantURL is how the server reaches a database: as the login, without password.
func (p *provisioner) tenantURL(database string) (string, error) {
	c, err := pgx.ParseConfig(p.o.DatabaseURL)
	if err != nil {
		return "", errors.New("database-url does not parse")
	}
	u := url.URL{Scheme: "postgres", User: url.User(p.o.Login), Path: "/" + database}
	port := strconv.Itoa(int(c.Port))
	if strings.HasPrefix(c.Host, "/") { // a directory with a socket
		u.RawQuery = url.Values{"host": {c.Host}, "port": {port}}.Encode()
		return u.String(), nil
	}
	u.Host = net.JoinHostPort(c.Host, port)
	return u.String(), nil
}

// config is the tenants as a block of Levee's configuration.
func (p *provisioner) config(all []provisioned) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "graphql {\n  anonymous_role = %q\n\n", p.o.Role)
	for _, t := range all {
		at, err := p.tenantURL(t.database)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "  tenant %q {\n    database_url = %q\n    schemas      = [%q]\n  }\n", t.tenant, at, t.schema)
	}
	b.WriteString("}\n")
	return []byte(b.String()), nil
}

// databaseOnLoopback refuses a database that is not certainly on this machine. It looks at what the driver makes of the URL,
// which may name hosts in several ways; the text is not shown, since it may hold a password.
func databaseOnLoopback(text string, remote bool) error {
	c, err := pgx.ParseConfig(text)
	if err != nil {
		return errors.New("database-url is not postgres://USER@HOST:PORT/DATABASE")
	}
	if remote {
		return nil
	}
	hosts := []string{c.Host}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	for _, host := range hosts {
		if !isLoopbackHost(host) {
			return fmt.Errorf("database-url is of host %q, which is not a loopback address: give 127.0.0.1, or allow it by --remote", host)
		}
	}
	return nil
}
