package git

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/git/upstream"
)

// Push says what becomes of pushes.
type Push string

const (
	DenyPush    Push = "deny"    // 403
	ForwardPush Push = "forward" // upstream, with the caller's own credentials
)

// ShedAs says how a client is turned away before anything was sent.
type ShedAs string

const (
	ShedHTTP ShedAs = "http" // status 429 with Retry-After
	ShedErr  ShedAs = "err"  // for protocol v2 an ERR packet, which git shows to people
)

// TooLarge says what becomes of a request whose pack takes more memory than all generations together may have.
type TooLarge string

const (
	ForwardTooLarge TooLarge = "forward"
	RefuseTooLarge  TooLarge = "refuse"
)

// Connection is memory in bytes: live on the Go heap, and the kernel's.
type Connection struct{ Live, Kernel int64 }

// Options of a Service. Zero means the default, which follows from the memory limit where memory is concerned; Kernel, Hosts
// and Dir are required.
type Options struct {
	// Kernel owns the plan and makes the gates.
	Kernel *levee.Kernel

	// Log receives one record per request; nil writes none. Logger is for what an operator must learn; nil is slog's.
	Log    *accesslog.Log
	Logger *slog.Logger

	// Hosts may be served. Their tokens are left empty: Open asks Token for them, "" being none, so that a plan can be made
	// without them. A nil Token knows none.
	Hosts []upstream.Host
	Token func(host string) (string, error)

	// Dir holds mirrors and spooled packs. MaxSize bounds the mirrors' bytes, SpoolSize those of packs; 0 leaves both to
	// Open, which looks at the disk.
	Dir                string
	MaxSize, SpoolSize int64

	// Memory is for all lines of the plan that are git's (git.memory; 40 % of the limit). Total is the number of generations
	// of the least cost at once (git.total; 8, or fewer if memory has no room), PerRepository what one repository may have
	// of them (2, or Total if that is less).
	Memory               int64
	Total, PerRepository int

	// Connection is what one connection of the HTTP listener costs. As many as there may be requests are paid for by Memory,
	// in the listener's own lines.
	Connection Connection

	// MaxStaleness is how old refs may be that are shown (0: upstream is asked every time), Grace how long they are shown
	// while upstream cannot be asked (10 min).
	MaxStaleness, Grace time.Duration

	// QueueNoticeAfter is how long a waiter is silent (5 s), Wait the longest time in the queue of one that can be told its
	// place (10 min), SilentWait of one that cannot (50 s). Stall cuts a peer that moves nothing for so long (60 s).
	QueueNoticeAfter, Wait, SilentWait, Stall time.Duration

	Push     Push     // "" is DenyPush
	ShedAs   ShedAs   // "" is ShedHTTP
	TooLarge TooLarge // "" is ForwardTooLarge

	// HideRefs are kept from clients; as git's transfer.hideRefs.
	HideRefs []string

	// MaxBody is the largest request body after its encoding is undone (git.max_body; 2 MiB below 1 GiB, 4 MiB below 4 GiB, else
	// 16 MiB).
	MaxBody int64
}

// ParseHost makes a Host of what an operator writes: a name, which is https, or a URL.
func ParseHost(text string) upstream.Host {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	return upstream.Host{URL: strings.TrimSuffix(text, "/")}
}

// validate finds settings that contradict each other, given or derived. Each error names both.
func (o *Options) validate() error {
	var errs []error
	bad := func(wrong bool, format string, a ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	bad(o.Kernel == nil || len(o.Hosts) == 0 || o.Dir == "", "git: Options.Kernel, Options.Hosts and Options.Dir are required")
	bad(o.PerRepository > o.Total && o.Total > 0, "git.per_repository (%d) is above git.total (%d): lower the first or raise the second", o.PerRepository, o.Total)
	bad(o.SilentWait > o.Wait && o.Wait > 0, "git.silent_wait (%v) is above git.wait (%v): who is told nothing must not wait for longer than who is; lower the first or raise the second", o.SilentWait, o.Wait)
	for _, n := range []struct {
		name string
		v    int64
	}{
		{"memory", o.Memory}, {"total", int64(o.Total)}, {"per_repository", int64(o.PerRepository)}, {"max_size", o.MaxSize},
		{"spool_size", o.SpoolSize}, {"max_staleness", int64(o.MaxStaleness)}, {"grace", int64(o.Grace)},
		{"queue_notice_after", int64(o.QueueNoticeAfter)}, {"wait", int64(o.Wait)}, {"silent_wait", int64(o.SilentWait)},
		{"max_body", o.MaxBody},
	} {
		bad(n.v < 0, "git.%s (%d) is negative: leave it out for the default", n.name, n.v)
	}
	for _, r := range o.HideRefs {
		bad(strings.Trim(r, "!/") == "", "git.hide_refs has %q, which names no ref", r)
	}
	return errors.Join(errs...)
}
