package graphql

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/graphql/document"
)

// Tenant is somebody whose schemas are served.
type Tenant struct {
	// Name is the last part of the path: /graphql/<name>. "" is the tenant of /graphql itself.
	Name string

	// Hosts are further names: a request to /graphql with one of them in its Host header is this tenant's.
	Hosts []string

	// DatabaseURL is where its schemas are. Schemas are exposed, in order; the first one's names have no prefix.
	DatabaseURL string
	Schemas     []string

	// Auth says who runs its SQL.
	Auth auth.Options

	// Settings are set in each transaction besides what a token says: names and values.
	Settings map[string]string

	// AllowBypassRLS permits a login that row level security does not bind: a superuser, one with BYPASSRLS, or the owner of
	// tables. Requests that set no role then read all rows.
	AllowBypassRLS bool
}

// Resolver finds tenants that are not listed.
type Resolver struct {
	// DatabaseURL and SQL: the statement is given what the path, or else the TenantHeader or the Host names as $1, and returns no row or one with
	// the columns database_url, schemas (text[] or text with commas), and, if they are there, anonymous_role, default_role,
	// roles (as schemas) and settings (an object of json).
	DatabaseURL, SQL string

	// TTL is how long an answer is believed (5 s), NegativeTTL that there is no such tenant (2 s).
	TTL, NegativeTTL time.Duration

	// Auth of resolved tenants; roles that the statement returns take the place of its own.
	Auth auth.Options

	// AllowBypassRLS as for a Tenant.
	AllowBypassRLS bool
}

// Options of a Service. Zero means the default, which follows from the memory limit where memory is concerned; Kernel is
// required, and one tenant or a resolver.
type Options struct {
	Kernel *levee.Kernel
	Log    *accesslog.Log
	Logger *slog.Logger

	Tenants  []Tenant
	Resolver *Resolver

	// TenantHeader names the tenant of a request to /graphql, as the path or a host would: "X-Tenant". Only for a listener that
	// nobody but the operator's own proxy reaches. "": no header does.
	TenantHeader string

	// Memory is for all lines of the plan that are GraphQL's (graphql.memory; 30 % of the limit).
	Memory int64

	// Connection is what one connection of the HTTP listener costs, live on the Go heap and in the kernel. As many as there may
	// be requests are paid for by Memory, in the listener's own lines.
	Connection struct{ Live, Kernel int64 }

	// Connections bounds those to PostgreSQL, all tenants together (20). ConnectionsPerDatabase bounds one database's (all).
	Connections, ConnectionsPerDatabase int

	// Pooler says that a pooler in transaction mode is in between.
	Pooler bool

	// WritingQueries lets what queries call write: views, policies and functions. Without it a query runs READ ONLY, which is
	// cheaper, until PostgreSQL has refused one of its tenant's for that.
	WritingQueries bool

	// Wait is the longest time at the door and for a connection (2 s). BuildWait is that for an instance (180 s), BuildMax the
	// longest build (10 min).
	Wait, BuildWait, BuildMax time.Duration

	// Timeout is PostgreSQL's statement_timeout of each request (10 s).
	Timeout time.Duration

	// MaxResponse is the largest answer in bytes (a sixteenth of Memory, 1 to 64 MiB). MaxBody is the largest request (256 KiB).
	MaxResponse, MaxBody int64

	// MaxInstances bounds resident instances by number; 0: only bytes do. MaxBuilds is how many are built at once (1).
	MaxInstances, MaxBuilds int

	// PlanBytes is what one instance keeps of compiled operations (64 KiB). IdleTTL closes instances that nobody uses (never).
	PlanBytes int
	IdleTTL   time.Duration

	// Watch is how old the last look at the schema of an instance in use may be before there is another (5 s).
	Watch time.Duration

	// Limits of documents.
	Limits document.Limits

	// ShowErrors passes database errors on as they are; for development. Otherwise only those whose SQLSTATE is in PassErrors
	// (P0001, which RAISE EXCEPTION gives) are shown, and all others are a sentence and an id that is in the log.
	ShowErrors bool
	PassErrors []string

	// SampleFile receives a line of JSON every SampleEvery (10 s): heap, pressure level, collector pauses, builds, the cache's
	// counters. "" writes none.
	SampleFile  string
	SampleEvery time.Duration
}

func (o *Options) fill(limit int64) {
	set(&o.Memory, limit*3/10)
	set(&o.Connections, 20)
	set(&o.ConnectionsPerDatabase, o.Connections)
	set(&o.Wait, 2*time.Second)
	set(&o.BuildWait, 180*time.Second)
	set(&o.BuildMax, 10*time.Minute)
	set(&o.Timeout, 10*time.Second)
	set(&o.MaxBody, 256*kib)
	set(&o.MaxBuilds, 1)
	set(&o.PlanBytes, 64*kib)
	set(&o.Watch, 5*time.Second)
	set(&o.SampleEvery, 10*time.Second)
	o.Limits = o.Limits.WithDefaults()
	if o.PassErrors == nil {
		o.PassErrors = []string{"P0001"}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if r := o.Resolver; r != nil {
		set(&r.TTL, 5*time.Second)
		set(&r.NegativeTTL, 2*time.Second)
	}
}

// validate finds settings that contradict each other. Each error names what is wrong and what to do.
func (o *Options) validate() error {
	var errs []error
	bad := func(wrong bool, format string, a ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	bad(o.Kernel == nil, "graphql: Options.Kernel is required")
	bad(len(o.Tenants) == 0 && o.Resolver == nil, "graphql: name a tenant or a resolver")
	names, hosts := map[string]bool{}, map[string]string{}
	for i := range o.Tenants {
		t := &o.Tenants[i]
		who := fmt.Sprintf("graphql tenant %q", t.Name)
		bad(names[t.Name], "%s is named twice: give each its own name", who)
		names[t.Name] = true
		bad(t.Name != "" && !validTenant(t.Name), "%s: a name has letters, digits, dots, dashes and underscores only", who)
		bad(t.DatabaseURL == "", "%s has no database: set its database_url", who)
		bad(len(t.Schemas) == 0, "%s exposes no schema: set its schemas, for example [\"app_public\"]", who)
		for _, h := range t.Hosts {
			other, taken := hosts[strings.ToLower(h)]
			bad(taken, "%s has the host %q, which is tenant %q's: a host leads to one tenant", who, h, other)
			hosts[strings.ToLower(h)] = t.Name
		}
	}
	if r := o.Resolver; r != nil {
		bad(r.DatabaseURL == "" || r.SQL == "", "graphql.resolver needs both database_url and sql")
	}
	bad(o.ConnectionsPerDatabase > o.Connections && o.Connections > 0, "graphql.connections_per_database (%d) is above graphql.connections (%d): lower the first or raise the second", o.ConnectionsPerDatabase, o.Connections)
	bad(o.TenantHeader != "" && !validTenant(o.TenantHeader), "graphql.tenant_header: %q is no name of a header: write one such as X-Tenant", o.TenantHeader)
	for _, state := range o.PassErrors {
		bad(len(state) != 5, "graphql.pass_errors has %q, which is no SQLSTATE: those have five characters, such as P0001", state)
	}
	return errors.Join(errs...)
}

func validTenant(name string) bool {
	return name != "" && len(name) <= 128 && !strings.HasPrefix(name, ".") && !slices.ContainsFunc([]rune(name), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
	})
}

func set[T comparable](p *T, v T) {
	if *p == *new(T) {
		*p = v
	}
}
