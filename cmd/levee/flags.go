package main

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/leveehq/levee/internal/config"
)

// configFlags are the flags of every command that reads the configuration: the file, and one flag for each setting,
// made from config's table so that none can be forgotten.
type configFlags struct {
	Config string `help:"HCL file to read [$LEVEE_CONFIG]." placeholder:"FILE"`

	kong.Plugins // one struct, see newSettingFlags
}

func newCLI() *cli {
	c := &cli{}
	for _, f := range []*configFlags{&c.Serve.configFlags, &c.Plan.configFlags, &c.Check.configFlags, &c.Demo.GraphQL.configFlags} {
		f.Plugins = kong.Plugins{newSettingFlags()}
	}
	return c
}

// newSettingFlags returns a pointer to a struct with a *string per setting, a []string if the setting is a list, whose flag
// may be given several times, or a *bool; nil means that the flag was not given. Kong parses text only: values, environment and
// precedence are config's business.
func newSettingFlags() any {
	var fields []reflect.StructField
	for i, s := range config.Settings() {
		help := fmt.Sprintf("%s [%s, $%s]", s.Help, orNone(s.Default), s.Env)
		if s.Enum != nil {
			help = fmt.Sprintf("%s One of %s. [%s, $%s]", s.Help, strings.Join(s.Enum, ", "), s.Default, s.Env)
		}
		tags := []string{
			"name:" + strconv.Quote(s.Flag),
			"help:" + strconv.Quote(help),
			"placeholder:" + strconv.Quote(s.Kind),
			"group:" + strconv.Quote(s.Group+":"),
		}
		typ := reflect.TypeFor[*string]()
		switch s.Kind {
		case "LIST", "PAIRS":
			typ = reflect.TypeFor[[]string]()
		case "BOOL":
			typ = reflect.TypeFor[*bool]()
			tags = append(tags, `negatable:""`)
		}
		fields = append(fields, reflect.StructField{
			Name: "Setting" + strconv.Itoa(i),
			Type: typ,
			Tag:  reflect.StructTag(strings.Join(tags, " ")),
		})
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// load merges file, environment and flags. preset are flags that apply where the command line has no others.
func (f *configFlags) load(env environment, preset map[string]string) (*config.Config, error) {
	sources := config.Sources{File: f.Config, Env: env.vars, Flags: map[string]string{}}
	maps.Copy(sources.Flags, preset)
	if sources.File == "" {
		sources.File = lookup(env.vars, config.EnvConfig)
	}
	values := reflect.ValueOf(f.Plugins[0]).Elem()
	for i, s := range config.Settings() {
		switch text := values.Field(i); {
		case text.IsNil():
		case text.Kind() == reflect.Slice:
			sources.Flags[s.Flag] = strings.Join(text.Interface().([]string), ",")
		case s.Kind == "BOOL":
			sources.Flags[s.Flag] = strconv.FormatBool(text.Elem().Bool())
		default:
			sources.Flags[s.Flag] = text.Elem().String()
		}
	}
	c, err := config.Load(sources)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

func lookup(vars []string, name string) string {
	for _, pair := range vars {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}
