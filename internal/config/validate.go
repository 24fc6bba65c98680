package config

import (
	"fmt"
	"net"
	"strconv"
)

// Validate finds settings that contradict one another, each legal alone. The error is a Problems, and each names both
// settings, where they were written, and what to change. Whether the figures fit the memory is the plan's to say.
func (c *Config) Validate() error {
	v := validator{c: c}
	v.addresses()
	v.governor()
	v.store()
	v.bazel()
	v.git()
	v.graphql()
	return v.problems.err()
}

type validator struct {
	c        *Config
	problems Problems
}

// conflict reports that a and b, two paths, do not go together: "a is <relation> b; <fix>".
func (v *validator) conflict(a, relation, b, fix string) {
	v.problems = append(v.problems, Problem{Text: fmt.Sprintf("%s %s %s; %s", v.c.Describe(a), relation, v.c.Describe(b), fix)})
}

func (v *validator) wrong(path, text string) {
	v.problems = append(v.problems, Problem{Text: v.c.Describe(path) + " " + text})
}

// Describe is a setting with its value and where that was written: bazel.max_writes = 9 (levee.hcl:3,3).
func (c *Config) Describe(path string) string {
	return fmt.Sprintf("%s = %s (%s)", path, c.Value(path), c.Origin(path).Where)
}

// above reports a > b where both are figures that somebody chose; 0 is "auto" and is chosen later to fit.
func (v *validator) above(a string, av int64, b string, bv int64) {
	if av > 0 && bv > 0 && av > bv {
		v.conflict(a, "is above", b, "lower the first or raise the second")
	}
}

func (v *validator) addresses() {
	l := v.c.Listen
	first := map[string]string{}
	for _, a := range []struct{ path, addr string }{
		{"listen.grpc", l.GRPC}, {"listen.http", l.HTTP}, {"listen.admin", l.Admin},
	} {
		_, port, err := net.SplitHostPort(a.addr)
		if err != nil {
			v.wrong(a.path, `is not an address such as "127.0.0.1:9092" or ":9092"`)
			continue
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil {
			v.wrong(a.path, "has no port number between 0 and 65535")
			continue
		} else if n == 0 {
			continue // any free port: never the same one twice
		}
		if other, taken := first[a.addr]; taken {
			v.conflict(a.path, "is the address of", other, "give each its own port")
		}
		first[a.addr] = a.path
	}
}

func (v *validator) governor() {
	if g := v.c.Governor; g.Evict >= g.Shed {
		v.conflict("governor.evict", "is not below", "governor.shed", "caches must shrink before work is shed: lower the first or raise the second")
	}
}

func (v *validator) store() {
	s, b := v.c.Store, v.c.Bazel
	v.above("bazel.max_blob", int64(b.MaxBlob), "store.max_size", int64(s.MaxSize))
	v.above("bazel.max_batch", int64(b.MaxBatch), "store.max_size", int64(s.MaxSize))
	if s.MaxBlobs > 0 && s.MaxSize > 0 && s.MaxBlobs*4096 > int64(s.MaxSize) && v.c.Origin("store.max_blobs").Kind != FromDefault {
		v.conflict("store.max_blobs", "can never be reached within", "store.max_size",
			"a blob counts as 4 KiB at least: lower the first, whose index costs memory, or raise the second")
	}
}

func (v *validator) bazel() {
	b := v.c.Bazel
	v.above("bazel.max_streams_per_connection", int64(b.MaxStreamsPerConnection), "bazel.max_streams", int64(b.MaxStreams))
	v.above("bazel.max_writes", int64(b.MaxWrites), "bazel.max_streams", int64(b.MaxStreams))
	v.above("bazel.write_queue", int64(b.WriteQueue), "bazel.max_streams", int64(b.MaxStreams))
	v.above("bazel.door_window", int64(b.DoorWindow), "bazel.window", int64(b.Window))
	if b.WriteWait >= b.ReadStall {
		v.conflict("bazel.write_wait", "is not below", "bazel.read_stall", "the second cuts what the first lets wait: lower the first or raise the second")
	}
	if b.WriteWait == 0 {
		v.conflict("bazel.write_wait", "gives no time to wait to", "bazel.write_queue", `set the first, for example to "10s"`)
	}
	if b.ReadWait == 0 {
		v.wrong("bazel.read_wait", `would shed every read that meets another: set it, for example to "10s"`)
	}
	if b.MessageWait == 0 {
		v.wrong("bazel.message_wait", `would cut every call: set it, for example to "10s"`)
	}
}
