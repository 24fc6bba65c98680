package privtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
	"golang.org/x/sys/unix"
)

// ballast fills the disk but for about so many bytes, until the func returned is called. It may be called again.
func (d disk) ballast(left int64) (drop func()) {
	d.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		d.t.Fatal(err)
	}
	name := filepath.Join(d.dir, fmt.Sprint("ballast", rand.Uint64()))
	file, err := os.Create(name)
	if err != nil {
		d.t.Fatal(err)
	}
	defer file.Close()
	if fill := int64(st.Bavail)*st.Bsize - left; fill > 0 {
		err := unix.Fallocate(int(file.Fd()), 0, 0, fill)
		if err != nil && (left > 0 || !errors.Is(err, unix.ENOSPC)) { // what there was is taken all the same
			d.t.Fatal(err)
		}
	}
	return func() { os.Remove(name) }
}

// crowded is a server whose mirrors and spool are on a disk of their own, with a small repository that is already there.
type crowded struct {
	*testing.T
	up    *rig.Upstream
	disk  disk
	s     *rig.GitServer
	files int // descriptors before there was trouble
}

func crowd(t *testing.T, flags ...string) *crowded {
	t.Helper()
	c := &crowded{T: t, up: rig.NewUpstream(t), disk: newDisk(t, 256*mib)}
	c.up.R40("small")
	c.s = rig.GitPlace{Path: filepath.Join(c.disk.dir, "git")}.Start(t, c.up, append(flags, "--memory-limit", "1GiB")...)
	rig.NewGitClient(t).Clone(c.s.URL("small"), "--bare")
	quiet(t, c.s)
	c.files = c.s.OpenFiles()
	return c
}

// ask asks n times at once for the whole of a commit. Each must get that, or be told that the disk is full, in time.
func (c *crowded) ask(repo string, n int, tips ...string) (served, refused int) {
	c.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			defer cancel()
			p, err := rig.Ask{Wants: tips[i%len(tips):][:1]}.Get(ctx, c.s.URL(repo))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.Errorf("%s was cut off or hung: %v", repo, err)
				return
			}
			switch told := p.Text + p.Refused + p.Fatal; {
			case p.Whole() == nil:
				served++
			case strings.Contains(told, "disk is full"):
				refused++
			default:
				c.Errorf("%s: it is not said that the disk is full: %v", repo, p.Whole())
			}
		})
	}
	wg.Wait()
	return served, refused
}

// clears waits until the repository is served whole again, and checks that all of its mirror is sound and nothing is left.
func (c *crowded) clears(repo, tip string) {
	c.Helper()
	client := rig.NewGitClient(c)
	var dir, out string
	eventually(c.T, 90*time.Second, "there is room, and a clone succeeds", func() bool {
		var err error
		dir = client.Dir()
		out, err = client.Run(c.Context(), "clone", "--quiet", "--bare", c.s.URL(repo), dir)
		return err == nil
	})
	if out != "" {
		c.Logf("git said %q", out)
	}
	client.In(dir, "fsck")
	if got := client.In(dir, "rev-parse", "main"); got != tip {
		c.Errorf("a clone has %s, want %s", got, tip)
	}
	quiet(c.T, c.s)
	for _, mirror := range c.s.Mirrors() {
		client.Git("--git-dir="+mirror, "fsck")
	}
	const idle = 8 // connections that are kept open
	eventually(c.T, 20*time.Second, "all descriptors are closed", func() bool { return c.s.OpenFiles() <= c.files+idle })
	if left, _ := filepath.Glob(filepath.Join(c.s.Path, "work", "*")); len(left) > 0 {
		c.Errorf("left behind: %v", left)
	}
}

// smallIsServed checks that trouble with one repository, or with the disk, is none of another one's.
func (c *crowded) smallIsServed() {
	c.Helper()
	client := rig.NewGitClient(c)
	if here, there := client.Git("ls-remote", c.s.URL("small")), client.Git("ls-remote", c.up.URL("small")); here != there {
		c.Errorf("refs on a full disk:\n%s\nupstream:\n%s", here, there)
	}
}

