package main

import (
	"encoding/json"
	"fmt"

	"github.com/leveehq/levee/internal/serve"
)

type planCmd struct {
	configFlags `embed:""`

	JSON bool `name:"json" help:"Print as JSON."`
}

// Run prints the plan of a server that is built and never started, so it is the very plan of "levee serve".
func (c *planCmd) Run(env environment) error {
	cfg, err := c.load(env, nil)
	if err != nil {
		return err
	}
	app, err := serve.Build(cfg, serve.Options{Out: env.out, Log: env.errors, Env: env.vars})
	if err != nil {
		return usageError{err}
	}
	plan := app.Plan()
	if c.JSON {
		e := json.NewEncoder(env.out)
		e.SetIndent("", "  ")
		err = e.Encode(plan)
	} else {
		_, err = fmt.Fprint(env.out, plan)
	}
	if err != nil {
		return err
	}
	return plan.Check()
}
