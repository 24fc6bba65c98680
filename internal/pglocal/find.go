package pglocal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// packaged is where Debian, and Red Hat's like, keep each version's programs: they are not on the PATH there.
var packaged = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"}

var errNoServer = errors.New("no PostgreSQL server was found on this machine: install one (Debian, Ubuntu: apt-get install postgresql), or set LEVEE_PG_BIN to the directory of initdb and postgres")

// Find returns the directory of PostgreSQL's server programs: LEVEE_PG_BIN if that is set, else that of the PATH, else the
// newest version where packages keep them, else what pg_config says.
func Find() (string, error) { return find(packaged) }

func find(packaged []string) (string, error) {
	if dir := os.Getenv("LEVEE_PG_BIN"); dir != "" {
		if isServer(dir) {
			return dir, nil
		}
		return "", fmt.Errorf("LEVEE_PG_BIN is %s, where there are no programs initdb and postgres: correct it or unset it", dir)
	}
	for _, dir := range candidates(packaged) {
		if isServer(dir) {
			return dir, nil
		}
	}
	return "", errNoServer
}

func candidates(packaged []string) []string {
	var dirs []string
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range packaged {
		found, _ := filepath.Glob(pattern) // the patterns are good ones
		slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
		dirs = append(dirs, found...)
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	return dirs
}

// version is the number at the end of the parent's name, so that 15 is above 9.6, and 9 above nothing.
func version(bin string) int {
	name := filepath.Base(filepath.Dir(bin))
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return n
}

func isServer(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}
