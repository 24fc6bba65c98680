// Package config holds every setting of Levee, once.
//
// It refuses to build, open, listen or measure anything: it reads one HCL file, environment variables and flags that
// it is handed, and returns a Config or errors that an operator can act on. What a value of "auto" becomes is decided
// by the package that the setting belongs to, which knows the memory limit and the disk.
//
// The structs below are the only list of settings there is. From their tags come the file's grammar, the flags, the
// LEVEE_… variables, the help text and the defaults:
//
//	hcl      the name in the file; nested names joined with "." are the setting's path: bazel.max_streams
//	default  as an operator would write it; "auto" leaves the zero value, which the owner turns into a figure
//	help     one line for --help
//	min,max  bounds of a number, in its own unit, or of a time, in seconds; one without min must not be negative
//	enum     the words allowed
//	flag     the flag, where the path with dashes reads badly
//	secret   the value is not shown: it may be one, or hold one
//	inner    see inner.go: blocks inside of blocks, which only a file has
//
// A flag is the path with dashes (--bazel-max-streams), a variable the path in capitals (LEVEE_BAZEL_MAX_STREAMS). The
// flag of a list may be given several times.
// Precedence: flag, then variable, then file, then default.
package config

import (
	"reflect"
	"time"
)

// Bytes is a size. In a file it is a number of bytes or a string such as "512MiB".
type Bytes int64

// Config is what one server runs with. Its zero value is not useful: use Default, Parse or Load.
type Config struct {
	// MemoryLimit is the most memory that the process may use, everything included. Too low and the plan does not
	// fit, which is a start-up error; above what the container or machine has, and the kernel may kill the process.
	MemoryLimit Bytes `hcl:"memory_limit" default:"auto" min:"1" help:"Memory that everything together may use. auto: the cgroup's limit, else 25 % of RAM up to 4 GiB."`

	// ShutdownGrace is how long calls in flight may go on after the first signal. Too short cuts uploads that would
	// have ended; longer than the supervisor's own patience and it kills the process before the store is closed.
	ShutdownGrace time.Duration `hcl:"shutdown_grace" default:"25s" help:"How long calls in flight may go on after SIGTERM or SIGINT; a second signal ends at once."`

	Listen   Listen   `block:"listen" title:"Listeners"`
	Store    Store    `block:"store" title:"Store"`
	Bazel    Bazel    `block:"bazel" title:"Bazel remote cache"`
	Git      Git      `block:"git" title:"Git cache"`
	GraphQL  GraphQL  `block:"graphql" title:"GraphQL over PostgreSQL"`
	Governor Governor `block:"governor" title:"Governor"`
	Log      Log      `block:"log" title:"Log"`

	origins map[string]Origin
}

// Listen says where the server can be reached. Nothing but loopback unless the operator says otherwise, because there
// is no authentication to stand in front of a public address.
type Listen struct {
	// GRPC serves the Remote Execution API's cache services. Port 0 takes a free one and prints it.
	GRPC string `hcl:"grpc" default:"127.0.0.1:9092" help:"Address of the gRPC cache (REAPI)."`

	// HTTP serves Bazel's HTTP cache protocol.
	HTTP string `hcl:"http" default:"127.0.0.1:8080" help:"Address of the HTTP cache."`

	// HTTPTrusted is the operator's word that whoever reaches the HTTP listener may be believed: it is behind a proxy that
	// authenticates, sets the headers that we trust, and removes those that clients sent.
	HTTPTrusted bool `hcl:"http_trusted" default:"false" help:"Whether only the operator's own proxy reaches the HTTP listener, so that graphql.trusted_headers and graphql.tenant_header may be used off loopback."`

	// Admin serves health, metrics, status and profiles. It answers under any load and shows addresses of clients,
	// so it belongs on loopback or on a private network.
	Admin string `hcl:"admin" default:"127.0.0.1:9090" help:"Address of health, metrics, status and profiles."`

	// Hosts are accepted in the Host header of HTTP requests besides loopback names: names without port, addresses,
	// "*.example.com" for the names below that one, ranges such as 10.0.0.0/8, or "*" for all. Any other host is refused, because a web page that points its own
	// name at this address must not be able to write into the cache.
	Hosts []string `hcl:"hosts" default:"" help:"Hosts by which HTTP clients may call this server besides loopback: names, *.example.com, addresses, ranges, or *."`
}

