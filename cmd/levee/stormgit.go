package main

import (
	"context"
	"errors"
	"io"

	"github.com/leveehq/levee/internal/storm"
)

type stormGitCmd struct {
	storm.GitOptions `embed:""`

	JSON  bool `name:"json" help:"Print the report as JSON."`
	Quiet bool `help:"Print no progress."`
}

func (c *stormGitCmd) Run(ctx context.Context, env environment) error {
	progress := env.errors
	if c.Quiet {
		progress = io.Discard
	}
	report, err := storm.Git(ctx, c.GitOptions, env.out, progress)
	if usage := new(storm.UsageError); errors.As(err, &usage) {
		return usageError{err}
	}
	if report == nil { // a repository was made or served
		return err
	}
	if c.JSON {
		err = errors.Join(err, report.WriteJSON(env.out))
	} else {
		err = errors.Join(err, report.WriteText(env.out))
	}
	if err == nil && report.ExitStatus() != storm.ExitOK {
		return errSilent // the report names the promises broken
	}
	return err
}
