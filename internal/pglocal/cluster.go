package pglocal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// unprivileged is the account that packages make for PostgreSQL, or nobody: PostgreSQL refuses to run as root.
func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and this machine has neither an account postgres nor nobody: make one, or run as another user")
}

// prepare makes the cluster if there is none.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.prepareDir(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); err == nil {
		return nil
	}
	// Under another name until it is whole: initdb writes PG_VERSION first.
	part := s.data() + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.Mkdir(part, 0o700); err != nil {
		return err
	}
	if err := s.give(part); err != nil {
		return err
	}
	if err := s.initdb(ctx, part); err != nil {
		return err
	}
	return os.Rename(part, s.data())
}

// prepareDir makes Dir, and leaves its owner alone if it holds anything: it may be somebody's home.
func (s *Server) prepareDir() error {
	if err := os.MkdirAll(s.o.Dir, 0o755); err != nil {
		return err
	}
	if s.as == nil {
		return nil
	}
	entries, err := os.ReadDir(s.o.Dir)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		if err := s.give(s.o.Dir); err != nil {
			return err
		}
	}
	return enterable(s.o.Dir, s.as)
}

func (s *Server) give(path string) error {
	if s.as == nil {
		return nil
	}
	return os.Chown(path, int(s.as.Uid), int(s.as.Gid))
}

// enterable says which directory keeps the account out. What initdb and the kernel say of it does not name one.
func enterable(dir string, as *syscall.Credential) error {
	for at := dir; ; at = filepath.Dir(at) {
		var st syscall.Stat_t
		if err := syscall.Stat(at, &st); err != nil {
			return &os.PathError{Op: "stat", Path: at, Err: err}
		}
		execute := uint32(0o001)
		switch {
		case st.Uid == as.Uid:
			execute = 0o100
		case st.Gid == as.Gid:
			execute = 0o010
		}
		if st.Mode&execute == 0 {
			return fmt.Errorf("PostgreSQL cannot run as root, and uid %d, which it is to run as, cannot enter %s: choose a directory that it can reach", as.Uid, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func (s *Server) initdb(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "--pgdata", dir, "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--lc-ctype", "C.UTF-8", "--no-sync", "--no-instructions")
	s.asUser(cmd)
	// The signal comes when the thread that started the child ends, not the process; a locked one stays until we return.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("initdb in %s: %w", dir, context.Cause(ctx))
		}
		return fmt.Errorf("initdb in %s: %w: %s", dir, err, bytes.TrimSpace(out))
	}
	return nil
}

// asUser also takes the child out of the terminal's process group: an interrupt is for us to pass on.
func (s *Server) asUser(cmd *exec.Cmd) {
	cmd.Dir = s.o.Dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TZ=UTC", "HOME="+s.o.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.as}
}
