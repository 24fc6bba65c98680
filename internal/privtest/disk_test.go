package privtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// disk is a file system of its own, on a loop device over a sparse file.
type disk struct {
	t      *testing.T
	dir    string
	device string
}

// newDisk makes and mounts an ext4 of that size.
func newDisk(t *testing.T, size int64) disk {
	t.Helper()
	base := t.TempDir()
	image := filepath.Join(base, "image")
	d := disk{t: t, dir: filepath.Join(base, "mounted")}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, "mkfs.ext4", "-q", "-F", "-m", "0", image)
	d.device = command(t, "losetup", "--find", "--show", image)
	t.Cleanup(func() { command(t, "losetup", "--detach", d.device) })
	command(t, "mount", "-o", "noatime", d.device, d.dir)
	t.Cleanup(func() { command(t, "umount", d.dir) }) // before the directory is removed, and after the server has ended
	return d
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// freeze has every write to the file system wait until thaw, which may be called more than once.
func (d disk) freeze() (thaw func()) {
	d.t.Helper()
	command(d.t, "fsfreeze", "--freeze", d.dir)
	frozen := true
	thaw = func() {
		if frozen {
			frozen = false
			command(d.t, "fsfreeze", "--unfreeze", d.dir)
		}
	}
	d.t.Cleanup(thaw)
	return thaw
}

// throttle writes to so many bytes a second until the func returned is called, which may be more than once.
func (d disk) throttle(rate int64) (stop func()) {
	d.t.Helper()
	const v1 = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device"
	var st unix.Stat_t
	if err := unix.Stat(d.device, &st); err != nil {
		d.t.Fatal(err)
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	set := func(rate int64) {
		d.t.Helper()
		if err := os.WriteFile(v1, fmt.Appendf(nil, "%s %d", device, rate), 0o644); err != nil {
			d.t.Fatalf("slow %s down (%s is not there with version 2 only, whose root cannot be throttled): %v", device, v1, err)
		}
	}
	set(rate)
	slow := true
	stop = func() {
		if slow {
			slow = false
			set(0)
		}
	}
	d.t.Cleanup(stop)
	return stop
}
