package storm

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/leveehq/levee/internal/bytesize"
	"google.golang.org/grpc/codes"
)

// Size is a number of bytes; as a flag it is written like 64KiB, 2MiB or 4096.
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := bytesize.Parse(string(text))
	*s = Size(n)
	return err
}

// BazelOptions of one run against a Bazel remote cache. The tags make it a kong command; DefaultBazelOptions gives
// what the tags give.
type BazelOptions struct {
	// Target is the gRPC listener. Only loopback addresses are accepted.
	Target string `help:"gRPC address of the server: a loopback address and port." default:"127.0.0.1:9092" placeholder:"HOST:PORT"`

	// Admin is the admin listener, from which the plan, the accounts, the resident set and the sheds are read. Empty:
	// none of these is measured, and the promises about memory are not checked.
	Admin string `help:"Admin address of the server, to hold its memory against its plan; empty to do without." default:"127.0.0.1:9090" placeholder:"HOST:PORT"`

	// HTTP is the listener of the HTTP cache. Only scenario fill uses it.
	HTTP string `help:"HTTP address of the cache (scenario fill)." name:"http" default:"127.0.0.1:8080" placeholder:"HOST:PORT"`

	// Only narrows scenario fill to the adversaries whose name contains it.
	Only string `help:"Part of the names of the adversaries to run (scenario fill)." placeholder:"TEXT"`

	// PID is the server's process; with it the resident set is read from /proc, which sees peaks that polling misses.
	PID int `help:"Process id of the server, to read its peak memory from /proc as well." placeholder:"PID"`

	// Scenario names one scenario, or "all" (the honest ones) or "hostile" (the hostile ones), in order.
	Scenario string `help:"What to offer: ${enum}." default:"writers" enum:"${storm_scenarios}"`

	// Instance is the REAPI instance name.
	Instance string `help:"REAPI instance name." placeholder:"NAME"`

	// Writers write at the same time, spread over Connections. Too few never fill a gate; with too many the
	// generator's own memory matters (about 40 KiB each).
	Writers     int `help:"Concurrent writers." default:"200"`
	Connections int `help:"Connections that the streams are spread over." default:"20"`

	// Addresses are 127.0.0.2 and following, which Linux answers for; the connections of scenario writers come from them in
	// turn. A server that is fair between addresses keeps part of each limit from a single one: what all its limits come to
	// takes several. 1 is the system's choice.
	Addresses int `help:"Source addresses that the connections come from, 127.0.0.2 and following (scenario writers)." default:"1"`

	// BlobSize and MessageSize of writes. Bazel sends messages of 16 KiB.
	BlobSize    Size `help:"Size of each blob written." default:"2MiB"`
	MessageSize Size `help:"Bytes of a blob in one message; Bazel's are 16KiB." default:"16KiB"`

	// BlobsPerWriter ends a run by count, Duration by time, whichever comes first.
	BlobsPerWriter int           `help:"Blobs that each writer writes before it ends." default:"4"`
	Duration       time.Duration `help:"Longest time that one scenario offers load." default:"60s"`

	// Stalled streams send StallAfter bytes of a blob and then nothing for StallFor; the scenario then finishes them.
	Stalled    int           `help:"Streams that stop in the middle of a blob." default:"200"`
	StallAfter Size          `help:"Bytes that a stalled stream sends before it stops." default:"64KiB"`
	StallFor   time.Duration `help:"How long a stalled stream pauses." default:"5s"`

	// Readers read blobs of ReadSize at ReadRate bytes a second each.
	Readers  int  `help:"Slow readers." default:"200"`
	ReadSize Size `help:"Size of the blob that slow readers read." default:"16MiB"`
	ReadRate Size `help:"Bytes a second that each slow reader takes." default:"1MiB"`

	// Idle connections send HTTP/2's preface and nothing else.
	Idle int `help:"Connections that never make a call (scenario idle)." default:"5000"`

	// Actions are what the scenario "tail" executes, Jobs at a time, each taking ActionTime.
	Actions    int           `help:"Actions of the emulated build (scenario tail)." default:"200"`
	Jobs       int           `help:"Actions executed at once (scenario tail)." default:"16"`
	ActionTime time.Duration `help:"Time that one action takes (scenario tail)." default:"50ms"`

	// Retry emulates Bazel: retriable codes are tried again up to Retries times, with QueryWriteStatus in between.
	Retry       bool          `help:"Retry as Bazel does." default:"true" negatable:""`
	Retries     int           `help:"Retries of one call before it is given up (Bazel: --remote_retries)." default:"5"`
	CallTimeout time.Duration `help:"Deadline of each call (Bazel: --remote_timeout)." default:"60s"`

	// Verify reads back every blob whose write was acknowledged and compares it.
	Verify bool `help:"Read back each acknowledged blob and compare."`

	// WriteShed is the code that a shed write must carry; any other is a broken promise.
	WriteShed string `help:"Code that a shed write must carry." default:"FAILED_PRECONDITION" placeholder:"CODE"`

	// MaxRSS of the server; 0 = its plan's limit.
	MaxRSS Size `help:"Resident set that the server may not pass; the memory limit of its plan if not given." name:"max-rss" placeholder:"SIZE"`

	// Seed makes two runs write the same blobs; 0 = a new one each time.
	Seed uint64 `help:"Seed of the blobs; another one each time if not given." placeholder:"N"`
}

