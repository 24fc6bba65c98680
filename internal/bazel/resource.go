package bazel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName bounds a resource name, which a stream holds while it waits.
const (
	maxName     = 1024
	maxInstance = 256
)

// resource is a parsed ByteStream resource name:
//
//	[instance/]uploads/uuid/blobs/hash/size[/metadata]                  (upload)
//	[instance/]uploads/uuid/compressed-blobs/zstd/hash/size[/metadata]  (upload)
//	[instance/]blobs/hash/size
//	[instance/]compressed-blobs/zstd/hash/size
//
// REAPI omits the segment of the digest function for SHA-256; "sha256" there is accepted all the same.
type resource struct {
	digest
	instance string
	zstd     bool
	// upload is the name without metadata, under which an unfinished upload can be resumed; empty for a read.
	upload string
}

func parseRead(name string) (r resource, err error) {
	if err := checkName(name); err != nil {
		return r, err
	}
	segs := strings.Split(name, "/")
	at := keyword(segs, "blobs", "compressed-blobs", "uploads")
	if at < 0 || segs[at] == "uploads" {
		return r, nameError(name, "[instance/]blobs/hash/size or [instance/]compressed-blobs/zstd/hash/size")
	}
	rest, err := r.blob(segs[at:])
	if err != nil {
		return r, fmt.Errorf("resource name %q: %w", clip(name), err)
	}
	if len(rest) > 0 {
		return r, nameError(name, "nothing after the size")
	}
	return r, r.setInstance(segs[:at])
}

func parseWrite(name string) (r resource, err error) {
	if err := checkName(name); err != nil {
		return r, err
	}
	segs := strings.Split(name, "/")
	at := keyword(segs, "uploads")
	if at < 0 || len(segs) < at+3 || segs[at+1] == "" {
		return r, nameError(name, "[instance/]uploads/uuid/blobs/hash/size or …/compressed-blobs/zstd/hash/size")
	}
	rest, err := r.blob(segs[at+2:])
	if err != nil {
		return r, fmt.Errorf("resource name %q: %w", clip(name), err)
	}
	r.upload = strings.Join(segs[:len(segs)-len(rest)], "/") // the rest is metadata, free in form
	return r, r.setInstance(segs[:at])
}

// blob parses from "blobs" or "compressed-blobs" on and returns the segments after the size.
func (r *resource) blob(segs []string) (rest []string, err error) {
	kind, segs := segs[0], segs[1:]
	switch kind {
	case "blobs":
	case "compressed-blobs":
		if len(segs) == 0 {
			return nil, errors.New("it lacks the compressor: only zstd is supported")
		}
		if segs[0] != "zstd" {
			return nil, fmt.Errorf("compressor %q is not supported: use zstd or blobs/ for none", clip(segs[0]))
		}
		r.zstd = true
		segs = segs[1:]
	default:
		return nil, fmt.Errorf("it has %q where blobs or compressed-blobs belongs", clip(kind))
	}
	if len(segs) > 0 && isFunction(segs[0]) {
		if segs[0] != "sha256" {
			return nil, fmt.Errorf("digest function %q is not supported: use sha256, whose name is left out", segs[0])
		}
		segs = segs[1:]
	}
	if len(segs) < 2 {
		return nil, errors.New("it lacks the hash or the size")
	}
	if err := parseHash(&r.hash, segs[0]); err != nil {
		return nil, err
	}
	r.size, err = strconv.ParseInt(segs[1], 10, 64)
	if err != nil || r.size < 0 || segs[1][0] == '+' {
		return nil, fmt.Errorf("its size %q is not a number of bytes", clip(segs[1]))
	}
	return segs[2:], nil
}

func (r *resource) setInstance(segs []string) error {
	r.instance = strings.Join(segs, "/")
	return checkInstance(r.instance)
}

// isFunction knows the lowercase names of REAPI's digest functions; none of them could be a hash.
func isFunction(s string) bool {
	switch s {
	case "sha256", "sha1", "md5", "vso", "sha384", "sha512", "murmur3", "sha256tree", "blake3", "gitsha1":
		return true
	}
	return false
}

func keyword(segs []string, words ...string) int {
	for i, s := range segs {
		for _, w := range words {
			if s == w {
				return i
			}
		}
	}
	return -1
}

// reservedSegments may not be in an instance name, by REAPI: the words that tell where it ends.
var reservedSegments = map[string]bool{
	"blobs": true, "uploads": true, "actions": true, "actionResults": true, "operations": true, "capabilities": true,
	"compressed-blobs": true,
}

// reservedInstances begin paths of other services and pages on the same HTTP listener.
var reservedInstances = map[string]bool{"git": true, "graphql": true, "v1": true, "v8": true, "status": true}

// checkInstance says why a name cannot be an instance's.
func checkInstance(name string) error {
	if name == "" {
		return nil
	}
	if len(name) > maxInstance {
		return fmt.Errorf("instance name has %d bytes, and at most %d are allowed", len(name), maxInstance)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("instance name %q has characters that cannot be printed", clip(name))
	}
	for i, seg := range strings.Split(name, "/") {
		switch {
		case seg == "" || seg == "." || seg == "..":
			return fmt.Errorf("instance name %q has an empty or dotted segment", clip(name))
		case reservedSegments[seg]:
			return fmt.Errorf("instance name %q has the segment %q, which the Remote Execution API reserves", clip(name), seg)
		case i == 0 && reservedInstances[seg]:
			return fmt.Errorf("instance name %q begins with %q, which is reserved for another service", clip(name), seg)
		}
	}
	return nil
}

func checkName(name string) error {
	if name == "" {
		return errors.New("resource name is empty")
	}
	if len(name) > maxName {
		return fmt.Errorf("resource name has %d bytes, and at most %d are allowed", len(name), maxName)
	}
	if !utf8.ValidString(name) {
		return errors.New("resource name is not UTF-8")
	}
	return nil
}

func nameError(name, want string) error {
	return fmt.Errorf("resource name %q is not understood: it should be %s", clip(name), want)
}
