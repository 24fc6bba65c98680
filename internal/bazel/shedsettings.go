package bazel

import "github.com/leveehq/levee/internal/shedcode"

// shedSettings says, for the text of a shed, which setting has which gate admit more.
var shedSettings = map[string]shedcode.Setting{
	"streams":          {Limit: "bazel.max_streams"},
	"streams_reserved": {Limit: "bazel.max_streams"},
	"connections":      {Limit: "bazel.max_connections"},
	"http_connections": {Limit: "bazel.max_connections"},
	"write":            {Limit: "bazel.max_writes", Queue: "bazel.write_queue", Wait: "bazel.write_wait"},
	"batch_update":     {Limit: "bazel.batch_memory", Wait: "bazel.write_wait"},
	"read":             {Limit: "bazel.read_memory", Wait: "bazel.read_wait"},
	"batch_read":       {Limit: "bazel.batch_read_memory", Wait: "bazel.read_wait"},
	"ac":               {Limit: "bazel.ac_memory"},
	"find_missing":     {Limit: "bazel.find_missing_memory", Wait: "bazel.read_wait"},
}
