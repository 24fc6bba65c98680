package config

import "time"

// GraphQL holds the settings of the API over PostgreSQL. It is off until there is a database_url, a tenant or a resolver.
//
// The settings of GraphQLSource and GraphQLAuth are those of one tenant, served at /graphql. In a file there may be more:
//
//	graphql {
//	  roles      = ["app_user"]              # who leaves a setting of GraphQLAuth out has it from here
//	  jwt_secret = "env:JWT_SECRET"
//	  tenant "shop" {                        # served at /graphql/shop
//	    database_url = "env:SHOP_URL"
//	    schemas      = ["shop_public"]
//	  }
//	  resolver {                             # finds tenants that are not listed
//	    database_url = "env:ROUTES_URL"
//	    sql          = "select database_url, schemas from tenants where name = $1"
//	  }
//	}
type GraphQL struct {
	GraphQLSource
	GraphQLAuth

	// TenantHeader is for a proxy that knows the tenants, and that nobody can go past.
	TenantHeader string `hcl:"tenant_header" default:"" help:"Header that names the tenant of a request to /graphql, such as X-Tenant. Only for a listener on loopback, or with listen.http_trusted."`

	// Origins are for web apps that are served from elsewhere than the API: browsers keep all others' pages from reading it.
	Origins []string `hcl:"origins" default:"" help:"Web sites whose pages may ask GraphQL, such as https://app.example.com. None: only pages of the API's own host."`

	// Memory is for all that GraphQL takes. Bazel's defaults are then made for the rest.
	Memory Bytes `hcl:"memory" default:"auto" min:"1" help:"Memory of everything that belongs to GraphQL. auto: 30 % of the limit."`

	// Connections bounds those to PostgreSQL. Too low: requests wait for each other. Too high: PostgreSQL has none left for others.
	Connections int `hcl:"connections" default:"20" min:"1" max:"10000" help:"Connections to PostgreSQL, all tenants together."`

	// ConnectionsPerDatabase keeps one slow database from taking all of Connections.
	ConnectionsPerDatabase int `hcl:"connections_per_database" default:"auto" min:"1" max:"10000" help:"Connections to one database. auto: connections."`

	// Pooler says that something like pgbouncer's mode "transaction" is in between: no statement is then kept by name.
	Pooler string `hcl:"pooler" default:"none" enum:"none,transaction" help:"What is between here and PostgreSQL: nothing that matters, or a pooler in transaction mode."`

	// Queries that write are rare, and noticed; but who writes in them and hides errors of that is not.
	Queries string `hcl:"queries" default:"read-only" enum:"read-only,read-write" help:"Transactions of queries. read-only: a query that writes all the same is asked again, and its tenant's are read-write then."`

	// Wait is for whoever can be served as soon as somebody else is done. Too low: sheds at every hiccup.
	Wait time.Duration `hcl:"wait" default:"2s" min:"0.001" help:"Longest time that a request may queue, at the door and for a connection."`

	// BuildWait is for whoever comes to a tenant that is not resident. The build goes on without those who leave.
	BuildWait time.Duration `hcl:"build_wait" default:"180s" min:"0.001" help:"Longest time that a request waits for its tenant's instance to be built."`

	// BuildMax ends a build. Too low: large schemas are never served.
	BuildMax time.Duration `hcl:"build_max" default:"10m" min:"1" help:"Longest time that a build may take."`

	// Timeout is PostgreSQL's statement_timeout, which requests cannot change.
	Timeout time.Duration `hcl:"timeout" default:"10s" min:"0.001" help:"Longest time that PostgreSQL may work on one request (statement_timeout)."`

	// MaxResponse bounds what is taken in from PostgreSQL for one request; three times as much may be charged for it.
	MaxResponse Bytes `hcl:"max_response" default:"auto" min:"65536" max:"1073741824" help:"Largest answer. auto: a sixteenth of memory, 1 MiB to 64 MiB."`

	// MaxBody is the largest request.
	MaxBody Bytes `hcl:"max_body" default:"256KiB" min:"1024" max:"16777216" help:"Largest request body."`

	// MaxInstances bounds resident instances by number, which bytes do better.
	MaxInstances int `hcl:"max_instances" default:"auto" min:"1" help:"Tenants' instances kept at once. auto: as many as memory has room for."`

	// MaxBuilds is how many instances are built at once. Above 1 the peak of a build counts several times.
	MaxBuilds int `hcl:"max_builds" default:"1" min:"1" max:"64" help:"Instances built at once."`

	// PlanBytes is what an instance keeps of compiled operations. Too low: operations are compiled again and again.
	PlanBytes Bytes `hcl:"plan_bytes" default:"64KiB" min:"1024" help:"Memory of compiled operations, for each instance."`

	// IdleTTL closes instances that nobody uses before memory is short.
	IdleTTL time.Duration `hcl:"idle_ttl" default:"0s" help:"Instances that nobody used for so long are closed; 0 closes them only when their memory is needed."`

	// Watch is how stale an instance in use may be after a migration.
	Watch time.Duration `hcl:"watch" default:"5s" min:"0.1" help:"How often the schemas of instances in use are looked at for changes."`

	GraphQLLimits

	// Introspection answers __schema and __type, and gives suggestions in error texts.
	Introspection bool `hcl:"introspection" default:"true" help:"Whether __schema and __type are answered."`

	// Errors says what clients see of the database's errors: a sentence with an id that is in the log, or all of it.
	Errors string `hcl:"errors" default:"masked" enum:"masked,shown" help:"Errors of the database are replaced by an id that is in the log (masked), or told as they are (shown; for development)."`

	// PassErrors are the SQLSTATEs whose messages are meant for users.
	PassErrors []string `hcl:"pass_errors" default:"P0001" help:"SQLSTATEs of errors that are told as they are; P0001 is what RAISE EXCEPTION gives."`

	// SampleFile is for looking at how heap and cache moved, after the fact.
	SampleFile  string        `hcl:"sample_file" default:"" help:"File that gets a line of JSON each sample_every: heap, pressure, collector, builds, cache."`
	SampleEvery time.Duration `hcl:"sample_every" default:"10s" min:"0.1" help:"Time between two lines of sample_file."`

	Tenants  []GraphQLTenant  `inner:"tenant" label:"Name"`
	Resolver *GraphQLResolver `inner:"resolver"`
}

