package config

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Git holds the settings of the cache in front of upstream Git hosts. It is off until a host is named.
type Git struct {
	// Hosts may be served, and no other is ever asked: "github.com", or with the scheme where that is not https,
	// "http://127.0.0.1:8081". A host written as an address is allowed at that address, private or not.
	Hosts []string `hcl:"hosts" flag:"git-host" default:"" help:"Upstream host that may be served, by name (https) or URL; may be given several times. None: the Git cache is off."`

	// PrivateHosts are those of Hosts whose names may resolve to loopback, private and link-local addresses. Any other
	// name that does is refused: it may be an attempt to have this server ask a neighbour.
	PrivateHosts []string `hcl:"private_hosts" default:"" help:"Hosts of git.hosts whose names may resolve to private addresses."`

	// Tokens let callers without credentials of their own read what the token can read, so each makes its repositories
	// public to all who reach this server. They are never sent with a push.
	Tokens map[string]string `hcl:"tokens" default:"" help:"Read tokens by host, as env:VARIABLE or file:PATH, such as github.com=env:GITHUB_TOKEN; what they can read becomes public to all callers."`

	// Path holds mirrors and spooled packs.
	Path string `hcl:"path" default:"auto" help:"Directory of mirrors and spooled packs. auto: git in the data directory."`

	// MaxSize bounds the bytes of all mirrors. Too low and repositories evict one another, each then cloned anew.
	MaxSize Bytes `hcl:"max_size" default:"auto" min:"1" help:"Bytes of mirrors kept; the least recently used ones give way. auto: 100 GiB, or a quarter of the free disk if that is less."`

	// SpoolSize bounds the packs kept on disk. Too low and equal requests are generated anew; a pack above half of it
	// is served, but not kept.
	SpoolSize Bytes `hcl:"spool_size" default:"auto" min:"1048576" help:"Bytes of generated packs kept on disk. auto: 10 GiB, or an eighth of the free disk if that is less."`

	// Memory is for all that Git takes, its children included. Bazel's defaults are then made for the rest.
	Memory Bytes `hcl:"memory" default:"auto" min:"1" help:"Memory of everything that belongs to Git, its processes included. auto: 40 % of the limit, 30 % beside GraphQL."`

	// Total is the number of pack generations of the least cost at once. Too low and a machine with many processors
	// idles; higher makes each generation's memory smaller.
	Total int `hcl:"total" default:"auto" min:"1" help:"Expensive pack generations at once, all repositories together. auto: 8, or fewer where git.memory has no room for as many."`

	// PerRepository keeps one busy repository from taking all of Total.
	PerRepository int `hcl:"per_repository" default:"auto" min:"1" help:"Expensive pack generations at once of one repository. auto: 2, or total if that is less."`

	// MaxStaleness is how old upstream's list of refs may be. 0 asks each time, once for all who ask at that moment.
	MaxStaleness time.Duration `hcl:"max_staleness" default:"0s" help:"How old the list of refs may be that clients are shown; 0 asks upstream every time."`

	// Grace is how long a mirror is served while upstream cannot be asked.
	Grace time.Duration `hcl:"grace" default:"10m" help:"How long mirrors are served while upstream is down or limits our rate."`

	// Push says what becomes of pushes: "deny" answers 403, "forward" sends them upstream with the caller's credentials.
	Push string `hcl:"push" default:"deny" enum:"deny,forward" help:"Pushes are answered with 403 (deny) or go upstream with the caller's own credentials (forward)."`

	// QueueNoticeAfter is how long a waiter is told nothing, and can be turned away with a status. After it, clients that
	// can be told see their place in the queue.
	QueueNoticeAfter time.Duration `hcl:"queue_notice_after" default:"5s" help:"A client that waits for so long is told its place in the queue."`

	// Wait is the longest time in the queue for those that can be told, SilentWait for the others.
	Wait       time.Duration `hcl:"wait" default:"10m" help:"Longest time in the queue of clients that can be told of it."`
	SilentWait time.Duration `hcl:"silent_wait" default:"50s" help:"Longest time in the queue of clients that cannot be told of it."`

	// ShedAs is how a v2 client is turned away before anything was sent: by status 429, or with a message that git shows.
	ShedAs string `hcl:"shed_as" default:"http" enum:"http,err" help:"Clients are turned away with status 429 (http), or those of protocol v2 with a message that git shows (err)."`

	// TooLarge says what becomes of a request whose pack takes more memory than all of Total: it goes upstream, or is
	// refused by name.
	TooLarge string `hcl:"too_large" default:"forward" enum:"forward,refuse" help:"A request whose pack needs more memory than there is goes upstream (forward) or is refused (refuse)."`

	// HideRefs are kept from clients, as git's transfer.hideRefs: a name hides all below it, ! in front shows again.
	HideRefs []string `hcl:"hide_refs" default:"" help:"Refs that clients are not shown, such as refs/pull; ! in front shows some of them again."`

	// MaxBody is the largest request after its compression is undone. Too low turns away repositories with very many
	// refs; one such body is in memory at a time.
	MaxBody Bytes `hcl:"max_body" default:"auto" min:"65536" max:"268435456" help:"Largest request body, decompressed. auto: 2MiB below 1 GiB of memory, 4MiB below 4 GiB, else 16MiB."`
}

