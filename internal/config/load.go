package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// OriginKind says what a setting's value came from.
type OriginKind string

const (
	FromDefault OriginKind = "default"
	FromFile    OriginKind = "file"
	FromEnv     OriginKind = "env"
	FromFlag    OriginKind = "flag"
)

// Origin says where a setting's value was written, so that a message can send the operator there.
type Origin struct {
	Kind  OriginKind
	Where string // levee.hcl:3,5, $LEVEE_…, --flag, or "default"
}

// Sources are where Load looks, in rising precedence.
type Sources struct {
	File  string            // path of the HCL file; "" for none
	Env   []string          // as os.Environ gives it
	Flags map[string]string // by Setting.Flag; only those given
}

// Load merges the sources over the defaults and validates the result. Its error is a Problems, unless the file cannot
// be read.
func Load(s Sources) (*Config, error) {
	c, err := loadFile(s.File)
	var problems Problems
	if err != nil {
		var isProblems bool
		if problems, isProblems = err.(Problems); !isProblems {
			return nil, err
		}
	}
	env := environment(s.Env)
	for _, setting := range settings() {
		if text, ok := env[setting.Env]; ok {
			problems = append(problems, c.override(setting, text, Origin{FromEnv, "$" + setting.Env})...)
		}
		if text, ok := s.Flags[setting.Flag]; ok {
			problems = append(problems, c.override(setting, text, Origin{FromFlag, "--" + setting.Flag})...)
		}
	}
	if len(problems) > 0 { // a value that could not be read makes contradictions that are not there
		return nil, problems
	}
	c.inherit()
	return c, c.Validate()
}

func loadFile(path string) (*Config, error) {
	if path == "" {
		return Default(), nil
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	return Parse(src, path)
}

func (c *Config) override(s Setting, text string, from Origin) Problems {
	if err := setText(s.field(c), s, text); err != nil {
		return Problems{{At: from.Where, Text: fmt.Sprintf("%s = %q %v", s.Path, s.shown(oneLine(text, 60)), err)}}
	}
	c.origins[s.Path] = from
	return nil
}

// Origin says where the value of the setting at path was written.
func (c *Config) Origin(path string) Origin {
	if o, ok := c.origins[path]; ok {
		return o
	}
	return Origin{FromDefault, string(FromDefault)}
}

func environment(environ []string) map[string]string {
	out := map[string]string{}
	for _, pair := range environ {
		if name, text, ok := strings.Cut(pair, "="); ok && strings.HasPrefix(name, "LEVEE_") {
			out[name] = text
		}
	}
	return out
}

// UnknownEnv says, a sentence each, which LEVEE_ variables of environ are no setting. They are not errors: Kubernetes
// gives every pod LEVEE_SERVICE_HOST and the like once a service is called levee, and those are passed over.
func UnknownEnv(environ []string) []string {
	var known, out []string
	for _, s := range settings() {
		known = append(known, s.Env)
	}
	known = append(known, EnvConfig)
	for name := range environment(environ) {
		if !slices.Contains(known, name) && !fromKubernetes(name) {
			out = append(out, fmt.Sprintf("the variable %s is not a setting%s", name, didYouMean(name, known)))
		}
	}
	slices.Sort(out)
	return out
}

// EnvConfig names the file when no --config does.
const EnvConfig = "LEVEE_CONFIG"

func fromKubernetes(name string) bool {
	rest := strings.TrimPrefix(name, "LEVEE_")
	return strings.Contains(rest, "SERVICE_HOST") || strings.Contains(rest, "SERVICE_PORT") ||
		rest == "PORT" || strings.HasPrefix(rest, "PORT_") || strings.Contains(rest, "_PORT_")
}
