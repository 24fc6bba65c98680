package graphql

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

// recorded is a file of testdata/*/cases: a request, and what PostGraphile answered.
type recorded struct {
	Quirk     string            `json:"quirk"` // what PostGraphile does that a careful server may do otherwise
	Role      string            `json:"role"`
	Claims    map[string]string `json:"claims"`
	Steps     []step            `json:"steps"`
	Query     *string           `json:"query"`
	Variables any               `json:"variables"`
	Operation *string           `json:"operationName"`
	HTTP      struct {
		Method  string            `json:"method"`
		Headers map[string]string `json:"headers"`
		Search  string            `json:"search"`
		Body    any               `json:"body"`
	} `json:"http"`
	Mutates bool    `json:"mutates"`
	Sort    string  `json:"sort"`
	Compare string  `json:"compare"`
	Expect  answer  `json:"expect"`
	Ours    *answer `json:"ours"` // what is answered here instead, of a quirk
}

type answer struct {
	Status int `json:"status"`
	Body   any `json:"body"`
}

type step struct {
	Query     string            `json:"query"`
	Variables any               `json:"variables"`
	Save      map[string]string `json:"save"` // a name, and the path of a value in the answer
}

func recordedCases(t *testing.T, dir string) map[string]recorded {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "cases", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	out := map[string]recorded{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c recorded
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[filepath.Base(file)] = c
	}
	return out
}

// credentials put a case's role and claims into a request.
type credentials func(h http.Header, role string, claims map[string]string)

// run sends the case after its steps.
func (c recorded) run(t *testing.T, url string, as credentials) answer {
	t.Helper()
	saved := map[string]any{}
	for _, s := range c.Steps {
		_, body := c.send(t, url, as, &s.Query, fill(s.Variables, saved), nil)
		for name, path := range s.Save {
			if saved[name] = pick(body, path); saved[name] == nil {
				t.Errorf("a step gave nothing at %s: %v", path, body)
			}
		}
	}
	status, body := c.send(t, url, as, c.Query, fill(c.Variables, saved), c.Operation)
	return answer{status, body}
}

