package main

import (
	"context"
	"fmt"

	"github.com/leveehq/levee/internal/config"
	"github.com/leveehq/levee/internal/serve"
)

type serveCmd struct {
	configFlags `embed:""`
}

func (c *serveCmd) Run(ctx context.Context, env environment) error {
	cfg, err := c.load(env, nil)
	if err != nil {
		return err
	}
	app, err := serve.Build(cfg, serve.Options{Out: env.out, Log: env.errors, Env: env.vars})
	if err != nil {
		return usageError{err}
	}
	for _, warning := range config.UnknownEnv(env.vars) {
		app.Warn(warning)
	}
	if err := app.Run(ctx); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
