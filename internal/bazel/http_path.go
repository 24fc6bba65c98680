package bazel

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/leveehq/levee/internal/blobstore"
)

// httpPath is what the path of a cache request names: /[instance/]{ac,cas}/<hash>.
type httpPath struct {
	kind     blobstore.Kind
	instance string
	hash     [32]byte
}

// httpKind is how paths, logs and metrics write a kind.
func httpKind(k blobstore.Kind) string {
	if k == blobstore.AC {
		return "ac"
	}
	return "cas"
}

// parseHTTPPath reads from the end, because an instance may have any number of segments. An error says what is wrong with
// which part, as an answer that the client's user can act on.
func parseHTTPPath(path string) (p httpPath, err error) {
	rest, hash := cutLast(strings.TrimPrefix(path, "/"))
	instance, kind := cutLast(rest)
	switch kind {
	case "cas":
		p.kind = blobstore.CAS
	case "ac":
		p.kind = blobstore.AC
	default:
		return p, &httpError{status: http.StatusNotFound, text: fmt.Sprintf(
			"no such path: %q; this is a build cache, and its paths are /cas/<sha256>, /ac/<key>, the same after an instance name, and /status", clip(path))}
	}
	if err := parseHash(&p.hash, hash); err != nil {
		return p, badRequest("%q is no key: %w; a key is 64 lowercase hexadecimal digits", clip(hash), err)
	}
	// A cache URL that ends in a slash makes two of them.
	p.instance = strings.Trim(instance, "/")
	if err := checkInstance(p.instance); err != nil {
		return p, badRequest("%w: change the path of the cache's URL", err)
	}
	return p, nil
}

// cutLast splits s at its last slash; without one, all of s is after it.
func cutLast(s string) (before, after string) {
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return "", s
}
