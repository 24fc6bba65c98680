package git

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

const (
	uploadPackAdvertisement = "application/x-git-upload-pack-advertisement"
	uploadPackResult        = "application/x-git-upload-pack-result"
	uploadPackRequest       = "application/x-git-upload-pack-request"
)

// agent is how we introduce ourselves; no space may be in it.
const agent = "agent=levee"

func (c *call) infoRefs() error {
	c.method = "info-refs"
	if err := c.allow(http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	switch service := c.r.URL.Query().Get("service"); service {
	case "git-upload-pack":
	case "git-receive-pack":
		return c.push(http.MethodGet, http.MethodHead)
	case "":
		return c.dumb()
	default:
		return &httpError{http.StatusForbidden, fmt.Sprintf("%q is no service of a Git server", clip(service, 80))}
	}
	if err := c.authorize(); err != nil {
		return c.orForward(err)
	}
	if c.version == 2 {
		return c.capabilities()
	}
	v, err := c.refs()
	if err != nil {
		return c.orForward(err)
	}
	b := spill{call: c, contentType: uploadPackAdvertisement}
	advertise(&b, c.version, v.Refs, c.hidden)
	return b.end()
}

// dumb is a client that can only fetch files. None of them is as it is upstream, and there is no path to the others: a list of refs
// alone would have it miss the objects, and not say why.
func (c *call) dumb() error {
	return &httpError{http.StatusForbidden, "only Git's smart HTTP protocol is spoken here: ask for info/refs?service=git-upload-pack, as git does since version 1.6.6"}
}

// push is a request of git-receive-pack.
func (c *call) push(methods ...string) error {
	if err := c.allow(methods...); err != nil {
		return err
	}
	if c.opt.Push == ForwardPush {
		return c.forward()
	}
	url := c.hostURL() + "/"
	return &httpError{http.StatusForbidden, fmt.Sprintf(
		"pushes are not taken here (git.push = \"deny\"); to have them go to %s itself: git config --global url.%q.pushInsteadOf %s", c.repo.Host, url, url)}
}

// capabilities is the advertisement of protocol v2. It has no refs in it, so nothing is asked of upstream for it but whether
// the caller may read; only of a repository never seen its object format must be learnt.
func (c *call) capabilities() error {
	format, ok := c.known.format(c.repo)
	if !ok {
		v, err := c.refs()
		if err != nil {
			return c.orForward(err)
		}
		format = v.Refs.ObjectFormat
	}
	b := spill{call: c, contentType: uploadPackAdvertisement}
	w := pkt.NewWriter(&b)
	w.Line("version 2")
	w.Line(agent)
	w.Line("ls-refs=unborn")
	w.Line("fetch=shallow wait-for-done filter")
	w.Line("server-option")
	w.Line("object-format=", format)
	w.Flush()
	return b.end()
}

// capabilitiesV0 are those of git upload-pack over HTTP, where every object that is reachable may be asked for.
const capabilitiesV0 = "multi_ack thin-pack side-band side-band-64k ofs-delta shallow deepen-since deepen-not deepen-relative no-progress " +
	"include-tag multi_ack_detailed allow-tip-sha1-in-want allow-reachable-sha1-in-want no-done"

// advertise writes the refs as protocols v0 and v1 do (gitprotocol-http(5), "Smart Clients"; gitprotocol-pack(5), "Reference
// Discovery").
func advertise(b io.Writer, version int, refs *upstream.Refs, h hidden) {
	w := pkt.NewWriter(b)
	w.Line("# service=git-upload-pack")
	w.Flush()
	if version == 1 {
		w.Line("version 1")
	}
	caps := capabilitiesV0 + symrefV0(refs, h) + " filter object-format=" + refs.ObjectFormat + " " + agent
	first := "\x00" + caps
	for _, r := range refs.List {
		if r.OID == "" || h.hides(r.Name) {
			continue
		}
		w.Line(r.OID, " ", r.Name, first)
		first = ""
		if r.Peeled != "" {
			w.Line(r.Peeled, " ", r.Name, "^{}")
		}
	}
	if first != "" { // an empty repository still has to say what it can
		w.Line(zeroID(refs.ObjectFormat), " capabilities^{}", first)
	}
	w.Flush()
}

// symrefV0 tells where HEAD points to, and of no other symbolic ref: git's own server does not either, and a git between 2.28
// and 2.40 that finds a capability twice never stops reading it, until it is out of memory.
func symrefV0(refs *upstream.Refs, h hidden) string {
	for _, r := range refs.List {
		if r.Name == "HEAD" && r.Symref != "" && r.OID != "" && !h.hides(r.Name) {
			return " symref=HEAD:" + r.Symref
		}
	}
	return ""
}

func zeroID(format string) string {
	if format == "sha256" {
		return strings.Repeat("0", 64)
	}
	return strings.Repeat("0", 40)
}

// maxPrefixes is git's: more of them are as good as none (protocol-caps of ls-refs), for each ref is held against each.
const maxPrefixes = 65536

// lsRefs answers protocol v2's command of that name, line for line as upstream would.
func (c *call) lsRefs(q *pkt.Request) error {
	c.method = "ls-refs"
	v, err := c.refs()
	if err != nil {
		return c.orForwardBody(q, err)
	}
	b := spill{call: c, contentType: uploadPackResult}
	writeRefs(&b, q, v, c.hidden)
	return b.end()
}

func writeRefs(b io.Writer, q *pkt.Request, v *mirror.View, h hidden) {
	w := pkt.NewWriter(b)
	prefixes := q.RefPrefixes
	if len(prefixes) > maxPrefixes {
		prefixes = nil
	}
	for _, r := range v.Refs.List {
		if h.hides(r.Name) || !hasPrefix(r.Name, prefixes) || r.OID == "" && !q.Unborn {
			continue
		}
		parts := []string{r.OID, " ", r.Name}
		if r.OID == "" {
			parts[0] = "unborn"
		}
		if r.Symref != "" && (q.Symrefs || r.OID == "") {
			parts = append(parts, " symref-target:", r.Symref)
		}
		if r.Peeled != "" && q.Peel {
			parts = append(parts, " peeled:", r.Peeled)
		}
		w.Line(parts...)
	}
	w.Flush()
}

func hasPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return len(prefixes) == 0
}
