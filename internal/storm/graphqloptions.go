package storm

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// GraphQLOptions are what all GraphQL scenarios share. The tags make them flags of kong commands.
type GraphQLOptions struct {
	// Target is the endpoint. Scenarios of many tenants ask TARGET/TENANT.
	Target string `help:"Endpoint: http://127.0.0.1:8080/graphql; a tenant's is TARGET/TENANT." default:"http://127.0.0.1:8080/graphql" placeholder:"URL"`

	// Remote lifts the restriction to loopback. Whoever sets it answers for what the load does to others.
	Remote bool `help:"Allow a target that is not on this machine."`

	Admin string `help:"Admin address of the server, for its counters and its plan; empty to do without." default:"127.0.0.1:9090" placeholder:"HOST:PORT"`
	PID   int    `name:"server-pid" help:"Process id of the server, to measure its resident set." placeholder:"PID"`

	// DatabaseURL is asked about connections of Login alone, never for rows.
	DatabaseURL    string `help:"PostgreSQL to count the server's connections in; empty to do without." placeholder:"URL"`
	Login          string `help:"Role that the server logs in as, whose connections are counted." default:"levee_app"`
	MaxConnections int    `help:"Connections of that role that may never be passed; 0 does not judge." placeholder:"N"`

	// Header goes with every request; the role to run as is said this way, or by a token.
	Header    []string `help:"Header of every request, as NAME: VALUE; may be repeated." placeholder:"HEADER" sep:"none"`
	JWTSecret string   `name:"jwt-secret" help:"Sign an HS256 token with SECRET and send it with every request." placeholder:"SECRET"`
	JWTClaims string   `name:"jwt-claims" help:"Claims of that token, as a JSON object; exp is added if it has none." default:"{}" placeholder:"JSON"`

	Tenants int           `help:"Tenants to draw from: those that provision has made first." default:"1000"`
	Rows    int           `help:"Rows of each table, as provisioned: as many must be in every answer." default:"3"`
	Timeout time.Duration `help:"Time that one request may take." default:"190s"`

	// Duration bounds the load, Requests its count; what comes first ends it.
	Duration time.Duration `help:"Longest time that load is offered." default:"2m"`
	Requests int           `help:"Most requests that are sent." default:"1000000"`

	Seed   uint64 `help:"Seed of what is drawn by lot." default:"1"`
	MaxRSS Size   `help:"Resident set that the server may not pass; the memory limit of its plan if not given." name:"max-rss" placeholder:"SIZE"`
}

const (
	maxTenants         = 100_000
	maxGraphQLClients  = 2_000
	maxGraphQLRequests = 100_000_000
	maxRate            = 20_000
)

func (o *GraphQLOptions) validate() error {
	var errs []error
	for _, r := range []numberRange{
		{"tenants", o.Tenants, 1, maxTenants},
		{"rows", o.Rows, 1, maxRows},
		{"requests", o.Requests, 1, maxGraphQLRequests},
		{"server-pid", o.PID, 0, 1 << 31},
		{"max-connections", o.MaxConnections, 0, 100_000},
	} {
		errs = append(errs, r.check())
	}
	errs = append(errs, checkDuration("duration", o.Duration), checkDuration("timeout", o.Timeout))
	errs = append(errs, graphqlURL("target", &o.Target, o.Remote))
	if o.Admin != "" && !o.Remote {
		errs = append(errs, loopback("admin", o.Admin))
	}
	if o.MaxConnections > 0 && o.DatabaseURL == "" {
		errs = append(errs, errors.New("max-connections needs a --database-url to count them in"))
	}
	if o.DatabaseURL != "" {
		errs = append(errs, databaseOnLoopback(o.DatabaseURL, o.Remote))
	}
	_, err := o.header()
	return errors.Join(append(errs, err)...)
}

// numberRange is an option and what it may be.
type numberRange struct {
	name         string
	v, low, high int
}

func (r numberRange) check() error {
	if r.v < r.low || r.v > r.high {
		return fmt.Errorf("%s is %d: it must be from %d to %d", r.name, r.v, r.low, r.high)
	}
	return nil
}

func checkDuration(name string, d time.Duration) error {
	if d <= 0 || d > maxDuration {
		return fmt.Errorf("%s is %s: it must be above 0 and at most %s", name, d, maxDuration)
	}
	return nil
}

// graphqlURL refuses whatever is not certainly an endpoint on this machine.
func graphqlURL(name string, text *string, remote bool) error {
	u, err := url.Parse(*text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") == "" || u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("%s %q is not http://HOST:PORT/PATH", name, *text)
	}
	*text = strings.TrimRight(*text, "/")
	if !remote && !isLoopbackHost(u.Hostname()) {
		return fmt.Errorf("%s %q is not on a loopback address: storm overloads what it talks to; run it beside the server and give 127.0.0.1, or allow it by --remote", name, *text)
	}
	return nil
}

// header is what every request carries.
func (o *GraphQLOptions) header() (http.Header, error) {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/graphql-response+json, application/json;q=0.9"},
	}
	for _, line := range o.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("header %q is not NAME: VALUE", line)
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if o.JWTSecret == "" {
		return h, nil
	}
	token, err := signHS256(o.JWTSecret, o.JWTClaims, time.Now().Add(maxDuration+time.Hour))
	if err != nil {
		return nil, err
	}
	h.Set("Authorization", "Bearer "+token)
	return h, nil
}

// isLoopbackHost takes names for strangers, "localhost" excepted, as loopback does. A path is a socket on this machine.
func isLoopbackHost(host string) bool {
	if host == "localhost" || strings.HasPrefix(host, "/") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
