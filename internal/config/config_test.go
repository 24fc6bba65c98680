package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestEverySettingIsDocumentedAndItsDefaultCanBeWritten(t *testing.T) {
	flags := map[string]string{}
	for _, s := range Settings() {
		if s.Help == "" || !strings.HasSuffix(s.Help, ".") {
			t.Errorf("%s: help %q is not a sentence", s.Path, s.Help)
		}
		if other, taken := flags[s.Flag]; taken {
			t.Errorf("%s and %s share the flag --%s", s.Path, other, s.Flag)
		}
		flags[s.Flag] = s.Path
		if s.Kind == "LIST" || s.Kind == "PAIRS" {
			continue // an empty list is the default, and is left out
		}
		c, err := Load(Sources{Env: []string{s.Env + "=" + s.Default}, Flags: map[string]string{s.Flag: Default().Value(s.Path)}})
		if err != nil {
			t.Errorf("writing the default of %s: %v", s.Path, err)
		} else if got, want := c.Value(s.Path), Default().Value(s.Path); got != want {
			t.Errorf("%s = %s after writing its default %s", s.Path, got, want)
		}
	}
}

func TestEveryFieldIsASettingOrABlock(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			_, block := f.Tag.Lookup("block")
			_, inner := f.Tag.Lookup("inner")
			if block || f.Anonymous {
				walk(f.Type)
			} else if inner {
				walk(f.Type.Elem())
			} else if f.Name == "Name" { // the label
			} else if _, setting := f.Tag.Lookup("hcl"); !setting && f.IsExported() {
				t.Errorf("%s.%s has no tag", typ.Name(), f.Name)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}

const whole = `
memory_limit   = "512MiB"
shutdown_grace = "10s"

listen {
  grpc  = "0.0.0.0:9092"
  http  = "[::1]:0"
  admin = ":9090"
  hosts = ["cache.example.com", "10.1.2.3"]
}

store {
  path       = "/var/lib/levee"
  max_size   = 1024 * 1024 * 1024
  min_free   = "auto"
  durability = "fsync"
}

bazel {
  max_streams     = 2000
  write_wait      = "50s"
  window          = "1MiB"
  shed_put_status = 503
}

governor {
  evict = 0.5
}

log { level = "warn" }
`

func TestAFileSetsEveryKindOfSetting(t *testing.T) {
	c, err := Parse([]byte(whole), "levee.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.MemoryLimit, want.ShutdownGrace = 512<<20, 10*time.Second
	want.Listen = Listen{GRPC: "0.0.0.0:9092", HTTP: "[::1]:0", Admin: ":9090", Hosts: []string{"cache.example.com", "10.1.2.3"}}
	want.Store.Path, want.Store.MaxSize, want.Store.Durability = "/var/lib/levee", 1<<30, "fsync"
	want.Bazel.MaxStreams, want.Bazel.WriteWait, want.Bazel.Window, want.Bazel.ShedPutStatus = 2000, 50*time.Second, 1<<20, 503
	want.Governor.Evict, want.Log.Level = 0.5, "warn"
	want.origins = c.origins
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	if got := c.Origin("bazel.write_wait"); got != (Origin{FromFile, "levee.hcl:21,3"}) {
		t.Errorf("origin of bazel.write_wait: %+v", got)
	}
}

func TestProblemsShowTheirPlaceAndWhatWasProbablyMeant(t *testing.T) {
	for _, test := range []struct{ name, src, want string }{
		{"a misspelled setting", "bazel {\n  max_steams = 5\n}\n",
			"levee.hcl:2,3: unknown setting \"max_steams\" in block \"bazel\"; did you mean \"max_streams\"?\n" +
				"  2 |   max_steams = 5\n" +
				"    |   ^^^^^^^^^^"},
		{"a misspelled block", "lissten {\n}\n",
			"levee.hcl:1,1: unknown block \"lissten\"; did you mean \"listen\"?\n  1 | lissten {\n    | ^^^^^^^"},
		{"a setting outside of its block", "max_streams = 5\n",
			"levee.hcl:1,1: unknown setting \"max_streams\" at the top of the file; there is bazel.max_streams\n" +
				"  1 | max_streams = 5\n    | ^^^^^^^^^^^"},
		{"a block written as a setting", "store = {}\n",
			"levee.hcl:1,1: unknown setting \"store\" at the top of the file; it is a block: write store { … } without =\n" +
				"  1 | store = {}\n    | ^^^^^"},
		{"a size that is none", "memory_limit = \"512 apples\"\n",
			"levee.hcl:1,16: memory_limit = \"512 apples\" "},
		{"a time without unit", "bazel {\n\twrite_wait = 10\n}\n",
			"levee.hcl:2,15: bazel.write_wait = 10 must be a time in quotes with its unit, such as \"10s\"\n" +
				"  2 | \twrite_wait = 10\n    | \t             ^^"},
		{"a negative number", "bazel {\n  max_writes = -1\n}\n",
			"levee.hcl:2,16: bazel.max_writes = -1 is negative; leave it out for the default, auto"},
		{"a number in quotes", "bazel {\n  max_writes = \"5\"\n}\n",
			"levee.hcl:2,16: bazel.max_writes = \"5\" must be a whole number without quotes"},
		{"a fraction of a stream", "bazel { max_writes = 1.5 }\n",
			"levee.hcl:1,22: bazel.max_writes = 1.5 is not a whole number"},
		{"a number beyond all bounds", "bazel { max_writes = 1e99999 }\n",
			"levee.hcl:1,22: bazel.max_writes = 1e99999 is out of range"},
		{"zero where only auto switches to the default", "bazel { max_writes = 0 }\n",
			"levee.hcl:1,22: bazel.max_writes = 0 is below the least possible, 1"},
		{"a word that is not allowed", "store { durability = \"fsnyc\" }\n",
			"levee.hcl:1,22: store.durability = \"fsnyc\" is not one of kill, fsync; did you mean \"fsync\"?"},
		{"a block twice", "log {\n}\nlog {\n}\n", "levee.hcl:3,1: block \"log\" is written twice; merge it with the one in line 1"},
		{"a setting twice", "log {\n  level = \"info\"\n  level = \"warn\"\n}\n", "levee.hcl:3,3: Attribute redefined"},
		{"a variable", "store { path = HOME }\n", "levee.hcl:1,16: Variables not allowed"},
		{"broken syntax", "store {\n  path = \n}\n", "levee.hcl:2,10: "},
		{"null", "shutdown_grace = null\n", "levee.hcl:1,18: shutdown_grace = null is null; leave the line out for the default"},
		{"a list of numbers", "listen { hosts = [1] }\n", "levee.hcl:1,18: listen.hosts = [1] must be a list such as [\"cache.example.com\"]"},
		{"a label", "store \"a\" {}\n", "levee.hcl:1,7: block \"store\" takes no label; remove \"a\""},
		{"a block within a block", "store {\n cache {}\n}\n", "levee.hcl:2,2: unknown block \"cache\" inside of \"store\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse([]byte(test.src), "levee.hcl")
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got:\n%s\nwant:\n%s", err, test.want)
			}
		})
	}
}