// Store says where blobs live and how many there may be.
type Store struct {
	// Path is the data directory. It is created when the server starts, and locked while it runs.
	Path string `hcl:"path" default:"./levee-data" help:"Data directory; created if absent, locked while in use."`

	// MaxSize bounds the bytes on disk, each blob rounded up to 4 KiB. Too low and builds evict one another's
	// results; above what the disk has, min_free takes over and sheds writes.
	MaxSize Bytes `hcl:"max_size" default:"auto" min:"1" help:"Bytes of blobs kept. auto: 10 GiB, or half of the free disk if that is less."`

	// MinFree is the free disk space below which writes are shed while reads go on.
	MinFree Bytes `hcl:"min_free" default:"auto" min:"1" help:"Free disk space below which writes are shed. auto: 5 % of the disk, at most 1 GiB."`

	// MaxBlobs bounds the number of blobs, because each costs memory in the index. Too low and small blobs evict one
	// another while the disk is half empty; higher takes memory from the gates.
	MaxBlobs int64 `hcl:"max_blobs" default:"auto" min:"1" help:"Number of blobs kept; each costs index memory. auto: what the memory plan has room for."`

	// Durability is what an acknowledged blob survives: "kill" any end of the process, "fsync" a power loss as well,
	// at the price of the disk's sync time per batch of writes.
	Durability string `hcl:"durability" default:"kill" enum:"kill,fsync" help:"What an acknowledged blob survives: kill = the end of the process, fsync = a power loss too."`
}

// Bazel holds the bounds of the two cache front ends. All that are "auto" follow from the memory limit.
type Bazel struct {
	// MaxStreams is the door: gRPC calls open at once, all connections together. Each may hold door_window bytes.
	// Too low sheds whole bursts before a gate may queue them; higher takes memory from everything else.
	MaxStreams int `hcl:"max_streams" default:"auto" min:"1" help:"gRPC calls open at once, all connections together."`

	// MaxStreamsPerConnection is announced to clients, whose surplus calls then wait on their side at no cost to us.
	MaxStreamsPerConnection int `hcl:"max_streams_per_connection" default:"auto" min:"1" help:"gRPC calls open at once on one connection; the rest waits in the client. auto: 200, or max_streams if that is less."`

	// MaxConnections bounds connections of the gRPC and of the HTTP listener, each. Those above are closed at once.
	MaxConnections int `hcl:"max_connections" default:"auto" min:"1" help:"Connections of the gRPC and of the HTTP listener, each; surplus ones are closed at once. One client gets 7/8 of them while it is alone, half while another is there."`

	// DoorWindow is what a call may send before it is admitted, so it is what a waiting call costs. Too low and a
	// batch that fits needs another round trip; higher multiplies with max_streams.
	DoorWindow Bytes `hcl:"door_window" default:"16KiB" min:"1024" max:"2147483647" help:"Memory of what a call may send before it is admitted; the window announced is a little smaller, so that it fits however it arrives."`

	// Window is what an admitted write may have in flight. One upload's speed is window ÷ round-trip time, so too low
	// makes long lines slow; higher admits fewer writes at once.
	Window Bytes `hcl:"window" default:"auto" min:"1024" max:"2147483647" help:"Bytes that an admitted write may have in flight; one upload's speed is window / round-trip time."`

	// MaxWrites is the number of plain writes admitted at once; a compressed one costs as much as several.
	MaxWrites int `hcl:"max_writes" default:"auto" min:"1" help:"Plain writes admitted at once; a compressed one counts as several. One client gets 15/16 of them while it is alone, half while another is there."`

	// WriteWait is the longest time that a write may queue. Bazel gives a call 60 s in all, so near that every
	// queued write becomes a retry.
	WriteWait time.Duration `hcl:"write_wait" default:"10s" help:"Longest time that a write may queue before it is shed."`

	// WriteQueue bounds the writes that queue. Waiting costs door_window each, which the door already counts.
	WriteQueue int `hcl:"write_queue" default:"auto" min:"1" help:"Writes that may queue."`

	// ReadWait is the longest time that a read may queue for its next chunk.
	ReadWait time.Duration `hcl:"read_wait" default:"10s" help:"Longest time that a read may queue before it is shed."`

	// ReadStall cuts a write or a read that makes no progress for so long, and frees its permit. Too short cuts clients
	// behind a bad line; longer lets stalled clients pin the gates.
	ReadStall time.Duration `hcl:"read_stall" default:"60s" help:"A write or read without progress for so long is cut; a write that brings less than 4 KiB in that time makes none."`

	// MessageWait cuts a call of one message that has not arrived whole after so long.
	MessageWait time.Duration `hcl:"message_wait" default:"10s" help:"A batch or look-up whose message is not complete after so long is cut."`

	// MaxBatch is the payload of one batch call; clients are told. Above 2 MiB, a response of many small blobs may pass
	// the 4 MiB that a client of gRPC's default settings accepts.
	MaxBatch Bytes `hcl:"max_batch" default:"auto" min:"65536" help:"Bytes of blobs in one batch call, announced to clients. auto: 2MiB."`

	// MaxBlob is the largest blob accepted. A larger one is refused at its first message, with both sizes.
	MaxBlob Bytes `hcl:"max_blob" default:"auto" min:"1" help:"Largest blob accepted. auto: the store's size."`

	// ReadChunk is how much of a blob one read holds in memory at a time.
	ReadChunk Bytes `hcl:"read_chunk" default:"auto" min:"4096" max:"1048576" help:"Bytes of a blob that one read holds at a time."`

	// ReadMemory bounds the chunks of reads in flight, all together.
	ReadMemory Bytes `hcl:"read_memory" default:"auto" min:"1" help:"Memory of the chunks that reads have in flight."`

	// BatchMemory bounds the messages of BatchUpdateBlobs and UpdateActionResult.
	BatchMemory Bytes `hcl:"batch_memory" default:"auto" min:"1" help:"Memory of batch uploads and action results being stored."`

	// BatchReadMemory bounds the responses of BatchReadBlobs and GetTree.
	BatchReadMemory Bytes `hcl:"batch_read_memory" default:"auto" min:"1" help:"Memory of batch downloads and directory trees."`

	// ACMemory bounds the action results, with the trees checked and the files inlined.
	ACMemory Bytes `hcl:"ac_memory" default:"auto" min:"1" help:"Memory of action results being looked up."`

	// FindMissingMemory bounds the look-ups of which blobs are absent.
	FindMissingMemory Bytes `hcl:"find_missing_memory" default:"auto" min:"1" help:"Memory of look-ups of absent blobs."`

	// FairBy is what fairness is between: "peer", the client's address (a proxy in front makes all clients one), or
	// "instance", the REAPI instance name.
	FairBy string `hcl:"fair_by" default:"peer" enum:"peer,instance" help:"What fairness is between: peer = client address, instance = REAPI instance name."`

	// ShedWriteCode is the gRPC status of a shed write. FAILED_PRECONDITION makes Bazel go on without the upload;
	// RESOURCE_EXHAUSTED and UNAVAILABLE make it retry, which multiplies the load.
	ShedWriteCode string `hcl:"shed_write_code" default:"FAILED_PRECONDITION" enum:"FAILED_PRECONDITION,RESOURCE_EXHAUSTED,UNAVAILABLE" help:"gRPC status of a shed write; the last two make Bazel retry."`

	// ShedPutStatus is the HTTP status of a shed PUT. Bazel does not retry 507.
	ShedPutStatus int `hcl:"shed_put_status" default:"507" min:"400" max:"599" help:"HTTP status of a shed PUT; Bazel retries 500, 502, 503 and 504."`
}

