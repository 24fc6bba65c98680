package blobstore

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// The directory:
//
//	lock                         held while a process uses the directory
//	state                        what the last run leaves for the next
//	snapshot-N, journal-N…       the index: snapshot N and the journals from N on
//	tmp/<gen>                    unfinished uploads; emptied at start
//	cas/<00..3f>/<hash>.<gen>    blobs, and
//	ac/<00..3f>/<hash>.<gen>     action results, in directories that are filled in turn
//
// The directories are filled in turn, 4096 files each, and not chosen by the hash: commits and removals then touch one
// directory at a time instead of all of them, and a batch of flushed commits needs one or two directory flushes.

const (
	shards    = 64
	shardFill = 4096
)

func shardOf(gen uint64) int { return int(gen / shardFill % shards) }

func (d *Disk) path(name string) string        { return filepath.Join(d.opts.Dir, name) }
func (d *Disk) journalPath(n uint64) string    { return d.path(fmt.Sprintf("journal-%016x", n)) }
func (d *Disk) snapshotPath(n uint64) string   { return d.path(fmt.Sprintf("snapshot-%016x", n)) }
func (d *Disk) shardPath(k Kind, s int) string { return d.path(fmt.Sprintf("%s/%02x", k, s)) }
func (d *Disk) tempPath(gen uint64) string     { return d.opts.Dir + "/tmp/" + strconv.FormatUint(gen, 16) }
func (d *Disk) victimPath(v victim) (path string) {
	if v.temp {
		return d.tempPath(v.gen)
	}
	return d.blobPath(v.key, v.gen)
}

const hexDigits = "0123456789abcdef"

func (d *Disk) blobPath(k Key, gen uint64) string {
	s := shardOf(gen)
	b := make([]byte, 0, len(d.opts.Dir)+len("/cas/00/")+64+len(".")+16)
	b = append(b, d.opts.Dir...)
	b = append(b, '/')
	b = append(b, k.Kind.String()...)
	b = append(b, '/', hexDigits[s>>4], hexDigits[s&15], '/')
	b = hex.AppendEncode(b, k.Hash[:])
	b = append(b, '.')
	return string(strconv.AppendUint(b, gen, 16))
}

func parseBlobName(kind Kind, name string) (victim, bool) {
	v := victim{key: Key{Kind: kind}}
	digest, gen, ok := strings.Cut(name, ".")
	if !ok || len(digest) != 64 {
		return victim{}, false
	}
	if _, err := hex.Decode(v.key.Hash[:], []byte(digest)); err != nil {
		return victim{}, false
	}
	var err error
	if v.gen, err = strconv.ParseUint(gen, 16, 64); err != nil {
		return victim{}, false
	}
	return v, true
}
