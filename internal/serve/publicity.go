package serve

import (
	"net"
	"strings"
)

// isPublic tells whether an address can be reached from another machine, as far as its text says. A name other than
// localhost counts as public: what it resolves to may change after we looked.
func isPublic(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return true
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip != nil {
		return !ip.IsLoopback()
	}
	return !strings.EqualFold(host, "localhost")
}

// publicity warns of each listener that others can reach, because none has authentication.
func (a *App) publicity() []string {
	l := a.cfg.Listen
	http := "anyone who reaches it can read and replace what builds use"
	if a.graphql != nil {
		http += ", and ask GraphQL as the anonymous role, if there is one"
	}
	var out []string
	if where := trusting(a.cfg); where != "" && isPublic(l.HTTP) { // Build has seen that this is meant
		out = append(out, where+" is set, and "+a.cfg.Describe("listen.http")+" is reachable from other machines: whoever gets past the proxy in front can be anybody")
	}
	for _, p := range []struct{ path, addr, danger string }{
		{"listen.grpc", l.GRPC, "anyone who reaches it can read and replace what builds use"},
		{"listen.http", l.HTTP, http},
		{"listen.admin", l.Admin, "anyone who reaches it can read clients' addresses and take profiles"},
	} {
		if isPublic(p.addr) {
			out = append(out, a.cfg.Describe(p.path)+" is reachable from other machines without authentication: "+p.danger+
				"; put it on 127.0.0.1, or behind a firewall or a proxy that authenticates")
		}
	}
	return out
}
