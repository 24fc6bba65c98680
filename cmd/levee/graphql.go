package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leveehq/levee/internal/bytesize"
)

type graphqlCmd struct {
	Ls    graphqlLsCmd    `cmd:"" help:"List the tenants whose instances a running server has."`
	Flush graphqlFlushCmd `cmd:"" help:"Have a running server build tenants' instances anew; requests under way end on the old ones."`
	SDL   graphqlSDLCmd   `cmd:"" name:"sdl" help:"Print a tenant's schema definition, as a running server serves it."`
}

// graphqlAdmin is where all of them ask.
type graphqlAdmin struct {
	adminFlag `embed:""`
}

type graphqlLsCmd struct {
	graphqlAdmin `embed:""`

	JSON bool `name:"json" help:"Print as JSON."`
}

type graphqlFlushCmd struct {
	graphqlAdmin `embed:""`

	Tenants []string `arg:"" optional:"" name:"tenant" help:"Tenants, as in their path behind /graphql/; \"\" is that of /graphql itself."`
	All     bool     `help:"All of them."`
}

type graphqlSDLCmd struct {
	graphqlAdmin `embed:""`

	Tenant string `arg:"" optional:"" help:"Tenant, as in its path behind /graphql/; none is that of /graphql itself."`
}

// graphqlTenant is an instance as the admin listener describes it.
type graphqlTenant struct {
	Tenant       string    `json:"tenant"`
	Database     string    `json:"database"`
	Schemas      []string  `json:"schemas"`
	State        string    `json:"state"`
	Bytes        int64     `json:"bytes"`
	Leases       int       `json:"leases"`
	LastUse      time.Time `json:"last_use"`
	BuildSeconds float64   `json:"build_seconds"`
}

func (c *graphqlAdmin) ask(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	return c.adminFlag.ask(ctx, method, path, query, "GraphQL off: name a database, as in levee serve --graphql-database postgres://USER@HOST/DATABASE --graphql-schemas app_public")
}

func (c *graphqlLsCmd) Run(ctx context.Context, env environment) error {
	body, err := c.ask(ctx, http.MethodGet, "/graphql/tenants", nil)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := fmt.Fprintln(env.out, strings.TrimSpace(string(body)))
		return err
	}
	var tenants []graphqlTenant
	if err := json.Unmarshal(body, &tenants); err != nil {
		return fmt.Errorf("graphql ls: the admin listener at %s did not answer with tenants: %w", c.Admin, err)
	}
	return printTenants(env.out, tenants, time.Now())
}

func printTenants(out io.Writer, tenants []graphqlTenant, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TENANT\tSTATE\tSIZE\tIN USE\tLAST USE\tBUILT IN\tSCHEMAS\tDATABASE")
	for _, t := range tenants {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", nameOf(t.Tenant), t.State, bytesize.Format(t.Bytes), t.Leases, ago(t.LastUse, now),
			time.Duration(t.BuildSeconds*float64(time.Second)).Round(time.Millisecond), strings.Join(t.Schemas, ","), t.Database)
	}
	return w.Flush()
}

// nameOf writes the tenant without name as its path.
func nameOf(tenant string) string {
	if tenant == "" {
		return "/graphql"
	}
	return tenant
}

func (c *graphqlFlushCmd) Run(ctx context.Context, env environment) error {
	if c.All == (len(c.Tenants) > 0) {
		return usageError{errors.New("graphql flush: name tenants, or give --all")}
	}
	if c.All {
		return c.flush(ctx, env, "all tenants", url.Values{"all": {"true"}})
	}
	var errs []error
	for _, tenant := range c.Tenants { // goes on behind one that fails
		if err := c.flush(ctx, env, nameOf(tenant), url.Values{"tenant": {tenant}}); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", nameOf(tenant), err))
		}
	}
	return errors.Join(errs...)
}

func (c *graphqlFlushCmd) flush(ctx context.Context, env environment, who string, query url.Values) error {
	body, err := c.ask(ctx, http.MethodPost, "/graphql/flush", query)
	if err != nil {
		return err
	}
	var done struct {
		Flushed int `json:"flushed"`
	}
	if err := json.Unmarshal(body, &done); err != nil {
		return fmt.Errorf("the admin listener at %s did not say what it flushed: %w", c.Admin, err)
	}
	_, err = fmt.Fprintf(env.out, "%s: instances flushed: %d\n", who, done.Flushed)
	return err
}

func (c *graphqlSDLCmd) Run(ctx context.Context, env environment) error {
	body, err := c.ask(ctx, http.MethodGet, "/graphql/sdl", url.Values{"tenant": {c.Tenant}})
	if err != nil {
		return err
	}
	_, err = env.out.Write(body)
	return err
}