// Vars are the kong variables that the tags of BazelOptions refer to.
func Vars() kong.Vars {
	names := []string{"all", "hostile"}
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return kong.Vars{"storm_scenarios": strings.Join(names, ",")}
}

// DefaultBazelOptions are the options of a command line without flags, but for Admin, which is empty: a caller that
// starts its own server knows where that is.
func DefaultBazelOptions() BazelOptions {
	var o BazelOptions
	if err := kong.ApplyDefaults(&o, Vars()); err != nil {
		panic(fmt.Sprintf("storm: the default tags do not parse: %v", err)) // a test holds it
	}
	o.Admin = ""
	return o
}

// Hard bounds: whatever is asked for, a run ends and the generator's memory stays small.
const (
	maxStreams     = 20_000
	maxConnections = 2_000
	maxAddresses   = 250 // the last is 127.0.0.251
	maxDuration    = time.Hour
	maxBlob        = 4 << 30
	maxMessage     = 4 << 20
)

// UsageError says that the options are wrong; the exit status is 2.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func (o *BazelOptions) validate() error {
	var errs []error
	inRange := func(name string, v, low, high int64) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("%s is %d: it must be from %d to %d", name, v, low, high))
		}
	}
	inRange("writers", int64(o.Writers), 1, maxStreams)
	inRange("connections", int64(o.Connections), 1, maxConnections)
	inRange("addresses", int64(o.Addresses), 1, maxAddresses)
	if host, _, err := net.SplitHostPort(o.Target); err == nil && o.Addresses > 1 && strings.Contains(host, ":") {
		errs = append(errs, fmt.Errorf("addresses is %d and target is %s: source addresses are 127.0.0.2 and following, so give an IPv4 target like 127.0.0.1", o.Addresses, o.Target))
	}
	inRange("blob-size", int64(o.BlobSize), 8, maxBlob)
	inRange("message-size", int64(o.MessageSize), 1, maxMessage)
	inRange("blobs-per-writer", int64(o.BlobsPerWriter), 1, 1_000_000)
	inRange("stalled", int64(o.Stalled), 1, maxStreams)
	inRange("stall-after", int64(o.StallAfter), 1, maxBlob)
	inRange("readers", int64(o.Readers), 1, maxStreams)
	inRange("read-size", int64(o.ReadSize), 8, maxBlob)
	inRange("read-rate", int64(o.ReadRate), 1, maxBlob)
	inRange("idle", int64(o.Idle), 1, maxStreams)
	inRange("actions", int64(o.Actions), 1, 100_000)
	inRange("jobs", int64(o.Jobs), 1, maxStreams)
	inRange("retries", int64(o.Retries), 0, 100)
	inRange("pid", int64(o.PID), 0, 1<<31)
	for name, d := range map[string]time.Duration{"duration": o.Duration, "stall-for": o.StallFor, "action-time": o.ActionTime, "call-timeout": o.CallTimeout} {
		if d <= 0 || d > maxDuration {
			errs = append(errs, fmt.Errorf("%s is %s: it must be above 0 and at most %s", name, d, maxDuration))
		}
	}
	if _, err := parseCode(o.WriteShed); err != nil {
		errs = append(errs, fmt.Errorf("write-shed: %w", err))
	}
	errs = append(errs, loopback("target", o.Target), loopback("http", o.HTTP))
	if o.Admin != "" {
		errs = append(errs, loopback("admin", o.Admin))
	}
	return errors.Join(errs...)
}

// loopback refuses whatever is not certainly this machine. A name is refused, "localhost" excepted: what it resolves
// to could change between this check and the dial.
func loopback(name, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s %q is not HOST:PORT", name, address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%s %q has no port number", name, address)
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%s %q is not a loopback address: storm overloads what it talks to, so it stays on this machine; run it beside the server and give 127.0.0.1 or [::1]", name, address)
	}
	return nil
}

func parseCode(name string) (codes.Code, error) {
	var c codes.Code
	if err := c.UnmarshalJSON([]byte(strconv.Quote(name))); err != nil {
		return 0, fmt.Errorf("%q is not a gRPC code: write it like FAILED_PRECONDITION", name)
	}
	return c, nil
}
