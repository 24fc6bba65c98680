package upstream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// guard decides about the address of each connection at the moment it is made, so that a name that resolved to something
// else a moment ago gains nothing.
type guard struct {
	host    string     // for errors
	private bool       // loopback, private and link-local addresses are allowed
	written netip.Addr // allowed, because the host is written so
	buffer  int        // SO_RCVBUF, 0 leaves it
}

// control is net.Dialer's: address is what the name resolved to.
func (g *guard) control(_ context.Context, _, address string, conn syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s resolves to %q, which is no address", g.host, address)
	}
	if err := g.check(ap.Addr()); err != nil {
		return err
	}
	if g.buffer == 0 {
		return nil
	}
	err = conn.Control(func(fd uintptr) {
		// A kernel that gives less is right.
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, g.buffer)
	})
	return err
}

func (g *guard) check(a netip.Addr) error {
	a = a.WithZone("").Unmap()
	if g.written.IsValid() && a == g.written {
		return nil
	}
	if in(carriers, a) {
		// An IPv4 address in an IPv6 one: what counts is where the packets go.
		a = carried(a)
	}
	switch {
	case in(private, a) && !g.private: // ::1 is in ::/96, too
		return fmt.Errorf("%s resolves to %s, a loopback, private or link-local address: it is not reached, because whoever can change that "+
			"name could reach this network; if the host is in it, add it to git.private_hosts, or name it by its address", g.host, a)
	case in(never, a) && !in(private, a):
		return fmt.Errorf("%s resolves to %s, at which no host can be: it is not reached", g.host, a)
	}
	return nil
}

// private are the networks that are somebody's own. Sources: the IANA special-purpose registries (RFC 6890).
var private = prefixes(
	"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
	"100.64.0.0/10",       // of carriers (RFC 6598)
	"198.18.0.0/15",       // of benchmarks
	"::1/128", "fc00::/7", // unique local
	"fe80::/10",      // link-local
	"fec0::/10",      // site-local, of old
	"64:ff9b:1::/48", // translation within a network (RFC 8215)
)

// never are the addresses that are no host's.
var never = prefixes(
	"0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/96",         // unspecified, and IPv4-compatible, which is no more
	"100::/64",      // discard
	"2001::/32",     // Teredo
	"2001:db8::/32", // documentation
	"ff00::/8",      // multicast
)

// carriers have an IPv4 address in them: NAT64 (RFC 6052), which hosts behind DNS64 are reached by, and 6to4.
var carriers = prefixes("64:ff9b::/96", "2002::/16")

func carried(a netip.Addr) netip.Addr {
	b := a.As16()
	if b[0] == 0x20 { // 2002:
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return netip.AddrFrom4([4]byte(b[12:16]))
}

func prefixes(all ...string) []netip.Prefix {
	p := make([]netip.Prefix, len(all))
	for i, s := range all {
		p[i] = netip.MustParsePrefix(s)
	}
	return p
}

func in(set []netip.Prefix, a netip.Addr) bool {
	for _, p := range set {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// newTransport makes connections to one host, through its guard. It speaks HTTP/1.1: there a connection is one request, and
// so many connections are so much memory. It asks no proxy, which would resolve names behind the guard's back, and
// changes no body's encoding.
func newTransport(u *url.URL, g *guard, o Options) *http.Transport {
	dialer := &net.Dialer{Timeout: o.ConnectTimeout, ControlContext: g.control}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   o.ConnectTimeout,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		MaxConnsPerHost:       pools * o.Connections,
		MaxIdleConnsPerHost:   o.Connections,
		IdleConnTimeout:       30 * time.Second,
		Protocols:             protocols,
		// An answer's fields, not its body.
		MaxResponseHeaderBytes: 64 << 10,
	}
}