// policies are what git.too_large says of a disk without room.
var policies = []string{"forward", "refuse"}

// met checks that all were served by upstream, or all were told.
func (c *crowded) met(policy string, served, refused, of int) {
	c.Helper()
	if policy == "forward" && served != of || policy == "refuse" && refused != of {
		c.Errorf("with %s %d of %d were served, and %d refused", policy, served, of, refused)
	}
}

// The disk becomes full in the middle of the first transfer, or where that fits and its index does not.
func TestAFirstCloneOnAFullDiskIsForwardedOrRefusedUntilThereIsRoom(t *testing.T) {
	const size, index = 40 * mib, 300 << 10
	for i, where := range []string{"pack", "index"} {
		t.Run("in the "+where, func(t *testing.T) {
			c := crowd(t, "--git-too-large", policies[i])
			big := c.up.Big("big", size)
			tip := big.Git("rev-parse", "main")
			left := int64(size / 2)
			if where == "index" {
				left = packBytes(t, big) + index
			}
			drop := c.disk.ballast(left)
			served, refused := c.ask("big", 3, tip)
			c.met(policies[i], served, refused, 3)
			c.smallIsServed()
			if n := len(c.s.Mirrors()); n != 1 {
				t.Errorf("there are %d mirrors on the full disk", n)
			}
			if calls := c.s.Spy.Calls("index-pack"); len(calls) != 1+i {
				t.Errorf("void: with the small repository's, index-pack ran %d times", len(calls))
			}
			drop()
			c.clears("big", tip)
		})
	}
}

func packBytes(t *testing.T, r *rig.Repo) (n int64) {
	t.Helper()
	packs, _ := filepath.Glob(filepath.Join(r.Dir, "objects", "pack", "*.pack"))
	for _, name := range packs {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// The disk becomes full in a fetch: in what upstream sends, or where that fits once and not twice.
func TestAFetchOnAFullDiskIsForwardedOrRefusedUntilThereIsRoom(t *testing.T) {
	const size = 12 * mib
	for i, left := range []int64{size / 2, size * 3 / 2} {
		t.Run([]string{"in the transfer", "in the indexing"}[i], func(t *testing.T) {
			c := crowd(t, "--git-too-large", policies[i])
			big := c.up.Big("big", mib)
			old := big.Git("rev-parse", "main")
			rig.NewGitClient(t).Clone(c.s.URL("big"), "--bare")
			text := make([]byte, size)
			rand.NewChaCha8([32]byte{1}).Read(text)
			tip := big.Commit("main", "new", string(text))
			drop := c.disk.ballast(left)
			served, refused := c.ask("big", 3, tip)
			c.met(policies[i], served, refused, 3)
			if served, _ := c.ask("big", 1, old); served == 0 {
				t.Error("what is there was not served")
			}
			c.smallIsServed()
			drop()
			c.clears("big", tip)
		})
	}
}

// The disk becomes full while packs are spooled. A spool that cannot grow becomes a ring, and clients are served; where there
// is no room even for that, they are told.
func TestAPackOnAFullDiskIsServedThroughWhatRoomThereIs(t *testing.T) {
	c := crowd(t, "--git-too-large", "refuse")
	tips := strings.Fields(c.up.Big("big", 40*mib).Git("rev-list", "main"))
	rig.NewGitClient(t).Clone(c.s.URL("big"), "--bare", "--depth=1")
	quiet(t, c.s)
	drop := c.disk.ballast(8 * mib)
	served, refused := c.ask("big", 4, tips[:4]...)
	t.Logf("with 8 MiB left %d were served and %d refused", served, refused)
	if served == 0 {
		t.Error("want some served")
	}
	quiet(t, c.s)
	all := c.disk.ballast(0)
	served, refused = c.ask("big", 4, tips[4:8]...)
	t.Logf("with nothing left %d were served and %d refused", served, refused)
	c.smallIsServed()
	drop()
	all()
	c.clears("big", tips[0])
}
