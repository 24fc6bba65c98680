package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leveehq/levee/internal/bytesize"
	"github.com/leveehq/levee/internal/config"
)

// Severity of a Finding.
type Severity string

const (
	OK      Severity = "ok"
	Warning Severity = "warning"
	Failure Severity = "error" // the server would not start, or not work
)

// Finding is one thing that Check looked at.
type Finding struct {
	Severity Severity `json:"severity"`
	What     string   `json:"what"`
	Text     string   `json:"text"`
}

// Check looks at everything that Run needs, and changes nothing: not even the data directory is made.
func (a *App) Check() []Finding {
	out := []Finding{a.checkPlan(), a.checkDescriptors()}
	out = append(out, a.checkDirectory()...)
	out = append(out, a.checkGit()...)
	out = append(out, a.checkGraphQL()...)
	out = append(out, a.checkAddresses()...)
	for _, text := range a.publicity() {
		out = append(out, Finding{Warning, "exposure", text})
	}
	for _, text := range config.UnknownEnv(a.env) {
		out = append(out, Finding{Warning, "environment", text})
	}
	return out
}

func (a *App) checkPlan() Finding {
	p := a.Plan()
	if err := p.Check(); err != nil {
		return Finding{Failure, "memory", err.Error()}
	}
	return Finding{OK, "memory", fmt.Sprintf("the plan fits into %s (%s)", bytesize.Format(p.Limit), p.Source)}
}

func (a *App) checkDescriptors() Finding {
	var need int64
	for _, d := range a.Plan().Descriptors {
		need += d.Count
	}
	var have syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have); err != nil {
		return Finding{Failure, "descriptors", err.Error()}
	}
	text := fmt.Sprintf("%d files may be open at once, and the limit is %d", need, have.Max)
	if uint64(need) > have.Max {
		return Finding{Failure, "descriptors", text + ": raise it (ulimit -Hn, or LimitNOFILE= in the systemd unit), or lower bazel.max_connections"}
	}
	return Finding{OK, "descriptors", text}
}

// checkDirectory looks at the data directory, or at the nearest directory above it that exists and would hold it.
func (a *App) checkDirectory() []Finding {
	const what = "store"
	path := a.cfg.Store.Path
	base, err := existing(path)
	if err != nil {
		return []Finding{{Failure, what, a.cfg.Describe("store.path") + ": " + err.Error()}}
	}
	if err := unix.Access(base, unix.W_OK|unix.X_OK); err != nil {
		return []Finding{{Failure, what, fmt.Sprintf("%s: no permission to write in %s: %v", a.cfg.Describe("store.path"), base, err)}}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(base, &fs); err != nil {
		return []Finding{{Failure, what, fmt.Sprintf("%s: %v", base, err)}}
	}
	free := int64(fs.Bavail) * fs.Bsize
	text := fmt.Sprintf("%s is writable, %s of disk are free", path, bytesize.Format(free))
	if base != path {
		text = fmt.Sprintf("%s will be created in %s, %s of disk are free", path, base, bytesize.Format(free))
	}
	out := []Finding{{OK, what, text}}
	if base == path && locked(path) {
		out[0] = Finding{Warning, what, a.cfg.Describe("store.path") + " is in use, by this server or by another program"}
	}
	if least := int64(a.cfg.Store.MinFree); least > free {
		out = append(out, Finding{Warning, what, fmt.Sprintf("%s is more than is free there (%s): every write will be shed",
			a.cfg.Describe("store.min_free"), bytesize.Format(free))})
	}
	disk := int64(fs.Blocks) * fs.Bsize
	if most := int64(a.cfg.Store.MaxSize); most > disk {
		out = append(out, Finding{Warning, what, fmt.Sprintf("%s is more than the disk has (%s): store.min_free will shed writes before it is reached",
			a.cfg.Describe("store.max_size"), bytesize.Format(disk))})
	} else if most > free && base != path {
		out = append(out, Finding{Warning, what, fmt.Sprintf("%s is more than is free there (%s): store.min_free will shed writes before it is reached",
			a.cfg.Describe("store.max_size"), bytesize.Format(free))})
	}
	return out
}

// locked tells whether a server has the data directory. The lock is shared and held for a moment only, as checkAddresses
// does with addresses.
func locked(path string) bool {
	f, err := os.Open(filepath.Join(path, "lock")) // what blobstore locks
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// existing returns path, or the nearest directory above it that exists.
func existing(path string) (string, error) {
	for {
		info, err := os.Stat(path)
		switch {
		case err == nil && info.IsDir():
			return path, nil
		case err == nil:
			return "", fmt.Errorf("%s is not a directory", path)
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return "", err
		}
		parent := filepath.Dir(path)
		if parent == path {
			return "", err
		}
		path = parent
	}
}

// checkAddresses binds each address for a moment. One in use is a warning only: it may well be this very server.
func (a *App) checkAddresses() []Finding {
	var out []Finding
	for _, p := range a.addresses(nil) {
		l, err := net.Listen("tcp", p.addr)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			out = append(out, Finding{Warning, "addresses", a.cfg.Describe(p.path) + " is in use, by this server or by another program"})
		case err != nil:
			out = append(out, Finding{Failure, "addresses", fmt.Sprintf("%s: %v", a.cfg.Describe(p.path), err)})
		default:
			l.Close()
			out = append(out, Finding{OK, "addresses", a.cfg.Describe(p.path) + " is free"})
		}
	}
	return out
}
