package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// ProvisionOptions of making tenants in a PostgreSQL cluster. The tags make it a kong command.
type ProvisionOptions struct {
	DatabaseURL string `help:"PostgreSQL to make them in, as a superuser." placeholder:"URL" required:""`
	Remote      bool   `help:"Allow a database that is not on this machine."`

	Tenants            int `help:"Tenants in all." default:"1000"`
	Databases          int `help:"Databases with many tenants, a schema each." default:"10"`
	SchemasPerDatabase int `help:"Tenants in each of those." default:"99"`
	OwnDatabases       int `help:"Tenants with a database of their own." default:"10"`
	Tables             int `help:"Tables of each tenant." default:"9"`
	Rows               int `help:"Rows of each table; each has the tenant's sentinel." default:"3"`

	// Login owns nothing and is no superuser, so that neither grants nor row level security are void. It has no password.
	Login  string `help:"Role to log in as; it needs a database that lets it in from this machine without password." default:"levee_app"`
	Role   string `help:"Role that requests run as, which the login may assume." default:"visitor"`
	Prefix string `help:"What the names of the databases begin with." default:"storm"`

	Config   string `help:"File to write the tenants to, as a graphql block of Levee's configuration." placeholder:"FILE" type:"path"`
	Parallel int    `help:"Databases that are made at once." default:"4"`
	Drop     bool   `help:"Remove everything that an earlier call has made, and end."`
}

// A name of ours needs no quotes.
var plainName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)

func (o *ProvisionOptions) validate() error {
	errs := []error{
		databaseOnLoopback(o.DatabaseURL, o.Remote),
		numberRange{"databases", o.Databases, 0, 1000}.check(),
		numberRange{"schemas-per-database", o.SchemasPerDatabase, 1, 10_000}.check(),
		numberRange{"own-databases", o.OwnDatabases, 0, 1000}.check(),
		numberRange{"tenants", o.Tenants, 1, maxTenants}.check(),
		numberRange{"tables", o.Tables, minTables, 10_000}.check(),
		numberRange{"rows", o.Rows, 1, maxRows}.check(),
		numberRange{"parallel", o.Parallel, 1, 64}.check(),
	}
	if n := o.Databases*o.SchemasPerDatabase + o.OwnDatabases; n != o.Tenants {
		errs = append(errs, fmt.Errorf("%d databases of %d schemas and %d databases of one are %d tenants, not %d", o.Databases, o.SchemasPerDatabase, o.OwnDatabases, n, o.Tenants))
	}
	for _, name := range []string{o.Login, o.Role, o.Prefix} {
		if !plainName.MatchString(name) {
			errs = append(errs, fmt.Errorf("%q is no name of lower-case letters, digits and _", name))
		}
	}
	return errors.Join(errs...)
}

// provisioned is a tenant and where it is.
type provisioned struct {
	tenant, database, schema string
}

// ownSchema is the name of the schema of everyone who has a database of their own: equal names must not be mixed up.
const ownSchema = "app_public"

// layout lists the tenants, those that share databases first.
func (o *ProvisionOptions) layout() (all []provisioned) {
	for i := range o.Databases * o.SchemasPerDatabase {
		name := tenantName(i)
		all = append(all, provisioned{name, fmt.Sprintf("%s_%02d", o.Prefix, 1+i/o.SchemasPerDatabase), name})
	}
	for i := range o.OwnDatabases {
		all = append(all, provisioned{tenantName(len(all)), fmt.Sprintf("%s_own_%02d", o.Prefix, 1+i), ownSchema})
	}
	return all
}

// routesDatabase holds the table that a server may resolve tenants by.
func (o *ProvisionOptions) routesDatabase() string { return o.Prefix + "_routes" }

// madeByUs is the comment on every database and role that Provision makes. It removes nothing without it.
const madeByUs = "made by levee storm graphql provision"

// Provision makes tenants, or removes those that it made. What it says when it is done goes to out.
func Provision(ctx context.Context, o ProvisionOptions, out, progress io.Writer) error {
	if err := o.validate(); err != nil {
		return &UsageError{err}
	}
	p := &provisioner{o: &o, progress: progress, began: time.Now()}
	if o.Drop {
		return p.drop(ctx, out)
	}
	all := o.layout()
	if err := p.make(ctx, all); err != nil {
		return err
	}
	fmt.Fprintf(out, "made %d tenants with %d tables in %d databases, and table routes in database %s, in %.1f s\n",
		len(all), len(all)*o.Tables, o.Databases+o.OwnDatabases, o.routesDatabase(), time.Since(p.began).Seconds())
	if o.Config == "" {
		return nil
	}
	text, err := p.config(all)
	if err != nil {
		return err
	}
	return os.WriteFile(o.Config, text, 0o600)
}

