package config

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Auto is how a setting is written whose figure the server works out.
const Auto = "auto"

// Setting is one row of the table that flags, variables, help and the file's grammar are made from.
type Setting struct {
	Path    string // as in messages: bazel.max_streams
	Flag    string // without dashes in front: bazel-max-streams
	Env     string // LEVEE_BAZEL_MAX_STREAMS
	Group   string // title of the block, "Memory and shutdown" for those outside of one
	Kind    string // placeholder in help: SIZE, TIME, NUMBER, SHARE, TEXT, WORD, LIST, PAIRS, BOOL
	Default string // as an operator would write it
	Help    string
	Enum    []string
	Secret  bool // its value is not shown anywhere

	min, max float64
	index    []int
}

// field is the setting's place in c.
func (s Setting) field(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(s.index)
}

// shown is text, the setting's value, as it may be shown.
func (s Setting) shown(text string) string {
	if s.Secret && text != "" && !isReference(text) {
		return "(not shown)"
	}
	return text
}

// isReference tells whether text says where a secret is, and is none.
func isReference(text string) bool {
	kind, name, _ := strings.Cut(text, ":")
	return (kind == "env" || kind == "file") && name != ""
}

// name is the last part of the path, as written inside the setting's block.
func (s Setting) name() string { return s.Path[strings.LastIndexByte(s.Path, '.')+1:] }

// Settings lists every setting in the order of the structs.
func Settings() []Setting { return settings() }

var settings = sync.OnceValue(func() []Setting {
	return appendSettings(nil, reflect.TypeFor[Config](), "", "Memory and shutdown", nil)
})

func appendSettings(out []Setting, t reflect.Type, prefix, group string, index []int) []Setting {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int(nil), index...), i)
		if block, ok := f.Tag.Lookup("block"); ok {
			out = appendSettings(out, f.Type, prefix+block+".", f.Tag.Get("title"), at)
			continue
		}
		if f.Anonymous { // settings that blocks have in common
			out = appendSettings(out, f.Type, prefix, group, at)
			continue
		}
		if name, ok := f.Tag.Lookup("hcl"); ok {
			out = append(out, newSetting(f, prefix+name, group, at))
		}
	}
	return out
}

func newSetting(f reflect.StructField, path, group string, index []int) Setting {
	s := Setting{
		Path: path, Group: group, index: index,
		Flag:    strings.NewReplacer(".", "-", "_", "-").Replace(path),
		Env:     "LEVEE_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_")),
		Kind:    kindOf(f.Type),
		Default: f.Tag.Get("default"),
		Help:    f.Tag.Get("help"),
		Secret:  f.Tag.Get("secret") != "",
		min:     tagNumber(f.Tag.Get("min"), 0),
		max:     tagNumber(f.Tag.Get("max"), 1<<62),
	}
	if flag := f.Tag.Get("flag"); flag != "" {
		s.Flag = flag
	}
	if e := f.Tag.Get("enum"); e != "" {
		s.Enum = strings.Split(e, ",")
		s.Kind = "WORD"
	}
	return s
}

func tagNumber(text string, otherwise float64) float64 {
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("config: bound " + text + " of a setting: " + err.Error())
	}
	return n
}

// lookup finds a setting by path.
func lookup(path string) (Setting, bool) {
	for _, s := range settings() {
		if s.Path == path {
			return s, true
		}
	}
	return Setting{}, false
}

// blocks maps the names of the blocks to their settings.
func blocks() map[string][]Setting {
	out := map[string][]Setting{}
	for _, s := range settings() {
		block := ""
		if i := strings.LastIndexByte(s.Path, '.'); i >= 0 {
			block = s.Path[:i]
		}
		out[block] = append(out[block], s)
	}
	return out
}
