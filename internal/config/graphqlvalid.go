package config

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// inherit gives tenants and the resolver what they leave out of GraphQLAuth.
func (c *Config) inherit() {
	for i := range c.GraphQL.Tenants {
		t := &c.GraphQL.Tenants[i]
		c.inheritAuth(&t.GraphQLAuth, "graphql.tenant", t.Name)
	}
	if r := c.GraphQL.Resolver; r != nil {
		c.inheritAuth(&r.GraphQLAuth, "graphql.resolver", "")
	}
}

func (c *Config) inheritAuth(to *GraphQLAuth, block, label string) {
	from, into := reflect.ValueOf(c.GraphQL.GraphQLAuth), reflect.ValueOf(to).Elem()
	for i := range from.NumField() {
		name := from.Type().Field(i).Tag.Get("hcl")
		if _, written := c.origins[InnerPath(block, label, name)]; !written {
			into.Field(i).Set(from.Field(i))
		}
	}
}

func (v *validator) graphql() {
	g := &v.c.GraphQL
	v.above("graphql.connections_per_database", int64(g.ConnectionsPerDatabase), "graphql.connections", int64(g.Connections))
	v.above("graphql.memory", int64(g.Memory), "memory_limit", int64(v.c.MemoryLimit))
	v.above("graphql.max_response", int64(g.MaxResponse), "graphql.memory", int64(g.Memory))
	v.above("graphql.max_query_bytes", int64(g.MaxQueryBytes), "graphql.max_body", int64(g.MaxBody))
	if g.BuildWait > g.BuildMax && v.c.Origin("graphql.build_wait").Kind != FromDefault {
		v.conflict("graphql.build_wait", "is above", "graphql.build_max", "a build has ended by then: lower the first or raise the second")
	}
	if g.Memory > 0 && v.c.Git.Memory > 0 && len(v.c.Git.Hosts) > 0 && v.c.MemoryLimit > 0 && g.Memory+v.c.Git.Memory >= v.c.MemoryLimit {
		v.conflict("graphql.memory", fmt.Sprintf("leaves nothing of %s beside", v.c.Describe("memory_limit")), "git.memory", "lower one of the first two or raise the limit")
	}
	for _, origin := range g.Origins {
		if u, err := url.Parse(origin); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || origin != u.Scheme+"://"+u.Host || strings.Contains(u.Host, "*") {
			v.wrong("graphql.origins", fmt.Sprintf("has %q, which is no origin: write scheme and host alone, as https://app.example.com", origin))
		}
	}
	if g.DatabaseURL == "" && len(g.Schemas) > 0 {
		v.wrong("graphql.schemas", "are of no database: set graphql.database_url (--graphql-database), or write them in a tenant block")
	}
	for _, state := range g.PassErrors {
		if len(state) != 5 {
			v.wrong("graphql.pass_errors", fmt.Sprintf("has %q, which is no SQLSTATE: those have five characters, such as P0001", state))
		}
	}
	if g.DatabaseURL != "" {
		at := func(name string) string { return "graphql." + name }
		v.source(g.GraphQLSource, at)
		v.auth(g.GraphQLAuth, at)
	}
	v.tenants()
	v.resolver()
}

func (v *validator) tenants() {
	hosts := map[string]string{}
	for _, t := range v.c.GraphQL.Tenants {
		at := func(name string) string { return InnerPath("graphql.tenant", t.Name, name) }
		if !validTenantName(t.Name) {
			v.problem(fmt.Sprintf("graphql.tenant %q: its name is part of a path, so it has 1 to 128 letters, digits, dots, dashes and underscores, no dot in front, and is neither ac nor cas, which are Bazel's", t.Name))
		}
		v.source(t.GraphQLSource, at)
		v.auth(t.GraphQLAuth, at)
		for _, h := range t.Hosts {
			h = strings.ToLower(h)
			if other, taken := hosts[h]; taken {
				v.problem(fmt.Sprintf("%s has the host %s, which is also tenant %q's: a host leads to one tenant", v.where(at("hosts")), h, other))
			}
			hosts[h] = t.Name
		}
	}
}

func (v *validator) resolver() {
	r := v.c.GraphQL.Resolver
	if r == nil {
		return
	}
	at := func(name string) string { return InnerPath("graphql.resolver", "", name) }
	v.databaseURL(r.DatabaseURL, at)
	if r.SQL == "" {
		v.problem(`graphql.resolver.sql is missing: write the statement that finds a tenant, such as "select database_url, schemas from tenants where name = $1"`)
	}
	v.auth(r.GraphQLAuth, at)
}

func validTenantName(name string) bool {
	return name != "" && len(name) <= 128 && name[0] != '.' && name != "ac" && name != "cas" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
	})
}

func (v *validator) problem(text string) { v.problems = append(v.problems, Problem{Text: text}) }

// where names a setting and where it was written, without its value.
func (v *validator) where(path string) string {
	return fmt.Sprintf("%s (%s)", path, v.c.Origin(path).Where)
}

func (v *validator) source(s GraphQLSource, at func(string) string) {
	v.databaseURL(s.DatabaseURL, at)
	if len(s.Schemas) == 0 {
		v.problem(fmt.Sprintf(`%s is missing: name the schemas to serve, such as ["app_public"]`, at("schemas")))
	}
}

// databaseURL never shows the value: it may be a password alone, pasted in the wrong place.
func (v *validator) databaseURL(url string, at func(string) string) {
	switch {
	case url == "":
		v.problem(at("database_url") + " is missing: say where the database is, as postgres://USER@HOST/DATABASE, env:VARIABLE or file:PATH")
	case !isReference(url) && !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://"):
		v.problem(v.where(at("database_url")) + " is neither postgres://USER@HOST/DATABASE nor env:VARIABLE nor file:PATH")
	}
}

func (v *validator) auth(a GraphQLAuth, at func(string) string) {
	if a.JWTSecret != "" && !isReference(a.JWTSecret) {
		v.problem(v.where(at("jwt_secret")) + " must say where the secret is, as env:VARIABLE or file:PATH; the secret itself is never written here")
	}
	keys := a.JWTSecret != "" || len(a.JWTPublicKeys) > 0 || a.JWKSURL != ""
	if !keys && !a.TrustedHeaders && a.AnonymousRole == "" {
		v.problem(fmt.Sprintf("nobody could be served: set %s for requests without credentials, or a key for tokens (jwt_secret, jwt_public_keys, jwks_url)", at("anonymous_role")))
	}
	if keys && len(a.Roles) == 0 && a.DefaultRole == "" {
		v.problem(fmt.Sprintf("no token could be served: list in %s the roles that tokens may name, or set default_role for those that name none", at("roles")))
	}
	if slices.Contains(a.Roles, "none") {
		v.problem(v.where(at("roles")) + ` has "none", which would let tokens run as the login's own role; set default_role = "none" if that is meant`)
	}
	for _, alg := range a.JWTAlgorithms {
		if !slices.Contains(algorithms, alg) {
			v.problem(fmt.Sprintf("%s has %q, which is not one of %s%s", v.where(at("jwt_algorithms")), alg, strings.Join(algorithms, ", "), didYouMean(alg, algorithms)))
		}
	}
}

var algorithms = []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
