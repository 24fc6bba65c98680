package storm

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// GitOptions of one run against a Git cache. The tags make it a kong command; DefaultGitOptions gives what the tags give.
type GitOptions struct {
	// Make makes a repository instead of load: the same one for the same Objects, Size and Seed.
	Make    string `help:"Make a bare repository in DIR, which must be empty or absent, and end." placeholder:"DIR"`
	Objects int    `help:"Objects of the repository to make." default:"90000"`
	Size    Size   `help:"About the size of the pack of the repository to make." default:"25MiB"`
	Seed    uint64 `help:"Seed of the repository to make, and of what is drawn by lot." default:"1"`

	// Serve is an upstream to try things with, and what scenario compare compares with.
	Serve  string `help:"Serve the repositories below DIR on loopback by plain git http-backend until a signal, instead of offering load." placeholder:"DIR"`
	Listen string `help:"Address that --serve listens on." default:"127.0.0.1:0" placeholder:"HOST:PORT"`

	// Target is repeated for several repositories. Only loopback addresses are accepted.
	Target []string `help:"Repository to load: http://127.0.0.1:8080/git/HOST/PATH; may be repeated." placeholder:"URL"`

	// Upstream is, in the same order, where the targets come from. What both advertise when the load has ended must be equal.
	Upstream []string `help:"Upstream of each target, in the same order: what they advertise is compared, line by line." placeholder:"URL"`

	// Mirror is what scenario compare serves by git http-backend: the directory of each target's mirror, or of its upstream.
	Mirror []string `help:"Bare repository of each target on disk, in the same order (scenario compare)." placeholder:"DIR" type:"path"`

	Admin string `help:"Admin address of the server, to hold its memory against its plan; empty to do without." default:"127.0.0.1:9090" placeholder:"HOST:PORT"`

	// PID is the server's process. With it the memory and the processor time of the server and of all its children are measured.
	PID int `help:"Process id of the server, to measure it and its children." placeholder:"PID"`

	// Scenario names one scenario, or "all": those that need nothing but a target, in order.
	Scenario string `help:"What to offer: ${enum}." default:"clones" enum:"all,clones,coalesce,distinct,slow,leave,quick,compare"`

	// Clients at once. Real Git clients unpack what they get: they take processors from the server, though at nice 19.
	Clients int `help:"Clients at once." default:"49"`

	// Duration bounds each scenario: no client begins after it, and those under way have as long again.
	Duration time.Duration `help:"Longest time that one scenario offers load." default:"5m"`

	// Rate of slow readers; clients that leave read at five times that.
	Rate Size `help:"Bytes a second that a slow reader takes (scenario slow)." default:"10000"`

	// Slow is how long slow readers go on from their first byte, and Leave how long those stay that leave, served or not.
	Slow  time.Duration `help:"How long slow readers read, from their first byte on (scenario slow)." default:"20s"`
	Leave time.Duration `help:"How long after its request a client leaves (scenario leave)." default:"1s"`

	// Beside asks, once a second and beside every other scenario, for what must stay quick. Without it scenario clones asks for
	// nothing but clones, so that it can be a server's first load.
	Beside bool `help:"Beside the load, ask once a second for refs, an increment and two blobs." default:"true" negatable:""`

	// QuickLimit of the 99th percentile of those. 0 reports without judging.
	QuickLimit time.Duration `help:"What ls-remote, an incremental and a lazy fetch may take at the 99th percentile; 0 does not judge." default:"1s"`

	// Fsck of each clone, after the last has ended.
	Fsck string `help:"How each clone is checked: ${enum}." default:"full" enum:"full,connectivity,none"`

	// Dir takes the clones. They need as many times the repositories' size as there are clients.
	Dir string `help:"Directory for the clones, which are removed at the end; the system's directory for temporary files if not given." placeholder:"DIR" type:"path"`

	// Warm is what scenario compare has each server send again and again, to measure the cost of a gigabyte.
	Warm Size `help:"Bytes of warm packs sent by each server (scenario compare)." default:"1GiB"`

	// MaxRSS of the server itself, its children left out; 0 = its plan's limit.
	MaxRSS Size `help:"Resident set that the server may not pass; the memory limit of its plan if not given." name:"max-rss" placeholder:"SIZE"`
}

// DefaultGitOptions are the options of a command line without flags, but for Admin, which is empty: a caller that starts its
// own server knows where that is.
func DefaultGitOptions() GitOptions {
	var o GitOptions
	if err := kong.ApplyDefaults(&o); err != nil {
		panic(fmt.Sprintf("storm: the default tags do not parse: %v", err)) // a test holds it
	}
	o.Admin = ""
	return o
}

const (
	maxGitClients = 1000
	minObjects    = 100
	maxObjects    = 10_000_000
)

func (o *GitOptions) validate() error {
	var errs []error
	inRange := func(name string, v, low, high int64) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("%s is %d: it must be from %d to %d", name, v, low, high))
		}
	}
	inRange("clients", int64(o.Clients), 1, maxGitClients)
	inRange("rate", int64(o.Rate), 100, maxBlob)
	inRange("warm", int64(o.Warm), 1, 64<<30)
	inRange("pid", int64(o.PID), 0, 1<<31)
	for name, d := range map[string]time.Duration{"duration": o.Duration, "slow": o.Slow, "leave": o.Leave} {
		if d <= 0 || d > maxDuration {
			errs = append(errs, fmt.Errorf("%s is %s: it must be above 0 and at most %s", name, d, maxDuration))
		}
	}
	if len(o.Target) == 0 {
		errs = append(errs, errors.New("there is no target: give one or more --target http://127.0.0.1:8080/git/HOST/PATH"))
	}
	for i := range o.Target {
		errs = append(errs, loopbackURL("target", &o.Target[i]))
	}
	for i := range o.Upstream {
		errs = append(errs, loopbackURL("upstream", &o.Upstream[i]))
	}
	if o.Admin != "" {
		errs = append(errs, loopback("admin", o.Admin))
	}
	return errors.Join(append(errs, o.validateLists()...)...)
}

func (o *GitOptions) validateLists() (errs []error) {
	if n := len(o.Upstream); n > 0 && n != len(o.Target) {
		errs = append(errs, fmt.Errorf("there are %d upstreams for %d targets: give one for each, in the same order, or none", n, len(o.Target)))
	}
	if o.Scenario != "compare" {
		return errs
	}
	if len(o.Mirror) != len(o.Target) {
		errs = append(errs, fmt.Errorf("there are %d mirrors for %d targets: scenario compare needs one for each, in the same order", len(o.Mirror), len(o.Target)))
	}
	for _, dir := range o.Mirror {
		if _, err := os.Stat(filepath.Join(dir, "objects")); err != nil {
			errs = append(errs, fmt.Errorf("mirror %s is no bare repository: %w", dir, err))
		} else if bitmaps, _ := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.bitmap")); len(bitmaps) == 0 { // the pattern is right
			errs = append(errs, fmt.Errorf("mirror %s has no bitmap to compare with: wait until it is ready, or make one by git repack -a -d -b", dir))
		}
	}
	if o.PID == 0 {
		errs = append(errs, errors.New("scenario compare measures the server: give its --pid"))
	}
	return errs
}

// loopbackURL refuses whatever is not certainly a repository on this machine.
func loopbackURL(name string, text *string) error {
	u, err := url.Parse(*text)
	if err != nil || u.Scheme != "http" || strings.Trim(u.Path, "/") == "" || u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("%s %q is not http://HOST:PORT/PATH", name, *text)
	}
	*text = strings.TrimRight(*text, "/")
	return loopback(name, u.Host)
}
