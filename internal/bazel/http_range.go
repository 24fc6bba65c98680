package bazel

import (
	"net/http"
	"strconv"
	"strings"
)

// httpRange is the part of a blob that is sent.
type httpRange struct {
	off, n  int64
	partial bool // 206 instead of 200
}

// parseHTTPRange reads a Range header for a blob of size bytes (RFC 9110, 14.2). What it does not understand, several
// ranges among it, means the whole blob, as the RFC says; ok is false only if the range lies outside of the blob (416).
//
// An If-Range header means the whole too: it asks for the part only if a validator matches, and we send none.
func parseHTTPRange(h http.Header, size int64) (r httpRange, ok bool) {
	whole := httpRange{n: size}
	spec, found := strings.CutPrefix(h.Get("Range"), "bytes=")
	if !found || h.Get("If-Range") != "" {
		return whole, true
	}
	first, last, found := strings.Cut(strings.TrimSpace(spec), "-")
	if !found {
		return whole, true
	}
	if first == "" {
		n, err := parseDigits(last)
		if err != nil {
			return whole, true
		}
		n = min(n, size)
		return httpRange{off: size - n, n: n, partial: true}, n > 0
	}
	off, err := parseDigits(first)
	if err != nil {
		return whole, true
	}
	end := size
	if last != "" {
		n, err := parseDigits(last)
		if err != nil || n < off {
			return whole, true
		}
		if n < size {
			end = n + 1
		}
	}
	return httpRange{off: off, n: end - off, partial: true}, off < size
}

// parseDigits refuses the signs that strconv takes.
func parseDigits(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}
