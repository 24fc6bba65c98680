// Command levee serves caches whose memory is proved at start-up and held under any load.
//
// It refuses to hold more than the command line: what a subcommand does lives in internal/serve, internal/storm and
// internal/config.
package main

import (
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], environment{os.Environ(), os.Stdout, os.Stderr}))
}

// environment is what a subcommand may touch of the process around it.
type environment struct {
	vars        []string
	out, errors io.Writer
}
