package main

import (
	"context"
	"errors"
	"io"

	"github.com/leveehq/levee/internal/storm"
)

type stormGraphQLCmd struct {
	Provision graphqlProvisionCmd `cmd:"" help:"Make tenants in a PostgreSQL on this machine, for the others to ask, or remove them."`

	Zipf   graphqlLoad[storm.GraphQLZipf, *storm.GraphQLZipf]     `cmd:"" help:"Many tenants of unequal popularity, asked at an even rate."`
	Cold   graphqlLoad[storm.GraphQLCold, *storm.GraphQLCold]     `cmd:"" help:"Many tenants that are not resident, asked at the same moment."`
	Churn  graphqlLoad[storm.GraphQLChurn, *storm.GraphQLChurn]   `cmd:"" help:"More tenants than there is room for, asked all alike."`
	Drain  graphqlLoad[storm.GraphQLDrain, *storm.GraphQLDrain]   `cmd:"" help:"A tenant that is flushed under a slow request, and asked again."`
	Unique graphqlLoad[storm.GraphQLUnique, *storm.GraphQLUnique] `cmd:"" help:"Long texts, no two of which are equal."`
	Bench  graphqlLoad[storm.GraphQLBench, *storm.GraphQLBench]   `cmd:"" help:"Three operations over the forum schema, beside other servers of the same."`
}

type graphqlProvisionCmd struct {
	storm.ProvisionOptions `embed:""`

	Quiet bool `help:"Print no progress."`
}

func (c *graphqlProvisionCmd) Run(ctx context.Context, env environment) error {
	progress := env.errors
	if c.Quiet {
		progress = io.Discard
	}
	err := storm.Provision(ctx, c.ProvisionOptions, env.out, progress)
	if usage := new(storm.UsageError); errors.As(err, &usage) {
		return usageError{err}
	}
	return err
}

// graphqlLoad is the command of one scenario.
type graphqlLoad[T any, P interface {
	*T
	storm.GraphQLScenario
}] struct {
	Options T `embed:""`

	JSON  bool `name:"json" help:"Print the report as JSON."`
	Quiet bool `help:"Print no progress."`
}

func (c *graphqlLoad[T, P]) Run(ctx context.Context, env environment) error {
	progress := env.errors
	if c.Quiet {
		progress = io.Discard
	}
	report, err := storm.GraphQL(ctx, P(&c.Options), progress)
	if usage := new(storm.UsageError); errors.As(err, &usage) {
		return usageError{err}
	}
	if report == nil {
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
