package storm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// compare: the same clones from the server, and from plain git http-backend over copies of the same mirrors, as they are and
// without their bitmaps; then the same pack again and again, from both servers' caches. One after the other, and nothing else
// asks the server meanwhile. It promises nothing: what the figures should be is for who runs it to say.
func (r *gitRun) compare(ctx context.Context) error {
	stop := r.observeTree(ctx)
	defer func() { stop() }()
	ours, err := r.measureClones(ctx, "server", r.urls())
	if err != nil {
		return err
	}
	warm, err := r.measureWarm(ctx, "server, warm", r.urls())
	if err != nil {
		return err
	}
	stop()
	stop = func() {}
	for _, v := range []backendVariant{{name: "http-backend, bitmaps"}, {name: "http-backend, no bitmaps", bare: true}} {
		theirs, err := r.against(ctx, v, r.measureClones)
		if err != nil {
			return err
		}
		r.report.Ratios = append(r.report.Ratios, ratio(ours, theirs, true))
	}
	theirs, err := r.against(ctx, backendVariant{name: "http-backend, bitmaps, warm pack cache", cache: true}, r.measureWarm)
	if err != nil {
		return err
	}
	r.report.Ratios = append(r.report.Ratios, ratio(warm, theirs, false))
	return nil
}

// observeTree looks at the process that is measured now, and says what goes on.
func (r *gitRun) observeTree(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	tree := r.tree
	wg.Go(func() { tree.run(ctx) })
	wg.Go(func() { r.show.run(ctx) })
	return func() { cancel(); wg.Wait() }
}

// measured runs work as a scenario of its own, with its books, costs and bound in time.
func (r *gitRun) measured(ctx context.Context, name string, work func(context.Context, *tally) error) (*Cost, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*r.o.Duration, errors.New("the scenario's time is over"))
	defer cancel()
	r.show.scenario(name)
	t := r.tally(name)
	if err := r.beginCost(ctx, name); err != nil {
		return nil, err
	}
	err := work(ctx, t)
	err = errors.Join(err, r.endLoad(ctx, t))
	r.report.Sections = append(r.report.Sections, t.section())
	r.report.Costs = append(r.report.Costs, *r.costing.cost)
	return r.costing.cost, err
}

func (r *gitRun) measureClones(ctx context.Context, name string, urls []string) (*Cost, error) {
	return r.measured(ctx, name, func(ctx context.Context, t *tally) error { return r.cloneAll(ctx, t, urls) })
}

// warmAtOnce clients take a warm pack at a time.
const warmAtOnce = 4

// measureWarm has one pack of each repository sent until Warm bytes have been, after a first time that does not count.
func (r *gitRun) measureWarm(ctx context.Context, name string, urls []string) (*Cost, error) {
	client := newGitHTTP(0)
	defer client.close()
	for i, url := range urls {
		if _, err := client.fetch(ctx, url, r.repos[i].full(), nil); err != nil {
			return nil, fmt.Errorf("%s: %w", url, err)
		}
	}
	return r.measured(ctx, name, func(ctx context.Context, t *tally) error {
		var wg sync.WaitGroup
		for n := range warmAtOnce {
			wg.Go(func() {
				for i := n; t.bytes.Load() < int64(r.o.Warm) && t.failedCount()+t.shedCount() == 0 && ctx.Err() == nil; i++ {
					r.oneFetch(ctx, client, t, urls[i%len(urls)], r.repos[i%len(urls)].full())
				}
			})
		}
		wg.Wait()
		return context.Cause(ctx)
	})
}

// backendVariant is a way to run git http-backend.
type backendVariant struct {
	name  string
	bare  bool // of bitmaps
	cache bool // a hook that keeps what pack-objects printed
}

// against copies the mirrors, serves them by a process of its own, and has it measured.
func (r *gitRun) against(ctx context.Context, v backendVariant, measure func(context.Context, string, []string) (*Cost, error)) (*Cost, error) {
	dir, err := os.MkdirTemp(r.dir, "backend-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	root := filepath.Join(dir, "root")
	for i, mirror := range r.o.Mirror {
		if err := copyMirror(mirror, filepath.Join(root, strconv.Itoa(i)), v.bare); err != nil {
			return nil, err
		}
	}
	config := slices.Clone(likeAHost)
	if v.cache {
		hook, err := writeCachingHook(dir)
		if err != nil {
			return nil, err
		}
		config = append(config, "uploadpack.packObjectsHook="+hook)
	}
	b, err := startBackend(ctx, root, config)
	if err != nil {
		return nil, err
	}
	defer b.stop()
	var urls []string
	for i := range r.o.Mirror {
		urls = append(urls, b.url+strconv.Itoa(i))
	}
	ours := r.tree
	defer func() { r.tree = ours }()
	if r.tree, err = newTreeMeter(b.cmd.Process.Pid); err != nil {
		return nil, err
	}
	defer r.observeTree(ctx)()
	return measure(ctx, v.name, urls)
}

// copyMirror links what Git never changes in place, and copies the rest.
func copyMirror(from, to string, bare bool) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		into := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(into, 0o755)
		case bare && strings.HasSuffix(rel, ".bitmap"), strings.HasSuffix(rel, ".lock"), !d.Type().IsRegular():
			return nil
		case strings.HasPrefix(rel, "objects"+string(filepath.Separator)) && os.Link(path, into) == nil:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(into, text, 0o644)
	})
}

// cachingHook keeps what pack-objects prints under its arguments and input: what can be had without a cache in front. The
// first copy is complete before it has its name.
const cachingHook = `#!/bin/sh
dir=$(dirname "$0")/cache
mkdir -p "$dir"
input=$(mktemp "$dir/input.XXXXXX")
cat >"$input"
key=$({ printf '%s\n' "$@" | grep -v progress; cat "$input"; } | sha1sum | cut -c1-40)
if [ -e "$dir/$key" ]; then
	rm "$input"
	exec cat "$dir/$key"
fi
"$@" <"$input" | tee "$input.out"
mv "$input.out" "$dir/$key"
rm "$input"
`

func writeCachingHook(dir string) (string, error) {
	hook := filepath.Join(dir, "hook")
	return hook, os.WriteFile(hook, []byte(cachingHook), 0o755)
}

// backendServer is another process that serves by git http-backend.
type backendServer struct {
	cmd *exec.Cmd
	url string
}

// backendCommand runs this very program's --serve. Tests have another program.
var backendCommand = func(ctx context.Context, root string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, self, "storm", "git", "--serve", root), nil
}

var servedAt = regexp.MustCompile(` (http://\S+/)\n`)

func startBackend(ctx context.Context, root string, config []string) (*backendServer, error) {
	c, err := backendCommand(ctx, root)
	if err != nil {
		return nil, err
	}
	c.Env = append(os.Environ(), configAsEnv(config)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	b := &backendServer{cmd: c}
	line, err := bufio.NewReader(out).ReadString('\n')
	if m := servedAt.FindStringSubmatch(line); m != nil {
		b.url = m[1]
		return b, nil
	}
	b.stop()
	return nil, fmt.Errorf("the server to compare with did not start: %q, %w", line, err)
}

// stop kills the server and its children, and waits for it.
func (b *backendServer) stop() {
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
	_ = b.cmd.Wait() // killed is what it says
}