func (v *validator) git() {
	g := v.c.Git
	v.gitHosts()
	v.above("git.per_repository", int64(g.PerRepository), "git.total", int64(g.Total))
	v.above("git.memory", int64(g.Memory), "memory_limit", int64(v.c.MemoryLimit))
	v.above("git.max_body", int64(g.MaxBody), "git.memory", int64(g.Memory))
	given := func(path string) bool { return v.c.Origin(path).Kind != FromDefault } // defaults give way to what is given
	if g.SilentWait > g.Wait && given("git.silent_wait") {
		v.conflict("git.silent_wait", "is above", "git.wait", "who is told nothing must not wait for longer than who is: lower the first or raise the second")
	}
	if g.QueueNoticeAfter >= g.Wait && given("git.queue_notice_after") {
		v.conflict("git.queue_notice_after", "is not below", "git.wait", "nobody would be told anything: lower the first or raise the second")
	}
	if g.SilentWait == 0 {
		v.wrong("git.silent_wait", `would turn away every clone that meets another: set it, for example to "50s"`)
	}
}

// gitHosts finds settings of hosts that may not be asked.
func (v *validator) gitHosts() {
	g := v.c.Git
	for _, host := range slices.Sorted(maps.Keys(g.Tokens)) {
		if kind, name, _ := strings.Cut(g.Tokens[host], ":"); kind != "env" && kind != "file" || name == "" {
			// The value is not shown: somebody may have written the token itself.
			v.problems = append(v.problems, Problem{Text: "git.tokens (" + v.c.Origin("git.tokens").Where + ") must say where the token of " + host +
				" is, as env:VARIABLE or file:PATH; the token itself is never written here"})
			continue
		}
		if !NamesHost(g.Hosts, host) {
			v.conflict("git.tokens", "has the host "+host+", which is not in", "git.hosts", "add it to the second or take it out of the first")
		}
	}
	for _, host := range g.PrivateHosts {
		if !NamesHost(g.Hosts, host) {
			v.conflict("git.private_hosts", "has the host "+host+", which is not in", "git.hosts", "add it to the second or take it out of the first")
		}
	}
}

// NamesHost tells whether host is one of hosts, whatever their schemes.
func NamesHost(hosts []string, host string) bool {
	for _, h := range hosts {
		if strings.EqualFold(hostOf(h), hostOf(host)) {
			return true
		}
	}
	return false
}

func hostOf(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		url = rest
	}
	return strings.TrimSuffix(url, "/")
}
