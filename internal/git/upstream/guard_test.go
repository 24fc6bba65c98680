package upstream

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestAnAddressIsReachedOnlyIfItIsPublicOrAllowed(t *testing.T) {
	const public, own, nowhere = "public", "own", "nowhere"
	for address, what := range map[string]string{
		"140.82.121.4": public, "1.1.1.1": public, "100.63.255.255": public, "100.128.0.1": public, "172.32.0.1": public, "2606:4700::1": public,
		"127.0.0.1": own, "127.8.9.10": own, "10.1.2.3": own, "172.16.0.1": own, "172.31.255.255": own, "192.168.1.1": own, "169.254.169.254": own,
		"100.64.0.1": own, "100.127.255.255": own, "198.18.0.1": own, "::1": own, "fc00::1": own, "fd12::1": own, "fe80::1": own, "fe80::1%eth0": own,
		"fec0::1": own, "64:ff9b:1::7f00:1": own,
		"::ffff:127.0.0.1": own, "::ffff:10.0.0.1": own, "::ffff:140.82.121.4": public,
		"64:ff9b::7f00:1": own, "64:ff9b::a9fe:a9fe": own, "64:ff9b::8c52:7904": public, "2002:7f00:1::": own, "2002:8c52:7904::1": public,
		"0.0.0.0": nowhere, "0.1.2.3": nowhere, "224.0.0.1": nowhere, "239.255.255.255": nowhere, "240.0.0.1": nowhere, "255.255.255.255": nowhere,
		"192.0.0.1": nowhere, "192.0.2.1": nowhere, "::": nowhere, "::7f00:1": nowhere, "ff02::1": nowhere, "2001:db8::1": nowhere, "2001::1": nowhere,
		"100::1": nowhere, "::ffff:0.0.0.0": nowhere, "64:ff9b::": nowhere, "64:ff9b::e000:1": nowhere,
	} {
		a := netip.MustParseAddr(address)
		if err := (&guard{host: "h"}).check(a); (err == nil) != (what == public) {
			t.Errorf("%s, %s: %v", address, what, err)
		}
		if err := (&guard{host: "h", private: true}).check(a); (err == nil) != (what != nowhere) {
			t.Errorf("%s, %s, with private addresses allowed: %v", address, what, err)
		}
	}
}

func TestAHostWrittenAsAnAddressMayHaveThatAddressAndNoOther(t *testing.T) {
	g := &guard{host: "h", written: netip.MustParseAddr("10.0.0.1")}
	for address, ok := range map[string]bool{"10.0.0.1": true, "::ffff:10.0.0.1": true, "10.0.0.2": false, "127.0.0.1": false} {
		if err := g.check(netip.MustParseAddr(address)); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestANameIsJudgedByTheAddressItIsConnectedTo(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", advertType)
		_, _ = w.Write([]byte(v2Advert))
	})
	named := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	repo := Repo{Host: strings.TrimPrefix(named, "http://"), Path: "r"}

	c := newClient(t, Options{}, named)
	f := wantKind(t, c.Authorize(t.Context(), repo, Credentials{}), Unavailable)
	if !strings.Contains(f.Error(), "loopback, private or link-local") {
		t.Errorf("the error does not say why: %v", f)
	}
	c = newClient(t, Options{ReceiveBuffer: 64 << 10, Hosts: []Host{{URL: named, AllowPrivate: true}}})
	if err := c.Authorize(t.Context(), repo, Credentials{}); err != nil {
		t.Error(err)
	}
	c = newClient(t, Options{}, s.URL)
	if err := c.Authorize(t.Context(), repoAt(s, "r"), Credentials{}); err != nil {
		t.Error(err)
	}
}
