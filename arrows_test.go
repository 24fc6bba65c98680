package levee

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// arrows says which package of this module may import which. A line reads "importers -> imports"; a name on
// the right that ends in /... stands for everything below it. A package below a listed one (internal/graphql/catalog) has
// its arrows, may import its own family, and needs no line of its own. Test files are free.
//
// What the picture keeps: the public leaves know nothing of each other, no service imports another, and all that joins
// parts is in cmd/levee and internal/serve.
const arrows = `
	# Leaves: the standard library and, below internal, libraries of others.
	gate, governor, residency, internal/bytesize ->
	internal/buildinfo, internal/blobstore, internal/hostguard, internal/pglocal, internal/raceless ->
	internal/config       -> internal/bytesize
	internal/storm        -> internal/bytesize
	internal/demo         -> internal/pglocal

	# The front door.
	levee                 -> gate, governor, residency, internal/bytesize

	# What services stand on.
	internal/shedcode     -> gate, residency
	internal/accesslog    -> gate
	internal/listen       -> gate
	internal/rpc          -> gate

	# Services.
	internal/bazel        -> levee, gate, governor, residency, internal/shedcode, internal/blobstore, internal/rpc, internal/listen, internal/accesslog, internal/buildinfo, internal/bytesize
	internal/git          -> levee, gate, governor, residency, internal/shedcode, internal/accesslog, internal/bytesize, internal/git/packs, internal/git/mirror, internal/git/upstream, internal/git/child, internal/git/pkt
	internal/git/packs    -> gate, internal/git/mirror, internal/git/child, internal/git/pkt
	internal/git/mirror   -> gate, internal/git/upstream, internal/git/child, internal/git/pkt
	internal/git/upstream -> internal/git/pkt
	internal/git/child, internal/git/pkt ->
	internal/graphql      -> levee, gate, governor, residency, internal/shedcode, internal/blobstore, internal/rpc, internal/listen, internal/accesslog, internal/bytesize

	# Views of Status. They ask no service, so they cannot disagree with it.
	internal/metrics, internal/dashboard -> levee, gate, governor, internal/buildinfo

	# What joins it all, and what tests the joint.
	internal/serve        -> levee, gate, governor, residency, internal/...
	internal/e2e, internal/nightly, internal/privtest -> levee, gate, governor, internal/...
	cmd/levee             -> levee, internal/serve, internal/storm, internal/demo, internal/config, internal/buildinfo, internal/bytesize
`

// onlyStandardLibrary lists the packages that import nothing but it and, as arrows allow, this module.
var onlyStandardLibrary = []string{"levee", "gate", "governor", "residency", "internal/bytesize"}

// onlyImporter says which package alone may import what starts with the key.
var onlyImporter = map[string]string{"github.com/prometheus/": "internal/metrics"}

const module = "github.com/leveehq/levee"

func TestImportsFollowTheArrows(t *testing.T) {
	allowed := parseArrows(t)
	for pkg, imports := range readImports(t) {
		family, ok := familyOf(pkg, allowed)
		if !ok {
			t.Errorf("%s has no line in arrows: say there what it may import", pkg)
			continue
		}
		for _, imported := range imports {
			if !mayImport(pkg, family, imported, allowed[family]) {
				t.Errorf("%s imports %s, for which there is no arrow", pkg, imported)
			}
		}
	}
}

func TestTheArrowsHaveNoCycle(t *testing.T) {
	allowed := parseArrows(t)
	state := map[string]int{} // 1 = being visited, 2 = done
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		if state[name] == 1 {
			t.Fatalf("a cycle: %s", strings.Join(append(path, name), " -> "))
		}
		if state[name] == 2 {
			return
		}
		state[name] = 1
		for _, next := range allowed[name] {
			if next != "internal/..." { // serve's; nothing below internal may name serve, and the loop above sees who does
				visit(next, append(path, name))
			}
		}
		state[name] = 2
	}
	for name, imports := range allowed {
		visit(name, nil)
		if name != "cmd/levee" && slices.Contains(imports, "internal/serve") {
			t.Errorf("%s may import the composition root", name)
		}
	}
}

func parseArrows(t *testing.T) map[string][]string {
	t.Helper()
	allowed := map[string][]string{}
	for line := range strings.Lines(arrows) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		left, right, ok := strings.Cut(line, "->")
		if !ok {
			t.Fatalf("no arrow in line %q", line)
		}
		for _, name := range list(left) {
			if _, ok := allowed[name]; ok {
				t.Fatalf("%s has two lines", name)
			}
			allowed[name] = list(right)
		}
	}
	return allowed
}

func list(s string) []string {
	var names []string
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// familyOf finds the listed package that pkg is or lies below.
func familyOf(pkg string, allowed map[string][]string) (string, bool) {
	for name := pkg; name != "."; name = filepath.Dir(name) {
		if _, ok := allowed[name]; ok {
			return name, true
		}
	}
	return "", false
}

func mayImport(pkg, family, imported string, allowed []string) bool {
	name, ours := strings.CutPrefix(imported, module)
	if !ours {
		return mayImportOthers(pkg, imported)
	}
	if name = strings.TrimPrefix(name, "/"); name == "" {
		name = "levee"
	}
	if name == family || strings.HasPrefix(name, family+"/") {
		return true
	}
	for _, a := range allowed {
		below, all := strings.CutSuffix(a, "...")
		if name == a || strings.HasPrefix(name, a+"/") || all && strings.HasPrefix(name, below) {
			return true
		}
	}
	return false
}

func mayImportOthers(pkg, imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library
	}
	if slices.Contains(onlyStandardLibrary, pkg) {
		return false
	}
	for prefix, importer := range onlyImporter {
		if strings.HasPrefix(imported, prefix) && pkg != importer {
			return false
		}
	}
	return true
}

// readImports reads what each package of the module imports, its test files left out.
func readImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != "." && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if pkg == "." {
			pkg = "levee"
		}
		all := imports[pkg]
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			all = append(all, imported)
		}
		imports[pkg] = all
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(imports) < 5 {
		t.Fatalf("found only %d packages", len(imports))
	}
	return imports
}