// GraphQLLimits bound a document before any SQL is made.
type GraphQLLimits struct {
	// MaxQueryBytes bounds its text.
	MaxQueryBytes Bytes `hcl:"max_query_bytes" default:"auto" min:"64" help:"Longest document. auto: max_body."`

	// MaxTokens bounds what is parsed, fragments expanded where they are used.
	MaxTokens int `hcl:"max_tokens" default:"10000" min:"1" max:"1000000" help:"Tokens of a document, fragments counted at each use."`

	// MaxDepth bounds how deep fields nest.
	MaxDepth int `hcl:"max_depth" default:"16" min:"1" max:"200" help:"How deep fields may nest."`

	// MaxAliases and MaxRootFields bound how often the same thing is asked for.
	MaxAliases    int `hcl:"max_aliases" default:"200" min:"1" help:"Fields with an alias in one operation."`
	MaxRootFields int `hcl:"max_root_fields" default:"50" min:"1" help:"Fields at the root of one operation."`

	// MaxCost bounds what lists within lists multiply to.
	MaxCost int `hcl:"max_cost" default:"100000" min:"1" help:"Rows that the lists of one operation may multiply to, by their first and last."`

	// MaxPage bounds each list by itself.
	MaxPage int `hcl:"max_page" default:"1000" min:"1" help:"Largest first or last of a list."`
}

// GraphQLSource is what a tenant serves.
type GraphQLSource struct {
	// DatabaseURL may hold a password, so it is never shown, and may be kept elsewhere.
	DatabaseURL string `hcl:"database_url" flag:"graphql-database" default:"" secret:"true" help:"PostgreSQL whose schemas are served at /graphql: postgres://…, or env:VARIABLE or file:PATH. None: no tenant there."`

	// Schemas are exposed in order.
	Schemas []string `hcl:"schemas" default:"" help:"Schemas that are served; the names of the first one's tables have no prefix."`

	// Settings are set for each transaction, besides what a token says.
	Settings map[string]string `hcl:"settings" default:"" help:"Settings of each transaction, such as app.tenant=shop."`

	// AllowBypassRLS is the operator's word for it: without, such logins are refused.
	AllowBypassRLS bool `hcl:"allow_bypass_rls" default:"false" help:"Whether the login may be one that row level security does not bind: a superuser, one with BYPASSRLS, the tables' owner."`
}

