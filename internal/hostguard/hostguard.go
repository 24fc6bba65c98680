// Package hostguard keeps web pages away from an HTTP listener that has no authentication.
//
// It refuses to authenticate anybody, and does not help against a client that may write its own headers. It stands
// against the browser of a developer whose machine can reach the listener: a page that points its own name at our
// address (DNS rebinding) shows up with a foreign Host, and a page that posts across origins with the headers that
// browsers add. Neither may put an action result into a cache that builds trust.
package hostguard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Options of a Guard. The zero value accepts loopback only.
type Options struct {
	// Hosts are accepted besides localhost and loopback addresses: names and addresses without port, "*.example.com" for
	// all names below that one, address ranges such as "10.0.0.0/8" (a name that rebinds is never an address, so ranges
	// are safe), or "*" for every Host, which gives up the protection.
	Hosts []string

	// Origins are web sites whose pages may send requests: "https://app.example.com".
	Origins []string

	// Setting is how the operator writes the list, for the text of refusals: "listen.hosts".
	Setting string
}

// Guard decides about requests. It is immutable.
type Guard struct {
	any     bool
	names   map[string]bool
	below   []string // ".example.com"
	ranges  []netip.Prefix
	setting string
	origin  *http.CrossOriginProtection
}

// New returns a Guard, or an error that names the host it does not understand.
func New(o Options) (*Guard, error) {
	g := &Guard{names: map[string]bool{"localhost": true}, setting: o.Setting, origin: http.NewCrossOriginProtection()}
	for _, h := range o.Hosts {
		if err := g.add(h); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Setting, err)
		}
	}
	for _, o := range o.Origins {
		if err := g.origin.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("%q is no origin: write scheme, host and a port that is not the scheme's own, as https://app.example.com", o)
		}
	}
	return g, nil
}

func (g *Guard) add(host string) error {
	if host == "*" {
		g.any = true
		return nil
	}
	if p, err := netip.ParsePrefix(host); err == nil {
		g.ranges = append(g.ranges, p.Masked())
		return nil
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		g.ranges = append(g.ranges, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
		return nil
	}
	name, wild := strings.CutPrefix(normal(host), "*.")
	if name == "" || strings.ContainsAny(name, ":/*@ \t") {
		return fmt.Errorf("%q is no host: write a name or an address without scheme and port, *.example.com for all names below it, a range such as 10.0.0.0/8, or *", host)
	}
	if wild {
		g.below = append(g.below, "."+name)
		return nil
	}
	g.names[name] = true
	return nil
}

// Accepts tells whether a Host header, with or without port, is one of ours.
func (g *Guard) Accepts(host string) bool {
	if g.any {
		return true
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		a = a.Unmap().WithZone("")
		if a.IsLoopback() {
			return true
		}
		for _, p := range g.ranges {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	name := normal(host)
	return g.names[name] || slices.ContainsFunc(g.below, func(suffix string) bool {
		return len(name) > len(suffix) && strings.HasSuffix(name, suffix)
	})
}

// normal is a name as DNS compares it.
func normal(name string) string {
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

// Check returns an error with the remedy for a request that a web page may have caused.
func (g *Guard) Check(r *http.Request) error {
	if !g.Accepts(r.Host) {
		return fmt.Errorf("this server has no authentication, so it answers only to loopback names and to the hosts that %s lists, and this request is for host %q; "+
			"if clients should use that name, add it to %s", g.setting, r.Host, g.setting)
	}
	if err := g.origin.Check(r); err != nil {
		return fmt.Errorf("this server has no authentication, so it takes no %s from a web page of another site (Origin %q, Sec-Fetch-Site %q)",
			r.Method, r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site"))
	}
	return nil
}

// Wrap answers 403 for what Check turns down and hands the rest to next.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
