package serve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/leveehq/levee/internal/bazel"
	"github.com/leveehq/levee/internal/config"
	"github.com/leveehq/levee/internal/graphql"
	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/graphql/document"
)

// buildGraphQL makes the API over PostgreSQL if there is a tenant, or a way to find one. Without, there is nothing of it: no
// line, no gate, no goroutine.
func (a *App) buildGraphQL() (err error) {
	if !a.cfg.GraphQL.On() {
		return nil
	}
	if err := a.trustHeaders(); err != nil {
		return err
	}
	o, err := graphqlOptions(a.cfg, a.env)
	if err != nil {
		return err
	}
	o.Connection.Live, o.Connection.Kernel = bazel.HTTPConnection()
	o.Kernel, o.Log, o.Logger = a.kernel, a.access, a.log
	if a.graphql, err = graphql.New(o); err != nil {
		return inWordsOfSettings(err)
	}
	return nil
}

// trustHeaders refuses headers that say who a caller is, or whose data they are about, where others than the operator's proxy could send them.
func (a *App) trustHeaders() error {
	l := a.cfg.Listen
	if where := trusting(a.cfg); where != "" && isPublic(l.HTTP) && !l.HTTPTrusted {
		return fmt.Errorf("%s is set, and %s is reachable from other machines: whoever reaches it could be anybody; listen on 127.0.0.1, or set listen.http_trusted = true (--listen-http-trusted) if only a proxy of yours that sets %s itself can reach it",
			where, a.cfg.Describe("listen.http"), headersOf(a.cfg))
	}
	return nil
}

// headersOf names the headers that are believed.
func headersOf(c *config.Config) string {
	if header := c.GraphQL.TenantHeader; header != "" {
		return header + ", X-Role and X-Claim-…"
	}
	return "X-Role and X-Claim-…"
}

// trusting names a setting that lets headers say who a caller or its tenant is; "" if none does.
func trusting(c *config.Config) string {
	g := c.GraphQL
	if g.TenantHeader != "" {
		return "graphql.tenant_header"
	}
	if g.DatabaseURL != "" && g.TrustedHeaders {
		return "graphql.trusted_headers"
	}
	for _, t := range g.Tenants {
		if t.TrustedHeaders {
			return config.InnerPath("graphql.tenant", t.Name, "trusted_headers")
		}
	}
	if g.Resolver != nil && g.Resolver.TrustedHeaders {
		return "graphql.resolver.trusted_headers"
	}
	return ""
}

// graphqlOptions reads the secrets that the settings refer to. Its errors say where each was looked for, and show none.
func graphqlOptions(c *config.Config, env []string) (graphql.Options, error) {
	g := c.GraphQL
	o := graphql.Options{
		Memory: int64(g.Memory), Connections: g.Connections, ConnectionsPerDatabase: g.ConnectionsPerDatabase, Pooler: g.Pooler == "transaction",
		WritingQueries: g.Queries == "read-write", TenantHeader: g.TenantHeader, Wait: g.Wait, BuildWait: g.BuildWait, BuildMax: g.BuildMax, Timeout: g.Timeout,
		MaxResponse: int64(g.MaxResponse), MaxBody: int64(g.MaxBody),
		MaxInstances: g.MaxInstances, MaxBuilds: g.MaxBuilds, PlanBytes: int(g.PlanBytes), IdleTTL: g.IdleTTL, Watch: g.Watch,
		Limits: document.Limits{
			Bytes: int(g.MaxQueryBytes), Tokens: g.MaxTokens, Depth: g.MaxDepth, Aliases: g.MaxAliases,
			RootField: g.MaxRootFields, Cost: g.MaxCost, Page: g.MaxPage, NoIntrospection: !g.Introspection,
		},
		ShowErrors: g.Errors == "shown", PassErrors: append([]string{}, g.PassErrors...), // not nil: none is not the default
		SampleFile: g.SampleFile, SampleEvery: g.SampleEvery,
	}
	if o.Limits.Bytes == 0 {
		o.Limits.Bytes = int(g.MaxBody)
	}
	r := secretReader{env: env}
	if g.DatabaseURL != "" {
		o.Tenants = append(o.Tenants, r.tenant("", nil, g.GraphQLSource, g.GraphQLAuth))
	}
	for _, t := range g.Tenants {
		o.Tenants = append(o.Tenants, r.tenant(t.Name, t.Hosts, t.GraphQLSource, t.GraphQLAuth))
	}
	if res := g.Resolver; res != nil {
		at := func(name string) string { return config.InnerPath("graphql.resolver", "", name) }
		o.Resolver = &graphql.Resolver{
			DatabaseURL: r.read(at("database_url"), res.DatabaseURL), SQL: res.SQL, TTL: res.TTL, NegativeTTL: res.NegativeTTL,
			AllowBypassRLS: res.AllowBypassRLS, Auth: r.auth(at, res.GraphQLAuth),
		}
	}
	return o, errors.Join(r.errs...)
}

