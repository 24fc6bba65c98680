package main

import (
	"context"
	"errors"
	"io"

	"github.com/leveehq/levee/internal/storm"
)

type stormCmd struct {
	Bazel   stormBazelCmd   `cmd:"" help:"Offer load to a Bazel remote cache on this machine."`
	Git     stormGitCmd     `cmd:"" help:"Offer load to a Git cache on this machine; or make a repository, or serve one, to do so."`
	GraphQL stormGraphQLCmd `cmd:"" name:"graphql" help:"Offer load to a GraphQL service on this machine; or make tenants to do so."`
}

type stormBazelCmd struct {
	storm.BazelOptions `embed:""`

	JSON  bool `name:"json" help:"Print the report as JSON."`
	Quiet bool `help:"Print no progress."`
}

func (c *stormBazelCmd) Run(ctx context.Context, env environment) error {
	progress := env.errors
	if c.Quiet {
		progress = io.Discard
	}
	report, err := storm.Bazel(ctx, c.BazelOptions, progress)
	if usage := new(storm.UsageError); errors.As(err, &usage) {
		return usageError{err}
	}
	if report != nil { // also that of a run that broke off: it holds what was seen until then
		err = errors.Join(err, c.print(env, report))
	}
	if err == nil && report.ExitStatus() != storm.ExitOK {
		return errSilent // the report names the promises broken
	}
	return err
}

func (c *stormBazelCmd) print(env environment, report *storm.Report) error {
	if c.JSON {
		return report.WriteJSON(env.out)
	}
	return report.WriteText(env.out)
}
