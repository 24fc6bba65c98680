package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	genrules  = 48 // of the first layer; the second joins them four by four
	libraries = 8
)

// writeWorkspace makes a Bazel workspace of more than 50 actions in dir: two layers of genrules, C libraries, a C test
// and a shell test. The rules that Bazel would download are stubs, since there is no network.
func writeWorkspace(t *testing.T, dir string) {
	t.Helper()
	files := map[string]string{
		"WORKSPACE":    `workspace(name = "levee_e2e")`,
		".bazelignore": "stubs\n",
		"BUILD": fmt.Sprintf(`
N = %d
L = %d

[genrule(
    name = "g%%d" %% i,
    srcs = ["seed.txt"],
    outs = ["g%%d.txt" %% i],
    cmd = "(echo %%d; for i in 1 2 3 4 5 6 7 8 9; do cat $(SRCS); done) > $@" %% i,
) for i in range(N)]

[genrule(
    name = "j%%d" %% i,
    srcs = ["g%%d.txt" %% k for k in range(4 * i, 4 * i + 4)],
    outs = ["j%%d.txt" %% i],
    cmd = "cat $(SRCS) > $@",
) for i in range(N // 4)]

genrule(
    name = "all",
    srcs = ["j%%d.txt" %% i for i in range(N // 4)] + ["last.txt"],
    outs = ["all.txt"],
    cmd = "cat $(SRCS) > $@",
)

[cc_library(name = "l%%d" %% i, srcs = ["l%%d.c" %% i], hdrs = ["l%%d.h" %% i]) for i in range(L)]

cc_test(name = "c_test", srcs = ["c_test.c"], deps = [":l%%d" %% i for i in range(L)])

sh_test(name = "sh_test", srcs = ["sh_test.sh"], data = ["all.txt"])
`, genrules, libraries),
		"seed.txt":   "seed\n",
		"last.txt":   "last\n",
		"sh_test.sh": "#!/bin/sh\ngrep -q last all.txt && grep -q seed all.txt\n",

		"stubs/rules_cc/WORKSPACE": "",
		"stubs/rules_cc/cc/BUILD":  "",
		"stubs/rules_cc/cc/defs.bzl": `
cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_import = native.objc_import
objc_library = native.objc_library
`,
		"stubs/remote_coverage_tools/WORKSPACE": "",
		"stubs/remote_coverage_tools/BUILD": `
[sh_binary(name = n, srcs = ["none.sh"], visibility = ["//visibility:public"]) for n in ["coverage_report_generator", "lcov_merger"]]
`,
		"stubs/remote_coverage_tools/none.sh": "#!/bin/sh\nexit 1\n",
	}
	var test strings.Builder
	for i := range libraries {
		files[fmt.Sprintf("l%d.h", i)] = fmt.Sprintf("int l%d(void);\n", i)
		files[fmt.Sprintf("l%d.c", i)] = fmt.Sprintf("#include \"l%d.h\"\nint l%d(void) { return %d; }\n", i, i, i)
		fmt.Fprintf(&test, "#include \"l%d.h\"\n", i)
	}
	fmt.Fprintf(&test, "int main(void) { return l0() + l%d() == %d ? 0 : 1; }\n", libraries-1, libraries-1)
	files["c_test.c"] = test.String()
	for name, text := range files {
		writeFile(t, filepath.Join(dir, name), text)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
		t.Fatal(err)
	}
}
