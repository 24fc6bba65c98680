package serve

import (
	"log/slog"

	"google.golang.org/grpc/codes"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/bazel"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/config"
	"github.com/leveehq/levee/internal/shedcode"
)

const (
	// With max_blobs = auto the index takes what the plan leaves free, between these parts of the limit. At 512 MiB the
	// least is some 100 000 blobs and the most 400 000.
	indexLeast = 64
	indexMost  = 16

	// blobBlock is what a blob counts at least, so more blobs than max_size has of these could never be stored.
	blobBlock = 4096

	defaultMaxSize = 10 << 30 // the most that blobstore takes when max_size is auto
)

// storeOptions leaves MaxBlobs at 0 for auto: see autoMaxBlobs.
func storeOptions(c *config.Config, limit int64, log *slog.Logger) blobstore.Options {
	s := c.Store
	return blobstore.Options{
		Dir:        s.Path,
		MaxBlobs:   int(s.MaxBlobs),
		MaxSize:    int64(s.MaxSize),
		MaxBlob:    int64(c.Bazel.MaxBlob),
		MinFree:    int64(s.MinFree),
		MaxUploads: maxUploads(c, limit),
		MaxParked:  maxUploads(c, limit) * 7 / 8,
		Durability: blobstore.Durability(s.Durability),
		Logger:     log,
	}
}

// autoMaxBlobs is how many blobs' index p has room for, p being the plan of everything else.
func autoMaxBlobs(maxSize int64, p levee.Plan) int {
	if maxSize == 0 {
		maxSize = defaultMaxSize
	}
	room := min(max(p.GoLiveMost-p.GoLive, p.Limit/indexLeast), p.Limit/indexMost)
	return int(max(1, min(room/blobstore.BytesPerBlob, maxSize/blobBlock)))
}

// maxUploads bounds unfinished uploads, those included that wait to be resumed. The write gate bounds the active ones far
// more tightly, unless the operator asks for more writes.
func maxUploads(c *config.Config, limit int64) int {
	return max(int(min(limit/(256<<10), 4096)), 2*c.Bazel.MaxWrites)
}

func bazelOptions(c *config.Config, k *levee.Kernel, store blobstore.Store, log *accesslog.Log) bazel.Options {
	b := c.Bazel
	return bazel.Options{
		Kernel: k,
		Store:  store,
		Log:    log,
		Codes:  shedcode.Codes{Write: writeCode[b.ShedWriteCode], HTTPPut: b.ShedPutStatus},

		MaxStreams:              b.MaxStreams,
		MaxStreamsPerConnection: b.MaxStreamsPerConnection,
		MaxConnections:          b.MaxConnections,
		MaxHTTPConnections:      b.MaxConnections,
		DoorWindow:              int(b.DoorWindow),
		Window:                  int(b.Window),
		MaxWrites:               b.MaxWrites,
		WriteWait:               b.WriteWait,
		WriteQueue:              b.WriteQueue,
		ReadWait:                b.ReadWait,
		ReadStall:               b.ReadStall,
		MessageWait:             b.MessageWait,
		MaxBatch:                int64(b.MaxBatch),
		MaxBlob:                 int64(b.MaxBlob),
		ReadChunk:               int(b.ReadChunk),
		FairBy:                  b.FairBy,
		ReadMemory:              int64(b.ReadMemory),
		BatchMemory:             int64(b.BatchMemory),
		BatchReadMemory:         int64(b.BatchReadMemory),
		ACMemory:                int64(b.ACMemory),
		FindMissingMemory:       int64(b.FindMissingMemory),
	}
}

var writeCode = map[string]codes.Code{
	"FAILED_PRECONDITION": codes.FailedPrecondition,
	"RESOURCE_EXHAUSTED":  codes.ResourceExhausted,
	"UNAVAILABLE":         codes.Unavailable,
}
