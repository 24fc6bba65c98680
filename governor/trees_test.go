package governor

import (
	"os"
	"path/filepath"
	"testing"
)

// tree is a recorded machine: the files of /proc and /sys that a reading looks at.
func tree(name string) meter {
	return meter{fsys: os.DirFS(filepath.Join("testdata", name)), scope: Group, limit: unlimited}
}

const ram = 24684084 << 10

func TestFindTakesTheLeastLimitOnTheWayToTheRoot(t *testing.T) {
	for name, want := range map[string]Found{
		"v2-container":     {Group: 1 << 30, GroupPath: "/sys/fs/cgroup", Version: 2, RAM: ram},
		"v2-nested":        {Group: 3 << 30, GroupPath: "/sys/fs/cgroup/ci.slice", Version: 2, RAM: ram}, // memory.high
		"v2-unlimited":     {Version: 2, RAM: ram},
		"v1-container":     {Group: 512 << 20, GroupPath: "/sys/fs/cgroup/memory", Version: 1, RAM: ram},
		"v1-hidden-parent": {Group: 768 << 20, GroupPath: "/sys/fs/cgroup/memory", Version: 1, RAM: ram},
		"hybrid-nested":    {Group: 2 << 30, GroupPath: "/sys/fs/cgroup/memory/jobs", Version: 1, RAM: ram},
		"no-cgroups":       {RAM: ram},
	} {
		got, err := Find(tree(name).fsys)
		if err != nil || got != want {
			t.Errorf("%s: found %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestUseLeavesPageCacheAndReclaimableSlabOut(t *testing.T) {
	const own = 10 * kernelStack // of the ten threads in the recorded status
	v2 := Use{
		Anon: 100 << 20, Shmem: 8 << 20, Unevictable: 512 << 10, KernelStack: 1 << 20, PageTables: 2 << 20,
		Sock: 4 << 20, Slab: 6 << 20, Dirty: 3 << 20, Writeback: 1 << 20,
	}
	v1 := v2
	v1.KernelStack, v1.PageTables, v1.Slab = own, 256<<10, 0
	noSock := v1
	noSock.Sock = 0
	for name, want := range map[string]Use{
		"v2-container": v2, "v1-container": v1, "v1-hidden-parent": noSock, "hybrid-nested": noSock,
	} {
		got, err := tree(name).read(nil)
		if err != nil || got.use != want {
			t.Errorf("%s: use %+v, %v; want %+v", name, got.use, err, want)
		}
	}
}

func TestUseIsThatOfTheGroupWhoseLimitBinds(t *testing.T) {
	got, err := tree("v2-nested").read(nil)
	if err != nil || got.group != "/sys/fs/cgroup/ci.slice" || got.use.Anon != 400000000 || got.limit != 3<<30 {
		t.Errorf("measured %+v, %v; want the use of ci.slice against 3 GiB", got, err)
	}
}

func TestVersionOneSaysWhatItCannotTell(t *testing.T) {
	got, err := tree("v1-container").read(nil)
	if err != nil || got.note == "" {
		t.Errorf("note %q, %v; want one about slab", got.note, err)
	}
}

func TestProcessScopeCountsThisProcessAlone(t *testing.T) {
	m := tree("v2-container")
	m.scope = Process
	got, err := m.read(nil)
	want := Use{Anon: 20 << 20, Shmem: 1 << 20, PageTables: 256 << 10, KernelStack: 10 * kernelStack}
	if err != nil || got.use != want {
		t.Errorf("use %+v, %v; want %+v", got.use, err, want)
	}
}

func TestThisMachineCanBeRead(t *testing.T) {
	found, err := Find(nil)
	if err != nil || found.RAM == 0 {
		t.Fatalf("found %+v, %v; want at least the machine's memory", found, err)
	}
	got, err := meter{fsys: orRoot(nil), limit: unlimited}.read(nil)
	if err != nil || got.use.Anon == 0 || got.use.KernelStack == 0 || got.use.PageTables == 0 {
		t.Fatalf("this process uses %+v, %v; want something of each", got.use, err)
	}
}

func TestMountRootsAndOddPathsStillFindTheGroup(t *testing.T) {
	for _, c := range []struct {
		mount cgroupMount
		group string
		want  []string
	}{
		{cgroupMount{"/", "/sys/fs/cgroup"}, "/a/b", []string{"sys/fs/cgroup/a/b", "sys/fs/cgroup/a", "sys/fs/cgroup"}},
		{cgroupMount{"/a", "/sys/fs/cgroup"}, "/a/b", []string{"sys/fs/cgroup/b", "sys/fs/cgroup"}},
		{cgroupMount{"/a", "/sys/fs/cgroup"}, "/ab", []string{"sys/fs/cgroup"}},
		{cgroupMount{"/", "/c"}, "/../x", []string{"c"}}, // moved out of its namespace: nothing above the mount is ours
		{cgroupMount{"/", "/"}, "/a", []string{"a", ""}},
	} {
		got := c.mount.chain(c.group)
		if len(got) != len(c.want) {
			t.Errorf("%v of %s: %q, want %q", c.mount, c.group, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%v of %s: %q, want %q", c.mount, c.group, got, c.want)
			}
		}
	}
}

func TestAnEscapedMountPointIsRead(t *testing.T) {
	line := `35 31 0:32 / /sys/fs/my\040groups rw - cgroup2 cgroup2 rw`
	m, ok := parseMount(line, 2)
	if !ok || m.point != "/sys/fs/my groups" {
		t.Errorf("%+v, %v", m, ok)
	}
}
