package pglocal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// Find returns the directory of PostgreSQL's server programs: LEVEE_PG_BIN if that is set, else the newest version where
// Debian and its like keep them, else that of the PATH.
func Find() (string, error) {
	if dir := os.Getenv("LEVEE_PG_BIN"); dir != "" {
		if isServer(dir) {
			return dir, nil
		}
		return "", fmt.Errorf("LEVEE_PG_BIN is %s, where there are no programs initdb and postgres: correct it or unset it", dir)
	}
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is a good one
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, dir := range dirs {
		if isServer(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no PostgreSQL server was found on this machine: install one (Debian: apt-get install postgresql), or set LEVEE_PG_BIN to the directory of initdb and postgres")
}

func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
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