func TestAllProblemsOfAFileAreToldInItsOrder(t *testing.T) {
	_, err := Parse([]byte("a = 1\nb = 2\nc = 3\nlog {\n d = 4\n}\ne = 5\n"), "x.hcl")
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	var at []string
	for _, p := range problems {
		at = append(at, p.At)
	}
	if got, want := strings.Join(at, " "), "x.hcl:1,1 x.hcl:2,1 x.hcl:3,1 x.hcl:5,2 x.hcl:7,1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAFlagBeatsAVariableBeatsTheFileBeatsTheDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "levee.hcl")
	if err := os.WriteFile(file, []byte("store {\n path = \"f\"\n}\nbazel {\n max_writes = 1\n max_streams = 1000\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{
		File:  file,
		Env:   []string{"HOME=/x", "LEVEE_BAZEL_MAX_WRITES=2", "LEVEE_BAZEL_MAX_STREAMS=2000", "LEVEE_LISTEN_HOSTS=a, b"},
		Flags: map[string]string{"bazel-max-streams": "3000"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"store.path":        "f (" + file + ":2,2)",
		"bazel.max_writes":  "2 ($LEVEE_BAZEL_MAX_WRITES)",
		"bazel.max_streams": "3000 (--bazel-max-streams)",
		"listen.hosts":      "a,b ($LEVEE_LISTEN_HOSTS)",
		"listen.grpc":       "127.0.0.1:9092 (default)",
	} {
		if got := c.Describe(path); got != path+" = "+want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAWrongFlagOrVariableIsNamedAsItWasWritten(t *testing.T) {
	_, err := Load(Sources{
		Env:   []string{"LEVEE_SHUTDOWN_GRACE=ten"},
		Flags: map[string]string{"bazel-fair-by": "pear"},
	})
	want := "$LEVEE_SHUTDOWN_GRACE: shutdown_grace = \"ten\" is not a time with its unit, such as \"10s\" or \"1m30s\"\n" +
		"--bazel-fair-by: bazel.fair_by = \"pear\" is not one of peer, instance; did you mean \"peer\"?"
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	if _, err := Load(Sources{File: filepath.Join(t.TempDir(), "absent.hcl")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestSettingsThatContradictEachOtherAreNamedTogether(t *testing.T) {
	for _, test := range []struct{ src, first, second, fix string }{
		{"bazel {\n max_streams = 10\n max_streams_per_connection = 20\n}", "bazel.max_streams_per_connection = 20 (levee.hcl:3,2)", "bazel.max_streams = 10 (levee.hcl:2,2)", "lower"},
		{"bazel {\n max_streams = 10\n max_writes = 20\n}", "bazel.max_writes = 20", "bazel.max_streams = 10", "lower"},
		{"bazel {\n max_streams = 10\n write_queue = 20\n}", "bazel.write_queue = 20", "bazel.max_streams = 10", "lower"},
		{"bazel {\n write_queue = 20\n write_wait = \"0s\"\n}", "bazel.write_wait = 0s", "bazel.write_queue = 20", "set the first"},
		{"bazel { write_wait = \"60s\" }", "bazel.write_wait = 1m0s", "bazel.read_stall = 1m0s (default)", "lower"},
		{"bazel { window = \"8KiB\" }", "bazel.door_window = 16KiB (default)", "bazel.window = 8KiB", "lower"},
		{"store { max_size = \"1GiB\" }\nbazel { max_blob = \"2GiB\" }", "bazel.max_blob = 2GiB", "store.max_size = 1GiB", "lower"},
		{"store {\n max_size = \"1MiB\"\n}\nbazel { max_batch = \"2MiB\" }", "bazel.max_batch = 2MiB", "store.max_size = 1MiB", "lower"},
		{"store {\n max_size = \"1GiB\"\n max_blobs = 1000000\n}", "store.max_blobs = 1000000", "store.max_size = 1GiB", "lower"},
		{"governor { evict = 0.8 }", "governor.evict = 0.8", "governor.shed = 0.75 (default)", "lower"},
		{"listen { http = \"127.0.0.1:9092\" }", "listen.http = 127.0.0.1:9092", "listen.grpc = 127.0.0.1:9092", "port"},
	} {
		c, err := Parse([]byte(test.src), "levee.hcl")
		if err != nil {
			t.Errorf("%s: %v", test.src, err)
			continue
		}
		err = c.Validate()
		if err == nil {
			t.Errorf("%s: no error", test.src)
			continue
		}
		for _, want := range []string{test.first, test.second, test.fix} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s:\n%v\nlacks %q", test.src, err, want)
			}
		}
	}
}

func TestAddressesAreChecked(t *testing.T) {
	for _, src := range []string{
		`listen { grpc = "9092" }`, `listen { grpc = "localhost:http-alt" }`, `listen { grpc = "localhost:65536" }`,
	} {
		if c, err := Parse([]byte(src), "x"); err != nil {
			t.Errorf("%s: %v", src, err)
		} else if c.Validate() == nil {
			t.Errorf("%s: accepted", src)
		}
	}
	for _, src := range []string{
		`listen { grpc = ":0" }`, `listen { grpc = "[::]:9092" }`,
		"listen {\n grpc = \":0\"\n http = \":0\"\n}",
	} {
		if c, err := Parse([]byte(src), "x"); err != nil {
			t.Errorf("%s: %v", src, err)
		} else if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", src, err)
		}
	}
}

func TestASmallDoorNeedsNoSecondSetting(t *testing.T) {
	if _, err := Load(Sources{Flags: map[string]string{"bazel-max-streams": "100"}}); err != nil {
		t.Error(err)
	}
}

func TestUnknownVariablesAreToldButNotThoseOfKubernetes(t *testing.T) {
	got := UnknownEnv([]string{
		"LEVEE_MEMORY_LIMT=1", "LEVEE_STORE_PATH=x", "LEVEE_CONFIG=y", "PATH=z",
		"LEVEE_SERVICE_HOST=10.0.0.1", "LEVEE_SERVICE_PORT_GRPC=9092", "LEVEE_PORT=tcp://", "LEVEE_PORT_9092_TCP_ADDR=1",
	})
	want := []string{`the variable LEVEE_MEMORY_LIMT is not a setting; did you mean "LEVEE_MEMORY_LIMIT"?`}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}
