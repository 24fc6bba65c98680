package upstream

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// Credentials are what a caller brought. They print as nothing, and are compared by a keyed hash.
type Credentials struct {
	// A pointer: fmt calls no method of a value in somebody's unexported field, and would print a string there.
	authorization *string
}

// CredentialsOf takes them from a request; none is a value, too.
func CredentialsOf(h http.Header) Credentials {
	a := h.Get("Authorization")
	if a == "" {
		return Credentials{}
	}
	return Credentials{authorization: &a}
}

// Empty tells whether there are none.
func (c Credentials) Empty() bool { return c.authorization == nil }

// Format prints whether there are any, whatever the verb.
func (c Credentials) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, c.word()) }

// LogValue is what Format prints.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.word()) }

func (c Credentials) word() string {
	if c.Empty() {
		return "no credentials"
	}
	return "credentials (hidden)"
}

// field is the Authorization to send, or "".
func (c Credentials) field() string {
	if c.Empty() {
		return ""
	}
	return *c.authorization
}

// callerKey stands for credentials, at a host or for a repository. It is of no use outside this process.
type callerKey [sha256.Size]byte

// hasher makes callerKeys with a key that nobody else has.
type hasher struct{ key [32]byte }

func newHasher() hasher {
	var h hasher
	_, _ = rand.Read(h.key[:]) // never fails
	return h
}

// sum is of what scope (a host or a repository, which have no NUL) and the field make together.
func (h hasher) sum(scope, authorization string) (k callerKey) {
	m := hmac.New(sha256.New, h.key[:])
	_, _ = io.WriteString(m, scope+"\x00"+authorization)
	m.Sum(k[:0])
	return k
}