func (c recorded) send(t *testing.T, url string, as credentials, query *string, variables any, operation *string) (int, any) {
	t.Helper()
	method, body := "POST", io.Reader(nil)
	own := query == c.Query // a step is a plain POST
	if own && c.HTTP.Method != "" {
		method = c.HTTP.Method
	}
	if method != "GET" {
		body = bytes.NewReader(c.body(t, own, query, variables, operation))
	}
	if own {
		url += c.HTTP.Search
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/graphql-response+json, application/json")
	r.Header.Set("Content-Type", "application/json")
	if c.Role != "" || len(c.Claims) > 0 {
		as(r.Header, c.Role, c.Claims)
	}
	if own {
		for name, value := range c.HTTP.Headers {
			r.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	_ = json.Unmarshal(text, &out) // what is no JSON is compared as null
	return response.StatusCode, out
}

func (c recorded) body(t *testing.T, own bool, query *string, variables any, operation *string) []byte {
	t.Helper()
	if text, ok := c.HTTP.Body.(string); ok && own {
		return []byte(text)
	}
	in := map[string]any{"query": query}
	if variables != nil {
		in["variables"] = variables
	}
	if operation != nil {
		in["operationName"] = *operation
	}
	var of any = in
	if own && c.HTTP.Body != nil {
		of = c.HTTP.Body
	}
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// differences are what the case does not allow to differ.
func (c recorded) differences(wanted, given answer) (out []string) {
	if given.Status != wanted.Status {
		out = append(out, fmt.Sprintf("status %d, want %d", given.Status, wanted.Status))
	}
	want, got := soft(wanted.Body, ""), soft(given.Body, "")
	switch {
	case c.Compare == "data-and-error-paths":
		out = append(out, diff(member(want, "data"), member(got, "data"), "data")...)
		out = append(out, diff(errorPaths(want), errorPaths(got), "paths of errors")...)
	case c.Sort == "introspection":
		out = append(out, diff(sorted(want), sorted(got), "body")...)
	default:
		out = append(out, diff(want, got, "body")...)
	}
	if len(out) > 0 {
		if errs := member(given.Body, "errors"); errs != nil {
			out = append(out, fmt.Sprintf("errors: %v", errs))
		}
	}
	return out
}

func member(v any, name string) any {
	m, _ := v.(map[string]any)
	return m[name]
}

func errorPaths(v any) any {
	paths := map[string]bool{}
	list, _ := member(v, "errors").([]any)
	for _, e := range list {
		text, _ := json.Marshal(member(e, "path"))
		paths[string(text)] = true
	}
	out := []any{}
	for path := range paths {
		out = append(out, path)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].(string) < out[j].(string) })
	return out
}

// diff walks both values, and says at most six times where they differ.
func diff(want, got any, at string) (out []string) {
	const most = 6
	w, wok := want.(map[string]any)
	g, gok := got.(map[string]any)
	if wok && gok {
		keys := map[string]bool{}
		for k := range w {
			keys[k] = true
		}
		for k := range g {
			keys[k] = true
		}
		for k := range keys {
			_, inWant := w[k]
			_, inGot := g[k]
			switch {
			case !inWant:
				out = append(out, fmt.Sprintf("%s.%s: surplus %v", at, k, g[k]))
			case !inGot:
				out = append(out, fmt.Sprintf("%s.%s: missing", at, k))
			default:
				out = append(out, diff(w[k], g[k], at+"."+k)...)
			}
		}
		return out[:min(len(out), most)]
	}
	wl, wok := want.([]any)
	gl, gok := got.([]any)
	if wok && gok && len(wl) == len(gl) {
		for i := range wl {
			out = append(out, diff(wl[i], gl[i], fmt.Sprintf("%s[%d]", at, i))...)
		}
		return out[:min(len(out), most)]
	}
	if !reflect.DeepEqual(want, got) {
		return []string{fmt.Sprintf("%s: %.200v, want %.200v", at, got, want)}
	}
	return nil
}

// sorted orders lists of named things and of texts, so that introspection compares by meaning.
func sorted(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = sorted(v[i])
		}
		name := func(x any) (string, bool) {
			if s, ok := x.(string); ok {
				return s, true
			}
			s, ok := member(x, "name").(string)
			return s, ok
		}
		if slices.ContainsFunc(out, func(x any) bool { _, ok := name(x); return !ok }) {
			return out
		}
		sort.SliceStable(out, func(i, j int) bool {
			a, _ := name(out[i])
			b, _ := name(out[j])
			return a < b
		})
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = sorted(v[k])
		}
		return out
	}
	return v
}

var digest = regexp.MustCompile(`^[0-9a-f]{10}$`)

// soft replaces the first part of cursors, a digest of the ordering that nobody has to reproduce.
func soft(v any, key string) any {
	switch v := v.(type) {
	case string:
		if !strings.HasSuffix(strings.ToLower(key), "cursor") {
			return v
		}
		text, err := base64.StdEncoding.DecodeString(v)
		var parts []any
		if err != nil || json.Unmarshal(text, &parts) != nil || len(parts) == 0 {
			return v
		}
		if first, ok := parts[0].(string); ok && digest.MatchString(first) {
			values, _ := json.Marshal(parts[1:]) // as JSON: the text "1" is not the number
			return "cursor " + string(values)
		}
		return v
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = soft(v[i], key)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = soft(v[k], k)
		}
		return out
	}
	return v
}

func pick(v any, path string) any {
	for _, part := range strings.Split(path, ".") {
		if list, ok := v.([]any); ok {
			i := 0
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(list) {
				return nil
			}
			v = list[i]
			continue
		}
		v = member(v, part)
	}
	return v
}

// fill replaces "$saved:name".
func fill(v any, saved map[string]any) any {
	switch v := v.(type) {
	case string:
		if name, ok := strings.CutPrefix(v, "$saved:"); ok {
			return saved[name]
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = fill(v[i], saved)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = fill(v[k], saved)
		}
		return out
	}
	return v
}
