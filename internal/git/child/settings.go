package child

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// settings are derived from the budget so that what git allocates by its own choice stays within half of it; the other half
// is for what it cannot choose: the table of objects, and the objects themselves.
func (b Budget) settings() []string {
	threads := max(b.Threads, 1)
	share := func(part, least, most int64) string {
		return strconv.FormatInt(min(max(b.Bytes/part, least), most), 10)
	}
	return []string{
		"pack.threads=" + strconv.Itoa(threads),
		"pack.windowMemory=" + share(8*int64(threads), 1<<20, 256<<20), // for each thread
		"pack.deltaCacheSize=" + share(8, 1<<20, 256<<20),              // 0 would be no bound
		"core.deltaBaseCacheLimit=" + share(8, 1<<20, 96<<20),
		"core.bigFileThreshold=" + share(16, 512<<10, 512<<20), // above it a blob is streamed, and never held whole
		// Windows on packs are pages of files, which the kernel may drop; what is bounded is the child's address space and
		// the page tables for it.
		"core.packedGitWindowSize=" + share(4, 1<<20, 32<<20),
		"core.packedGitLimit=" + share(1, 64<<20, 4<<30),
		// What would start a process of its own, behind our back and without a permit.
		"gc.auto=0",
		"gc.autoDetach=false",
		"maintenance.auto=false",
		"core.fsmonitor=false",
		// Repositories here are ours, whoever owns the volume.
		"safe.directory=*",
	}
}

// environment is all that a child sees. Configuration given this way counts as given by the command line, which is the only
// kind that may name a hook, and appears in no list of processes' arguments.
func (c *Cmd) environment(git string) ([]string, error) {
	env := []string{
		"PATH=" + filepath.Dir(git) + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=/nonexistent",
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_NO_REPLACE_OBJECTS=1", // upstream's refs/replace/ are data here, not orders
	}
	if c.Dir != "" {
		env = append(env, "GIT_DIR=.")
	}
	config := append(c.Budget.settings(), c.Config...)
	for i, setting := range config {
		key, value, ok := strings.Cut(setting, "=")
		if !ok {
			return nil, fmt.Errorf("git setting %q has no value", setting)
		}
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	return append(env, c.Env...), nil
}

// subcommand is the first argument that is no option of git's own.
func (c *Cmd) subcommand() string {
	for _, a := range c.Args {
		if a != "" && a[0] != '-' {
			return a
		}
	}
	return ""
}
