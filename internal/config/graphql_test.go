package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const tenants = `graphql {
  memory        = "200MiB"
  introspection = false
  roles         = ["app_user"]
  jwt_secret    = "env:SECRET"
  pass_errors   = []

  tenant "shop" {
    hosts        = ["shop.example.com"]
    database_url = "postgres://levee:hunter2@db/shop"
    schemas      = ["shop_public", "shop_stock"]
    settings     = { "app.tenant" = "shop" }
  }
  tenant "blog" {
    database_url   = "env:BLOG_URL"
    schemas        = ["public"]
    anonymous_role = "reader"
    roles          = []
    default_role   = "writer"
    jwt_skew       = "0s"
  }
  resolver {
    database_url = "file:/run/secrets/routes"
    sql          = "select database_url, schemas from tenants where name = $1"
    ttl          = "1m"
  }
}`

func loadText(t *testing.T, src string) (*Config, error) {
	t.Helper()
	c, err := Parse([]byte(src), "levee.hcl")
	if err != nil {
		return nil, err
	}
	c.inherit()
	return c, c.Validate()
}

func TestTenantsAndTheResolverHaveFromTheBlockWhatTheyLeaveOut(t *testing.T) {
	c, err := loadText(t, tenants)
	if err != nil {
		t.Fatal(err)
	}
	g := c.GraphQL
	if len(g.Tenants) != 2 || g.Resolver == nil || !g.On() || g.Introspection || len(g.PassErrors) != 0 || g.Memory != 200<<20 {
		t.Fatalf("got %+v", g)
	}
	shop, blog := g.Tenants[0], g.Tenants[1]
	if shop.Name != "shop" || !slices.Equal(shop.Schemas, []string{"shop_public", "shop_stock"}) || shop.JWTSecret != "env:SECRET" ||
		!slices.Equal(shop.Roles, []string{"app_user"}) || shop.JWTSkew != 30*time.Second || !maps.Equal(shop.Settings, map[string]string{"app.tenant": "shop"}) {
		t.Errorf("shop: %+v", shop)
	}
	if blog.JWTSecret != "env:SECRET" || len(blog.Roles) != 0 || blog.AnonymousRole != "reader" || blog.JWTSkew != 0 || blog.ClaimPrefix != "jwt.claims." {
		t.Errorf("blog: %+v", blog)
	}
	if r := g.Resolver; r.TTL != time.Minute || r.NegativeTTL != 2*time.Second || !slices.Equal(r.Roles, []string{"app_user"}) {
		t.Errorf("resolver: %+v", r)
	}
	if at := c.Origin(InnerPath("graphql.tenant", "blog", "jwt_skew")); at != (Origin{FromFile, "levee.hcl:20,5"}) {
		t.Errorf("origin: %+v", at)
	}
}

func TestOneTenantNeedsFlagsAlone(t *testing.T) {
	c, err := Load(Sources{Flags: map[string]string{
		"graphql-database": "postgres://levee:hunter2@db/app", "graphql-schemas": "app_public,app_admin", "graphql-anonymous-role": "app_anonymous", "graphql-allow-bypass-rls": "true",
	}})
	if err != nil {
		t.Fatal(err)
	}
	g := c.GraphQL
	if !g.On() || !slices.Equal(g.Schemas, []string{"app_public", "app_admin"}) || g.AnonymousRole != "app_anonymous" || !g.AllowBypassRLS || g.TrustedHeaders {
		t.Errorf("got %+v", g)
	}
	if text := c.Describe("graphql.database_url"); strings.Contains(text, "hunter2") || !strings.Contains(text, "(not shown)") {
		t.Error(text)
	}
}

func TestProblemsOfInnerBlocksShowTheirPlace(t *testing.T) {
	for _, test := range []struct{ src, want string }{
		{"graphql {\n  tenant \"a\" {\n    shemas = []\n  }\n}", `levee.hcl:3,5: unknown setting "shemas" in block "tenant"; did you mean "schemas"?`},
		{"graphql {\n  tenant \"a\" {}\n  tenant \"a\" {}\n}", `levee.hcl:3,3: block "tenant" a is written twice; merge it with the one in line 2`},
		{"graphql {\n  tenant {}\n}", `levee.hcl:2,3: block "tenant" takes one label, its name: write tenant "NAME" { … }`},
		{"graphql {\n  resolver \"a\" {}\n}", `levee.hcl:2,12: block "resolver" takes no label; remove "a"`},
		{"graphql {\n  resolver {}\n  resolver {}\n}", `levee.hcl:3,3: block "resolver" is written twice; merge it with the one in line 2`},
		{"graphql {\n  tenent \"a\" {}\n}", `levee.hcl:2,3: unknown block "tenent" inside of "graphql"; did you mean "tenant"?`},
		{"graphql {\n  tenant \"a\" {\n    more {}\n  }\n}", `levee.hcl:3,5: unknown block "more" inside of "tenant"`},
		{"git {\n  tenant \"a\" {}\n}", `levee.hcl:2,3: unknown block "tenant" inside of "git"`},
		{"graphql {\n  tenant \"a\" {\n    jwt_skew = \"11m\"\n  }\n}", `levee.hcl:3,16: graphql.tenant "a".jwt_skew = "11m" is above the most possible, 10m0s`},
		{"graphql {\n  introspection = \"yes\"\n}", `graphql.introspection = "yes" must be true or false, without quotes`},
		{"graphql {\n  wait = \"0s\"\n}", `graphql.wait = "0s" is below the least possible, 1ms`},
	} {
		_, err := loadText(t, test.src)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n%v, want %s", test.src, err, test.want)
		}
	}
}