// GraphQLAuth says who runs a tenant's SQL. What a tenant or the resolver leaves out it has from the block graphql.
type GraphQLAuth struct {
	// AnonymousRole and DefaultRole: "none" is PostgreSQL's word for the login's own role.
	AnonymousRole string `hcl:"anonymous_role" default:"" help:"Role of requests without credentials; \"none\" is the login's own. Empty: such requests are turned away."`
	DefaultRole   string `hcl:"default_role" default:"" help:"Role of requests whose token names none; \"none\" is the login's own. Empty: such requests are turned away."`

	// Roles are compared to the letter.
	Roles []string `hcl:"roles" default:"" help:"Roles that tokens and trusted headers may name."`

	JWTSecret     string   `hcl:"jwt_secret" default:"" secret:"true" help:"Secret of HS256 tokens, as env:VARIABLE or file:PATH; 32 bytes at least."`
	JWTPublicKeys []string `hcl:"jwt_public_keys" default:"" help:"PEM files of public keys or certificates that verify tokens."`
	JWKSURL       string   `hcl:"jwks_url" default:"" help:"Where the issuer publishes its keys: https, or http on this machine."`
	JWTAudience   []string `hcl:"jwt_audience" default:"" help:"Audiences that tokens may be for. None: aud is not looked at."`
	JWTIssuer     string   `hcl:"jwt_issuer" default:"" help:"Issuer that tokens must be of. Empty: iss is not looked at."`
	JWTAlgorithms []string `hcl:"jwt_algorithms" default:"" help:"Algorithms of signatures. None: those that the keys at hand are commonly used with."`

	// JWTSkew is how far the issuer's clock may be off.
	JWTSkew time.Duration `hcl:"jwt_skew" default:"30s" max:"600" help:"How far the issuer's clock may be from ours."`

	// JWTAllowNoExp lets tokens pass that are good for ever.
	JWTAllowNoExp bool `hcl:"jwt_allow_no_exp" default:"false" help:"Whether tokens without exp are taken; only a new key ends them."`

	// RoleClaim is a path.
	RoleClaim []string `hcl:"role_claim" default:"role" help:"Path to the claim that names the role, one name a step."`

	// ClaimPrefix has a dot, so claims cannot reach PostgreSQL's own settings.
	ClaimPrefix string `hcl:"claim_prefix" default:"jwt.claims." help:"What goes before a claim's name to make a setting's."`

	// TrustedHeaders is for a proxy that authenticates, and that nobody can go past.
	TrustedHeaders bool `hcl:"trusted_headers" default:"false" help:"Whether X-Role and X-Claim-… are as good as a token. Only for a listener on loopback, or with listen.http_trusted."`
}

// GraphQLTenant is one of several tenants.
type GraphQLTenant struct {
	Name string // the label; served at /graphql/<name>

	// Hosts lead to the tenant, too. They must be among listen.hosts to be accepted at all.
	Hosts []string `hcl:"hosts" default:"" help:"Hosts at which /graphql is this tenant's."`

	GraphQLSource
	GraphQLAuth
}

// GraphQLResolver finds tenants that are not listed.
type GraphQLResolver struct {
	DatabaseURL string `hcl:"database_url" default:"" secret:"true" help:"PostgreSQL that knows the tenants."`

	// SQL is the operator's.
	SQL string `hcl:"sql" default:"" help:"Statement that is given what the path, the tenant_header or the Host names as $1 and returns no row or one with database_url, schemas, and anonymous_role, default_role, roles, settings if they are there."`

	// TTL and NegativeTTL are short, since a change of a route should not need a restart.
	TTL         time.Duration `hcl:"ttl" default:"5s" min:"0.001" help:"How long an answer is believed."`
	NegativeTTL time.Duration `hcl:"negative_ttl" default:"2s" min:"0.001" help:"How long it is believed that there is no such tenant."`

	AllowBypassRLS bool `hcl:"allow_bypass_rls" default:"false" help:"As a tenant's, for all that are found."`

	GraphQLAuth
}

// On tells whether anything of it is served.
func (g *GraphQL) On() bool { return g.DatabaseURL != "" || len(g.Tenants) > 0 || g.Resolver != nil }