// secretReader remembers what went wrong, so that all of it is told at once.
type secretReader struct {
	env  []string
	errs []error
}

func (r *secretReader) tenant(name string, hosts []string, s config.GraphQLSource, a config.GraphQLAuth) graphql.Tenant {
	at := func(setting string) string { return "graphql." + setting }
	if name != "" {
		at = func(setting string) string { return config.InnerPath("graphql.tenant", name, setting) }
	}
	return graphql.Tenant{
		Name: name, Hosts: hosts, DatabaseURL: r.read(at("database_url"), s.DatabaseURL), Schemas: s.Schemas,
		Settings: s.Settings, AllowBypassRLS: s.AllowBypassRLS, Auth: r.auth(at, a),
	}
}

// read returns what text refers to, or text itself.
func (r *secretReader) read(setting, text string) string {
	if !strings.HasPrefix(text, "env:") && !strings.HasPrefix(text, "file:") {
		return text
	}
	secret, err := readSecret(text, r.env)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", setting, err))
	}
	return secret
}

func (r *secretReader) auth(at func(string) string, a config.GraphQLAuth) auth.Options {
	o := auth.Options{
		JWKSURL: a.JWKSURL, Algorithms: a.JWTAlgorithms, Audience: a.JWTAudience, Issuer: a.JWTIssuer, Skew: a.JWTSkew, AllowNoExp: a.JWTAllowNoExp,
		RoleClaim: a.RoleClaim, ClaimPrefix: a.ClaimPrefix, AnonymousRole: a.AnonymousRole, DefaultRole: a.DefaultRole, Roles: a.Roles,
		TrustedHeaders: a.TrustedHeaders,
	}
	if o.Skew == 0 {
		o.Skew = -1 // none at all; 0 is the default there
	}
	if a.JWTSecret != "" {
		o.Secret = []byte(r.read(at("jwt_secret"), a.JWTSecret))
	}
	for _, path := range a.JWTPublicKeys {
		pem, err := os.ReadFile(path)
		if err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", at("jwt_public_keys"), err))
			continue
		}
		o.PublicKeys = append(o.PublicKeys, string(pem))
	}
	return o
}

// inWordsOfSettings has an error name settings as operators write them.
func inWordsOfSettings(err error) error {
	return errors.New(settingWords.Replace(err.Error()))
}

var settingWords = strings.NewReplacer(
	"JWKSURL", "jwks_url", "PublicKeys", "jwt_public_keys", "Secret", "jwt_secret", "AnonymousRole", "anonymous_role", "DefaultRole", "default_role",
	"RoleClaim", "role_claim", "ClaimPrefix", "claim_prefix", "TrustedHeaders", "trusted_headers", "Algorithms", "jwt_algorithms", "Skew:", "jwt_skew:", "Roles:", "roles:",
)

func graphqlIsOff(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "GraphQL is off, because there is no database to serve; name one, as in: levee serve --graphql-database postgres://USER@HOST/DATABASE --graphql-schemas app_public --graphql-anonymous-role ROLE (settings graphql.database_url, or a tenant block)", http.StatusNotFound)
}

const mostAnnounced = 5 // tenants; a thousand lines would push away the rest

// announceGraphQL prints where tenants are, and a line to paste.
func (a *App) announceGraphQL(w io.Writer, addr string) {
	if a.graphql == nil {
		return
	}
	g := a.cfg.GraphQL
	fmt.Fprint(w, "GraphQL over PostgreSQL:\n\n")
	example := ""
	tell := func(path, what string) {
		url := "http://" + addr + path
		if example == "" {
			example = url
		}
		fmt.Fprintf(w, "  %s  %s\n", url, what)
	}
	if g.DatabaseURL != "" {
		tell(graphql.Prefix, "schemas "+strings.Join(g.Schemas, ", "))
	}
	for i, t := range g.Tenants {
		if i == mostAnnounced {
			fmt.Fprintf(w, "  … and %d more tenants\n", len(g.Tenants)-i)
			break
		}
		tell(graphql.Prefix+"/"+t.Name, "schemas "+strings.Join(t.Schemas, ", "))
	}
	if g.Resolver != nil {
		fmt.Fprintf(w, "  http://%s%s/TENANT  whom graphql.resolver finds\n", addr, graphql.Prefix)
	}
	if example != "" {
		fmt.Fprintf(w, "\n  curl %s -H 'Content-Type: application/json' -d '{\"query\":\"{ __typename }\"}'\n", example)
	}
	fmt.Fprintln(w)
}
