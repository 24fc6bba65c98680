package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/leveehq/levee/internal/demo"
	"github.com/leveehq/levee/internal/serve"
)

type demoCmd struct {
	GraphQL demoGraphQLCmd `cmd:"" name:"graphql" help:"Serve GraphQL over a private PostgreSQL with a sample schema. PostgreSQL's server programs must be on this machine."`
}

type demoGraphQLCmd struct {
	configFlags `embed:""`

	Dir string `help:"Directory to keep the data in. By default all of it is temporary, and removed at the end." placeholder:"DIR" type:"path"`
}

// Run starts PostgreSQL, serves until a signal, and ends PostgreSQL last.
func (c *demoGraphQLCmd) Run(ctx context.Context, env environment) (err error) {
	if _, err := c.load(env, nil); err != nil { // before anything is started
		return err
	}
	fmt.Fprintln(env.out, "Starting a private PostgreSQL with a sample schema …")
	g, err := demo.StartGraphQL(ctx, c.Dir)
	if err != nil {
		return fmt.Errorf("demo graphql: %w", err)
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return c.serve(ctx, env, g)
}

func (c *demoGraphQLCmd) serve(ctx context.Context, env environment, g *demo.GraphQL) error {
	cfg, err := c.load(env, map[string]string{
		"store-path":       filepath.Join(g.Dir(), "store"),
		"graphql-database": g.URL(), "graphql-schemas": demo.Schema,
		"graphql-anonymous-role": demo.Visitor, "graphql-roles": demo.Author, "graphql-trusted-headers": "true",
	})
	if err != nil {
		return err
	}
	app, err := serve.Build(cfg, serve.Options{Out: env.out, Log: env.errors, Env: env.vars, Hint: blogHint})
	if err != nil {
		return usageError{err}
	}
	if err := app.Run(ctx); err != nil {
		return fmt.Errorf("demo graphql: %w", err)
	}
	_, err = io.WriteString(env.out, "PostgreSQL ends now, too.\n")
	return err
}

// blogHint is what to paste.
func blogHint(http, admin string) string {
	return fmt.Sprintf(`The sample is a blog. What a visitor sees, and what one of its authors does:

  curl http://%[1]s/graphql -H 'Content-Type: application/json' -d '{"query":"{ allPosts { nodes { title excerpt(length: 30) personByAuthorId { fullName } commentsByPostId { totalCount } } } }"}'

  curl http://%[1]s/graphql -H 'Content-Type: application/json' -H 'X-Role: %[2]s' -H 'X-Claim-Person-Id: 1' -d '{"query":"mutation { publishPost(input: {postId: 4}) { result { title state } } }"}'

The headers X-Role and X-Claim-… are believed here because only this machine reaches it; elsewhere use tokens.
Schema: levee graphql sdl --admin %[3]s. End: Ctrl-C.
`, http, demo.Author, admin)
}
