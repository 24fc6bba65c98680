package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// Repo is the identity of a repository: of its mirror, its gate key and its metrics. Path is percent-encoded in one way
// only, and has no empty, "." or ".." segment. Paths are case-sensitive as URLs are, except on hosts known to fold case and
// the suffix .git (github.com, gitlab.com, bitbucket.org): there one repository has one identity however it is written.
type Repo struct{ Host, Path string }

func (r Repo) String() string { return r.Host + "/" + r.Path }

// folding are the hosts whose repositories have one name in any case, with and without .git.
var folding = map[string]bool{"github.com": true, "gitlab.com": true, "bitbucket.org": true}

// urlPath is the repository's on its host. Folding hosts know it under the name with .git, gitlab.com without a redirect
// only so.
func (r Repo) urlPath() string {
	if folding[r.Host] {
		return "/" + r.Path + ".git"
	}
	return "/" + r.Path
}

// Service is what of a repository a request is for.
type Service string

const (
	InfoRefs    Service = "info/refs"
	UploadPack  Service = "git-upload-pack"
	ReceivePack Service = "git-receive-pack"
	LFS         Service = "info/lfs" // and all below it
	EnsureRefs  Service = "ensure-refs"
)

const (
	maxPath     = 2048 // bytes; git hosts take less
	maxSegments = 40
	maxSegment  = 255
)

// PathError is of a request that is wrong in itself: a path that Resolve does not take, a method or a body that Forward cannot
// pass on.
type PathError struct {
	Status int // HTTP: 400, 403, 404, 405 or 408
	Text   string
	Err    error // of reading a body, else nil
}

func (e *PathError) Error() string { return e.Text }

// Unwrap returns Err.
func (e *PathError) Unwrap() error { return e.Err }

func badPath(format string, args ...any) error {
	return &PathError{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...)}
}

// Resolve takes the undecoded path of a URL behind /git/ apart: host, repository, service, and what Forward is to ask of the
// repository. Empty, ".", ".." segments, encoded slashes, backslashes, control characters and segments that begin with "-"
// are errors, in any encoding; so is a host that is not allowed, whose error says how to allow it. An error is a *PathError.
func (c *Client) Resolve(rawPath string) (Repo, Service, string, error) {
	if len(rawPath) > maxPath {
		return Repo{}, "", "", badPath("the path is longer than %d bytes", maxPath)
	}
	name, path, _ := strings.Cut(rawPath, "/")
	h, err := c.named(name)
	if err != nil {
		return Repo{}, "", "", err
	}
	segments, err := decodeSegments(path)
	if err != nil {
		return Repo{}, "", "", err
	}
	n, service := splitService(segments)
	if service == "" {
		return Repo{}, "", "", &PathError{Status: http.StatusNotFound, Text: "this path is none of Git's smart HTTP: after the repository come " +
			"info/refs, git-upload-pack, git-receive-pack, info/lfs/... or ensure-refs"}
	}
	repo := Repo{Host: h.name, Path: encodeSegments(foldSegments(h.name, segments[:n]))}
	if repo.Path == "" {
		return Repo{}, "", "", badPath("the path names no repository of %s", h.name)
	}
	return repo, service, encodeSegments(segments[n:]), nil
}

// named finds a host as a client wrote it.
func (c *Client) named(raw string) (*host, error) {
	name, err := decodeSegment(raw)
	if err != nil {
		return nil, err
	}
	if h := c.hosts[strings.ToLower(name)]; h != nil {
		return h, nil
	}
	return nil, &PathError{Status: http.StatusForbidden, Text: fmt.Sprintf("%q is no Git host that may be reached through here: "+
		"to allow it, add it to git.hosts or start with --git-host %s", clip(name), clip(name))}
}

// splitService finds where a repository's name ends: in front of the service that the path ends in, else of the last info/lfs.
func splitService(segments []string) (n int, s Service) {
	if n = len(segments); n == 0 {
		return 0, ""
	}
	switch last := Service(segments[n-1]); {
	case last == UploadPack || last == ReceivePack || last == EnsureRefs:
		return n - 1, last
	case n >= 2 && segments[n-2] == "info" && segments[n-1] == "refs":
		return n - 2, InfoRefs
	}
	for i := n - 2; i >= 0; i-- {
		if segments[i] == "info" && segments[i+1] == "lfs" {
			return i, LFS
		}
	}
	return 0, ""
}

// foldSegments gives a repository of a folding host its one name.
func foldSegments(host string, segments []string) []string {
	if !folding[host] || len(segments) == 0 {
		return segments
	}
	folded := slices.Clone(segments)
	for i, s := range folded {
		folded[i] = lowerASCII(s)
	}
	last := len(folded) - 1
	if folded[last] = strings.TrimSuffix(folded[last], ".git"); folded[last] == "" {
		return nil
	}
	return folded
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// decodeSegments undoes the encoding of a path, and refuses what a file system, a shell or another server could understand
// in another way than we do.
func decodeSegments(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	raw := strings.Split(path, "/")
	if len(raw) > maxSegments {
		return nil, badPath("the path has more than %d segments", maxSegments)
	}
	segments := make([]string, len(raw))
	for i, s := range raw {
		var err error
		if segments[i], err = decodeSegment(s); err != nil {
			return nil, err
		}
	}
	return segments, nil
}

func decodeSegment(raw string) (string, error) {
	s, err := unescape(raw)
	if err != nil {
		return "", err
	}
	switch {
	case s == "" || s == "." || s == "..":
		return "", badPath("the path has an empty segment, or . or ..")
	case s[0] == '-':
		return "", badPath("a segment of the path begins with -")
	case len(s) > maxSegment:
		return "", badPath("a segment of the path is longer than %d bytes", maxSegment)
	case !utf8.ValidString(s):
		return "", badPath("a segment of the path is no UTF-8")
	}
	for _, r := range s {
		// An encoded % would be a second encoding, which some servers undo, too.
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '/' || r == '\\' || r == '%' {
			return "", badPath("a segment of the path has a slash, a backslash, a percent sign or a control character in it")
		}
	}
	return s, nil
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return "", badPath("the path has a %% that no two hexadecimal digits follow")
		}
		b = append(b, unhex(s[i+1])<<4|unhex(s[i+2]))
		i += 2
	}
	return string(b), nil
}

// encodeSegments is the one way in which a path is written.
func encodeSegments(segments []string) string {
	var b strings.Builder
	for i, s := range segments {
		if i > 0 {
			b.WriteByte('/')
		}
		for j := range len(s) {
			if isPathByte(s[j]) {
				b.WriteByte(s[j])
			} else {
				fmt.Fprintf(&b, "%%%02X", s[j])
			}
		}
	}
	return b.String()
}

// isPathByte tells what RFC 3986 lets a segment have unencoded (pchar), but for ";", at which some servers cut.
func isPathByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("-._~!$&'()*+,=:@", c) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
