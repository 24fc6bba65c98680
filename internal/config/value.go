package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/bytesize"
)

var (
	typeBytes    = reflect.TypeFor[Bytes]()
	typeDuration = reflect.TypeFor[time.Duration]()
)

// kindOf is the placeholder that help shows for a value of this type.
func kindOf(t reflect.Type) string {
	switch {
	case t == typeBytes:
		return "SIZE"
	case t == typeDuration:
		return "TIME"
	case t.Kind() == reflect.Slice:
		return "LIST"
	case t.Kind() == reflect.Map:
		return "PAIRS"
	case t.Kind() == reflect.Float64:
		return "SHARE"
	case t.Kind() == reflect.Bool:
		return "BOOL"
	case t.Kind() == reflect.String:
		return "TEXT"
	default:
		return "NUMBER"
	}
}

// setText sets v, the place of s, from the text of a flag, a variable, a default, or an already checked file value.
// Its error completes the sentence `<setting> = <text> …`.
func setText(v reflect.Value, s Setting, text string) error {
	text = strings.TrimSpace(text)
	if s.Default == Auto && text == Auto {
		v.SetZero()
		return nil
	}
	switch {
	case v.Type() == typeBytes:
		return setBytes(v, s, text)
	case v.Type() == typeDuration:
		return setDuration(v, s, text)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.ValueOf(splitList(text)))
		return nil
	case v.Kind() == reflect.Map:
		return setPairs(v, text)
	case v.Kind() == reflect.Float64:
		return setFloat(v, s, text)
	case v.Kind() == reflect.String:
		return setString(v, s, text)
	case v.Kind() == reflect.Bool:
		return setBool(v, text)
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("is not a whole number")
		}
		return setInt(v, s, n)
	}
}

func setBytes(v reflect.Value, s Setting, text string) error {
	if strings.HasPrefix(text, "-") {
		return fmt.Errorf("is negative; leave it out for the default, %s", s.Default)
	}
	n, err := bytesize.Parse(text)
	if err != nil {
		return fmt.Errorf("cannot be used: %w", err)
	}
	return setInt(v, s, n)
}

func setInt(v reflect.Value, s Setting, n int64) error {
	if n < 0 {
		return fmt.Errorf("is negative; leave it out for the default, %s", s.Default)
	}
	if err := inRange(s, float64(n)); err != nil {
		return err
	}
	if v.OverflowInt(n) {
		return errors.New("is too large")
	}
	v.SetInt(n)
	return nil
}

func setFloat(v reflect.Value, s Setting, text string) error {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) {
		return errors.New("is not a number such as 0.75")
	}
	if err := inRange(s, f); err != nil {
		return err
	}
	v.SetFloat(f)
	return nil
}

func inRange(s Setting, n float64) error {
	if n < s.min {
		return fmt.Errorf("is below the least possible, %s", formatNumber(s.min))
	}
	if n > s.max {
		return fmt.Errorf("is above the most possible, %s", formatNumber(s.max))
	}
	return nil
}

func setBool(v reflect.Value, text string) error {
	if text != "true" && text != "false" {
		return errors.New("is neither true nor false")
	}
	v.SetBool(text == "true")
	return nil
}

func setDuration(v reflect.Value, s Setting, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New(`is not a time with its unit, such as "10s" or "1m30s"`)
	}
	if d < 0 {
		return errors.New("is negative")
	}
	if least := seconds(s.min); d < least {
		return fmt.Errorf("is below the least possible, %v", least)
	}
	if most := seconds(s.max); d > most {
		return fmt.Errorf("is above the most possible, %v", most)
	}
	v.SetInt(int64(d))
	return nil
}

// seconds is a bound of a time, as its tag has it.
func seconds(n float64) time.Duration {
	if n > math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(n * float64(time.Second))
}

func setString(v reflect.Value, s Setting, text string) error {
	if s.Enum != nil && !slices.Contains(s.Enum, text) {
		return fmt.Errorf("is not one of %s%s", strings.Join(s.Enum, ", "), didYouMean(text, s.Enum))
	}
	if text == "" && s.Default != "" {
		return errors.New("is empty; leave it out for the default, " + s.Default)
	}
	v.SetString(text)
	return nil
}

func splitList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func setPairs(v reflect.Value, text string) error {
	pairs := map[string]string{}
	for _, part := range splitList(text) {
		name, value, ok := strings.Cut(part, "=")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !ok || name == "" || value == "" {
			return errors.New("is not a list of pairs such as name=value")
		}
		if _, twice := pairs[name]; twice {
			return fmt.Errorf("has %s twice", name)
		}
		pairs[name] = value
	}
	if len(pairs) == 0 {
		pairs = nil
	}
	v.Set(reflect.ValueOf(pairs))
	return nil
}

// joinPairs is in the order of the names, so that a message is the same each time.
func joinPairs(pairs map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		out = append(out, name+"="+pairs[name])
	}
	return strings.Join(out, ",")
}

// formatBytes is exact: a size that has no short name is written in bytes.
func formatBytes(n int64) string {
	short := bytesize.Format(n)
	if back, err := bytesize.Parse(short); err == nil && back == n && !strings.Contains(short, ".") {
		return short
	}
	return strconv.FormatInt(n, 10)
}

func formatNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Value is the value of the setting at path, as an operator would write it.
func (c *Config) Value(path string) string {
	s, ok := lookup(path)
	if !ok {
		return ""
	}
	return s.shown(format(s, s.field(c)))
}

func format(s Setting, v reflect.Value) string {
	switch {
	case s.Default == Auto && v.IsZero():
		return Auto
	case v.Type() == typeBytes:
		return formatBytes(v.Int())
	case v.Type() == typeDuration:
		return time.Duration(v.Int()).String()
	case v.Kind() == reflect.Slice:
		return strings.Join(v.Interface().([]string), ",")
	case v.Kind() == reflect.Map:
		return joinPairs(v.Interface().(map[string]string))
	default:
		return fmt.Sprint(v.Interface())
	}
}
