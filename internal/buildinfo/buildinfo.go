// Package buildinfo says what this binary was built from. It refuses to be told: everything is what the Go toolchain
// recorded, so that a release needs no linker flags and no file to keep in step.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// Info is what the toolchain recorded.
type Info struct {
	Version  string `json:"version"`            // a release's tag, a pseudo-version, or "devel"
	Revision string `json:"revision,omitempty"` // commit, with "+dirty" if the tree had changes; empty outside of a checkout
	Go       string `json:"go"`
	Platform string `json:"platform"` // GOOS/GOARCH
}

// Read returns the running binary's Info.
func Read() Info {
	info := Info{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if v := b.Main.Version; v != "" && v != "(devel)" {
		info.Version = v
	}
	dirty := ""
	for _, s := range b.Settings {
		switch {
		case s.Key == "vcs.revision":
			info.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if info.Revision != "" {
		info.Revision += dirty
	}
	return info
}
