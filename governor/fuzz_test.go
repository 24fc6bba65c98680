package governor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// seed adds every recorded file of that name.
func seed(f *testing.F, name string) {
	f.Helper()
	files, err := filepath.Glob("testdata/*/" + name)
	if err != nil || len(files) == 0 {
		f.Fatalf("no recorded %s: %v", name, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
}

func FuzzCgroupFiles(f *testing.F) {
	seed(f, "proc/self/cgroup")
	seed(f, "proc/self/mountinfo")
	f.Add("0::/a\\040b\n")
	f.Add("1 2 3 / /\\777 - cgroup2 a b")
	f.Fuzz(func(t *testing.T, text string) {
		version, group, err := parseOwnGroup(text)
		if err != nil && (version != 0 || group != "") {
			t.Fatalf("answers %d, %q beside an error", version, group)
		}
		if version != 0 && !strings.HasPrefix(group, "/") {
			t.Fatalf("group %q is no path", group)
		}
		for _, version := range []int{1, 2} {
			mount, ok := parseMounts(text, version, "/a/b")
			if !ok {
				continue
			}
			dirs := mount.chain("/a/b")
			if len(dirs) == 0 {
				t.Fatalf("%+v holds no directory", mount)
			}
			for _, d := range dirs {
				if strings.HasPrefix(d, "/") || strings.Contains("/"+d+"/", "/../") {
					t.Fatalf("%+v leads to %q, outside of the mount", mount, d)
				}
			}
		}
	})
}

func FuzzMemoryFiles(f *testing.F) {
	seed(f, "sys/fs/cgroup/memory.stat")
	seed(f, "sys/fs/cgroup/memory/memory.stat")
	seed(f, "proc/self/status")
	seed(f, "proc/meminfo")
	f.Add("max\n")
	f.Add("9223372036854771712\n")
	f.Add("RssAnon:\t99999999999999999999 kB\nThreads:\t281474976710655\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseLimit(text); err == nil && n < 0 {
			t.Fatalf("limit %d", n)
		}
		if n := parseRAM(text); n < 0 {
			t.Fatalf("machine of %d bytes", n)
		}
		stat, err := parseStat(text)
		for name, n := range stat {
			if err != nil || n < 0 {
				t.Fatalf("%s is %d, error %v", name, n, err)
			}
		}
		if use, err := parseStatus(text); err == nil && use.Total() < 0 {
			t.Fatalf("use %+v", use)
		}
	})
}
