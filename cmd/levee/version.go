package main

import (
	"encoding/json"
	"fmt"

	"github.com/leveehq/levee/internal/buildinfo"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print as JSON."`
}

func (c *versionCmd) Run(env environment) error {
	b := buildinfo.Read()
	if c.JSON {
		return json.NewEncoder(env.out).Encode(b)
	}
	fmt.Fprintf(env.out, "levee %s\n", b.Version)
	if b.Revision != "" {
		fmt.Fprintf(env.out, "revision %s\n", b.Revision)
	}
	fmt.Fprintf(env.out, "%s %s\n", b.Go, b.Platform)
	return nil
}