func TestGraphQLSettingsThatContradictEachOtherNameBoth(t *testing.T) {
	tenant := func(name, more string) string {
		return "graphql {\n  tenant \"" + name + "\" {\n    database_url = \"env:URL\"\n    schemas = [\"s\"]\n    anonymous_role = \"r\"\n" + more + "\n  }\n}"
	}
	for _, test := range []struct{ src, want string }{
		{"graphql {\n connections = 5\n connections_per_database = 6\n}", "graphql.connections_per_database = 6 (levee.hcl:3,2) is above graphql.connections = 5 (levee.hcl:2,2)"},
		{"memory_limit = \"1GiB\"\ngraphql {\n memory = \"2GiB\"\n}", "graphql.memory = 2GiB (levee.hcl:3,2) is above memory_limit = 1GiB"},
		{"memory_limit = \"1GiB\"\ngit {\n hosts = [\"h\"]\n memory = \"512MiB\"\n}\ngraphql {\n memory = \"512MiB\"\n}", "graphql.memory = 512MiB (levee.hcl:7,2) leaves nothing of memory_limit = 1GiB (levee.hcl:1,1) beside git.memory = 512MiB"},
		{"graphql {\n build_wait = \"11m\"\n}", "graphql.build_wait = 11m0s (levee.hcl:2,2) is above graphql.build_max = 10m0s (default)"},
		{"graphql {\n max_query_bytes = \"1MiB\"\n}", "graphql.max_query_bytes = 1MiB (levee.hcl:2,2) is above graphql.max_body = 256KiB"},
		{"graphql {\n schemas = [\"s\"]\n}", "graphql.schemas = s (levee.hcl:2,2) are of no database"},
		{"graphql {\n pass_errors = [\"P1\"]\n}", `has "P1", which is no SQLSTATE`},
		{"graphql {\n tenant \"a\" {\n anonymous_role = \"r\"\n}\n}", `graphql.tenant "a".database_url is missing`},
		{"graphql {\n tenant \"a\" {\n anonymous_role = \"r\"\n}\n}", `graphql.tenant "a".schemas is missing`},
		{"graphql {\n tenant \"a/b\" {}\n}", `graphql.tenant "a/b": its name is part of a path`},
		{"graphql {\n tenant \"cas\" {}\n}", `are Bazel's`},
		{tenant("a", `jwt_secret = "hunter2"`), `graphql.tenant "a".jwt_secret (levee.hcl:6,1) must say where the secret is, as env:VARIABLE or file:PATH`},
		{tenant("a", `jwt_secret = "env:S"`), `list in graphql.tenant "a".roles the roles that tokens may name`},
		{tenant("a", `roles = ["none"]`), `graphql.tenant "a".roles (levee.hcl:6,1) has "none"`},
		{tenant("a", `jwt_algorithms = ["HS265"]`), `has "HS265", which is not one of HS256`},
		{strings.Replace(tenant("a", ""), `"env:URL"`, `"mysql://u:hunter2@h/d"`, 1), `graphql.tenant "a".database_url (levee.hcl:3,5) is neither postgres://`},
		{strings.Replace(tenant("a", ""), `"r"`, `""`, 1), `nobody could be served: set graphql.tenant "a".anonymous_role`},
		{"graphql {\n resolver {\n anonymous_role = \"r\"\n}\n}", "graphql.resolver.sql is missing"},
		{tenant("a", `hosts = ["X.example", "x.example"]`), "has the host x.example, which is also"},
	} {
		_, err := loadText(t, test.src)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n%v, want %s", test.src, err, test.want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a secret is shown: %v", err)
		}
	}
}

func TestAPasswordIsNotShownBesideAnotherMistakeOfItsLine(t *testing.T) {
	for _, src := range []string{
		"graphql {\n  database_url = \"postgres://levee:hunter2@db/app\n}",
		"graphql { database_ulr = \"postgres://levee:hunter2@db/app\" }",
		"graphql {\n  database_url = [\"postgres://levee:hunter2@db/app\"]\n}",
	} {
		_, err := loadText(t, src)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s\n%v", src, err)
		}
	}
}

func TestASecretOnTheCommandLineIsNotShown(t *testing.T) {
	_, err := Load(Sources{Flags: map[string]string{"graphql-jwt-secret": "hunter2hunter2", "graphql-database": "db hunter2", "graphql-schemas": "s"}})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
