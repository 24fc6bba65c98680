package main

import (
	"encoding/json"
	"fmt"

	"github.com/leveehq/levee/internal/serve"
)

type checkCmd struct {
	configFlags `embed:""`

	JSON bool `name:"json" help:"Print as JSON."`
}

func (c *checkCmd) Run(env environment) error {
	cfg, err := c.load(env, nil)
	if err != nil {
		return err
	}
	app, err := serve.Build(cfg, serve.Options{Out: env.out, Log: env.errors, Env: env.vars})
	if err != nil {
		return usageError{err}
	}
	findings := app.Check()
	if err := c.print(env, findings); err != nil {
		return err
	}
	for _, f := range findings {
		if f.Severity == serve.Failure {
			return errSilent // the finding was printed
		}
	}
	return nil
}

func (c *checkCmd) print(env environment, findings []serve.Finding) error {
	if c.JSON {
		e := json.NewEncoder(env.out)
		e.SetIndent("", "  ")
		return e.Encode(findings)
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(env.out, "%-8s %-12s %s\n", f.Severity, f.What, f.Text); err != nil {
			return err
		}
	}
	return nil
}
