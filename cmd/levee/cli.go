package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/leveehq/levee/internal/storm"
)

// Exit statuses, stated in --help.
const (
	exitOK     = 0
	exitFailed = 1 // the command did its work and the answer is no, or it broke off
	exitUsage  = 2 // command line or configuration are wrong; nothing was started
)

const about = `Keeps memory-hungry servers alive under load: a Bazel remote cache, a Git cache and GraphQL over PostgreSQL inside one memory budget.

Exit status: 0 done; 1 it failed, or the answer is no (the plan does not fit, a check found an error, a storm found a broken promise); 2 the command line or the configuration is wrong.`

type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run the caches and GraphQL."`
	Plan    planCmd    `cmd:"" help:"Print the memory plan and whether it fits; starts and creates nothing."`
	Check   checkCmd   `cmd:"" help:"Check configuration, data directory, descriptors and addresses without serving."`
	Git     gitCmd     `cmd:"" help:"Look after the Git mirrors of a running server."`
	GraphQL graphqlCmd `cmd:"" name:"graphql" help:"Look after the GraphQL tenants of a running server."`
	Demo    demoCmd    `cmd:"" help:"Try a service with everything that it needs, in one command."`
	Storm   stormCmd   `cmd:"" help:"Offer bounded load to a running server, and report."`
	Version versionCmd `cmd:"" help:"Print version and build."`
}

// usageError is a mistake on the command line or in the configuration, as opposed to a failure of the work.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errSilent ends with exitFailed after the command has printed its own verdict.
var errSilent = errors.New("")

func run(args []string, env environment) int {
	parser, err := kong.New(newCLI(), kong.Name("levee"), kong.Description(about), kong.Writers(env.out, env.errors),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}), storm.Vars())
	if err != nil {
		return complain(env, err)
	}
	command, err := parser.Parse(args)
	if err != nil {
		return complain(env, usageError{err})
	}
	ctx, stop := untilSignal()
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	return complain(env, command.Run(env))
}

// untilSignal returns a context that the first SIGTERM or SIGINT ends. The second one finds no handler any more, and
// kills the process as the system does by default.
func untilSignal() (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

func complain(env environment, err error) int {
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errSilent) {
		fmt.Fprintf(env.errors, "levee: error: %v\n", err)
	}
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}
