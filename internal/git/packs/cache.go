package packs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Cache is safe for concurrent use.
type Cache struct {
	o       Options
	grain   int64         // spools grow by it
	kept    int64         // of MaxBytes, what is not set aside
	patient time.Duration // how long a window waits for a slow reader while another starves
	peaks   *history
	made    atomic.Uint64  // names of spools
	flights sync.WaitGroup // added to under mu while it is not closed
	stop    chan struct{}  // closed by Run's end
	mkfile  func(string) (file, error)

	mu struct { // before a spool's lock
		sync.Mutex
		closed     bool
		flights    map[key]*flight
		plans      lru[key, *plan]
		planBytes  int64
		spools     lru[key, *spool] // by pack key, those that may be joined
		used       int64            // bytes charged for spools, but for the windows set aside
		aside      int64            // windows in use of those
		generating int
		stats      Stats
	}
}

// key is a hash of what two answers must share.
type key [sha256.Size]byte

// Stats is a snapshot, for metrics.
type Stats struct {
	Generations, Hits, Coalesced, Rounds uint64
	Generating                           int
	Packs                                int // spooled
	SpoolBytes, MaxBytes                 int64
	TableBytes                           int64
	Detached                             uint64 // followers too slow for a bounded spool
}

// ErrClosed is Serve's when Run has ended.
var ErrClosed = errors.New("the pack cache is closed")

const (
	grainMost  = 1 << 20
	grainLeast = 64 << 10
)

// Open empties o.Dir: a spool does not outlive its process.
func Open(o Options) (*Cache, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	c := &Cache{o: o, patient: 5 * time.Second, peaks: newHistory(), mkfile: createFile}
	windows := o.generations()
	c.grain = min(o.MaxBytes/(4*windows), grainMost) &^ (blockSize - 1)
	if c.grain < grainLeast {
		return nil, fmt.Errorf("packs: %d bytes of spool are too few for %d generations at once: they need %d at least; raise git.spool_size or lower git.total",
			o.MaxBytes, windows, 4*windows*grainLeast)
	}
	c.kept = o.MaxBytes - windows*c.grain
	c.mu.flights = make(map[key]*flight)
	c.mu.plans = newLRU[key, *plan]()
	c.mu.spools = newLRU[key, *spool]()
	return c, empty(o.Dir)
}

func (o *Options) fill() error {
	if o.Runner == nil || o.Heavy == nil || o.Quick == nil || o.Rounds == nil || o.Dir == "" {
		return errors.New("packs: Dir, Runner and the three gates are required")
	}
	if o.Slot < 1 || o.QuickSlot < 1 || o.RoundSlot < 1 {
		return errors.New("packs: Slot, QuickSlot and RoundSlot must be at least 1")
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.NoticeAfter, 5*time.Second)
	def(&o.NoticeEvery, 10*time.Second)
	def(&o.SilentWait, 50*time.Second)
	def(&o.Wait, 10*time.Minute)
	if o.MaxPack == 0 {
		o.MaxPack = o.MaxBytes / 2
	}
	if o.TableBytes == 0 {
		o.TableBytes = 8 << 20
	}
	o.MaxPack = min(o.MaxPack, o.MaxBytes)
	return nil
}

// generations is how many there can be at once.
func (o *Options) generations() int64 {
	return max(o.Heavy.Stats().Limit/o.Slot, 1) + max(o.Quick.Stats().Limit/o.QuickSlot, 1)
}

func empty(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := os.Remove(filepath.Join(dir, n.Name())); err != nil {
			return fmt.Errorf("empty the spool: %w", err)
		}
	}
	return nil
}

// Run blocks until ctx ends, then lets nobody in any more and waits for generations under way. They end when they are done, or
// when those that they are for have left. What is spooled gives way when something new needs its room, so there is nothing
// else to do.
func (c *Cache) Run(ctx context.Context) error {
	<-ctx.Done()
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.flights.Wait()
	return nil
}

// Stats returns one.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.stats
	s.Generating, s.Packs = c.mu.generating, c.mu.spools.len()
	s.SpoolBytes, s.MaxBytes = c.mu.used+c.mu.aside, c.o.MaxBytes
	s.TableBytes = c.mu.planBytes
	return s
}

// canonical is what two jobs must share to be answered alike: the request, the mirror, and what the mirror holds and shows.
func canonical(j *Job) key {
	h := sha256.New()
	sum := j.Request.Canonical()
	h.Write(sum[:])
	h.Write(binary.LittleEndian.AppendUint64(nil, j.Lease.Generation))
	h.Write([]byte(j.Lease.Repo.String()))
	return key(h.Sum(nil))
}

// keepLocked remembers a plan, and forgets those whose last use is longest ago.
func (c *Cache) keepLocked(k key, p *plan) {
	size := p.size()
	if size > c.o.TableBytes/8 { // the input of very many wants; upload-pack will be asked again
		return
	}
	if old, ok := c.mu.plans.get(k); ok {
		c.mu.planBytes -= old.size()
	}
	c.mu.plans.put(k, p)
	c.mu.planBytes += size
	for k, p := range c.mu.plans.oldest {
		if c.mu.planBytes <= c.o.TableBytes {
			return
		}
		c.mu.plans.drop(k)
		c.mu.planBytes -= p.size()
	}
}
