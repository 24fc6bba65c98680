package gitcases

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// hasSetting looks in what the spy noted of a child's environment: GIT_CONFIG_KEY_n, in any case.
func hasSetting(env, setting string) bool {
	pattern := regexp.MustCompile(`(?i)GIT_CONFIG_KEY_\d+=["']?` + regexp.QuoteMeta(setting) + `["']?\s`)
	return pattern.MatchString(env + "\n")
}

// mirrorSays looks in the mirrors' own configuration.
func mirrorSays(s *rig.GitServer, setting string) bool {
	section, name, _ := strings.Cut(setting, ".")
	for _, dir := range s.Mirrors() {
		text, err := os.ReadFile(filepath.Join(dir, "config"))
		if err != nil || !regexp.MustCompile(`(?is)\[`+section+`\][^\[]*\b`+name+`\s*=`).Match(text) {
			return false
		}
	}
	return true
}