// Governor holds the marks at which measured memory, as a share of the limit, changes the pressure level.
type Governor struct {
	// Evict is the share from which caches shrink.
	Evict float64 `hcl:"evict" default:"0.60" min:"0.05" max:"0.95" help:"Share of the memory limit from which caches shrink."`

	// Shed is the share from which new writes are shed. Go's collector has a cliff near 0.8: above it this mark comes
	// too late to hold the limit.
	Shed float64 `hcl:"shed" default:"0.75" min:"0.05" max:"0.95" help:"Share of the memory limit from which new writes are shed."`
}

// Log says what is written to standard error.
type Log struct {
	// Level is the least severe record written.
	Level string `hcl:"level" default:"info" enum:"debug,info,warn,error" help:"Least severe record written."`

	// Format is "text" for eyes or "json" for collectors.
	Format string `hcl:"format" default:"json" enum:"json,text" help:"Form of the records."`

	// Sample writes one of so many successful calls; failed and shed ones are always candidates.
	Sample int `hcl:"sample" default:"100" min:"1" help:"Of the successful calls, one in so many is written."`

	// MaxPerSecond bounds the access records a second, so that a storm of sheds is not a storm of writes. The next
	// record counts what was left out.
	MaxPerSecond int `hcl:"max_per_second" default:"50" min:"1" help:"Access records a second; what is left out is counted."`
}

// Default returns the configuration that applies when nothing is written anywhere.
func Default() *Config {
	c := &Config{origins: map[string]Origin{}}
	for _, s := range Settings() {
		mustDefault(reflect.ValueOf(c).Elem(), s)
	}
	return c
}

// mustDefault gives s, a field of in, its default.
func mustDefault(in reflect.Value, s Setting) {
	if err := setText(in.FieldByIndex(s.index), s, s.Default); err != nil {
		panic("config: default of " + s.Path + ": " + err.Error()) // a test decodes every default
	}
}