// provisioner is one call of Provision.
type provisioner struct {
	o        *ProvisionOptions
	progress io.Writer
	began    time.Time
	mu       struct {
		sync.Mutex
		done int
	}
}

// open connects to another database of the cluster.
func (p *provisioner) open(ctx context.Context, database string) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig(p.o.DatabaseURL)
	if err != nil {
		return nil, errors.New("database-url does not parse")
	}
	c.Database = cmp.Or(database, c.Database)
	c.RuntimeParams["synchronous_commit"] = "off" // what a crash loses is made again
	c.RuntimeParams["client_min_messages"] = "warning"
	return pgx.ConnectConfig(ctx, c)
}

// runSQL has SQL of several statements run in one transaction.
func runSQL(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

func (p *provisioner) make(ctx context.Context, all []provisioned) error {
	admin, err := p.open(ctx, "")
	if err != nil {
		return err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	if err := runSQL(ctx, admin, rolesSQL(p.o)); err != nil {
		return err
	}
	byDatabase := map[string][]provisioned{p.o.routesDatabase(): nil}
	for _, t := range all {
		byDatabase[t.database] = append(byDatabase[t.database], t)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(p.o.Parallel)
	for _, database := range sortedKeys(byDatabase) {
		// Two that are made at once would wait for each other at the template.
		if err := createDatabase(ctx, admin, database); err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error {
			if err := p.fill(ctx, database, byDatabase[database], all); err != nil {
				return fmt.Errorf("database %s: %w", database, err)
			}
			p.say(database, len(byDatabase))
			return nil
		})
	}
	return g.Wait()
}

func createDatabase(ctx context.Context, admin *pgx.Conn, name string) error {
	var there bool
	if err := admin.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&there); err != nil {
		return err
	}
	if there {
		return fmt.Errorf("database %s is there already: remove what an earlier call made by --drop, or give another --prefix", name)
	}
	if _, err := admin.Exec(ctx, "create database "+name); err != nil { // by itself: it runs in no transaction
		return err
	}
	_, err := admin.Exec(ctx, "comment on database "+name+" is '"+madeByUs+"'")
	return err
}

// fill makes the tenants of one database, a transaction each; or the routes to all.
func (p *provisioner) fill(ctx context.Context, database string, tenants, all []provisioned) error {
	conn, err := p.open(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if database == p.o.routesDatabase() {
		return p.route(ctx, conn, all)
	}
	for _, t := range tenants {
		if err := runSQL(ctx, conn, tenantSQL(p.o, t)); err != nil {
			return fmt.Errorf("tenant %s: %w", t.tenant, err)
		}
	}
	return nil
}

// route fills the table that a resolver's statement reads.
func (p *provisioner) route(ctx context.Context, conn *pgx.Conn, all []provisioned) error {
	if err := runSQL(ctx, conn, routesSQL(p.o)); err != nil {
		return err
	}
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"routes"}, []string{"tenant", "host", "database_url", "schemas", "role"},
		pgx.CopyFromSlice(len(all), func(i int) ([]any, error) {
			t := all[i]
			at, err := p.tenantURL(t.database)
			return []any{t.tenant, t.tenant + ".localhost", at, []string{t.schema}, p.o.Role}, err
		}))
	return err
}

func (p *provisioner) say(what string, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.done++
	fmt.Fprintf(p.progress, "%4.0fs %s: %d of %d databases\n", time.Since(p.began).Seconds(), what, p.mu.done, of) // a courtesy
}

// drop removes databases and roles that have our comment, whatever the other options say about their number.
func (p *provisioner) drop(ctx context.Context, out io.Writer) error {
	admin, err := p.open(ctx, "")
	if err != nil {
		return err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	databases, err := namesOf(ctx, admin, "select datname::text from pg_database where starts_with(datname, $1) and shobj_description(oid, 'pg_database') = $2", p.o.Prefix+"_", madeByUs)
	if err != nil {
		return err
	}
	for _, name := range databases {
		if _, err := admin.Exec(ctx, "drop database "+pgx.Identifier{name}.Sanitize()+" with (force)"); err != nil {
			return err
		}
	}
	roles, err := namesOf(ctx, admin, "select rolname::text from pg_authid where rolname in ($1, $2) and shobj_description(oid, 'pg_authid') = $3", p.o.Login, p.o.Role, madeByUs)
	if err != nil {
		return err
	}
	var kept []string
	for _, name := range roles {
		if _, err := admin.Exec(ctx, "drop role "+pgx.Identifier{name}.Sanitize()); err != nil { // tenants under another prefix need it
			kept = append(kept, name)
		}
	}
	fmt.Fprintf(out, "removed %d databases and %d roles\n", len(databases), len(roles)-len(kept))
	if len(kept) > 0 {
		fmt.Fprintf(out, "kept roles that others use: %v\n", kept)
	}
	return nil
}

func namesOf(ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]string, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	slices.Sort(names)
	return names, err
}
