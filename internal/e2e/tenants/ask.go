package tenants

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}, Timeout: 30 * time.Second}

// answer is what a client got, once it was found to be right.
type answer struct {
	began time.Time
	took  time.Duration
	code  string // "" is a right answer; unknown; otherwise that of the 503
}

func (a answer) good() bool { return a.code == "" }

// unknown is the code of a mutation of which the command cannot tell whether it was done.
const unknown = "OUTCOME_UNKNOWN"

// ask sends a query to a tenant. Its error is an answer that nobody may get.
func ask(ctx context.Context, address, tenant string, q query) (answer, error) {
	body, err := json.Marshal(map[string]string{"query": q.text})
	if err != nil {
		return answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/graphql/"+tenant, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	a := answer{began: time.Now()}
	response, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	a.took = time.Since(a.began)
	if err == nil {
		a.code, err = check(response, text, tenant, q)
	}
	if err != nil {
		err = fmt.Errorf("%s: %s: %w: %d %.300s", tenant, q.text, err, response.StatusCode, text)
	}
	return a, err
}

// check returns the code of a 503 or unknown, and an error unless the answer is one of those or has so many fields, all this tenant's.
func check(r *http.Response, text []byte, tenant string, q query) (code string, err error) {
	var a struct {
		Data   map[string]any
		Errors []struct{ Extensions struct{ Code string } }
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return "", err
	}
	switch {
	case r.StatusCode == http.StatusServiceUnavailable:
		if after, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || after < 1 || len(a.Errors) == 0 || a.Errors[0].Extensions.Code == "" || a.Data != nil {
			return "", fmt.Errorf("a 503 that does not say why, or when to come back")
		}
		return a.Errors[0].Extensions.Code, nil
	case r.StatusCode == http.StatusOK && q.key != "" && len(a.Errors) == 1 && a.Errors[0].Extensions.Code == unknown && a.Data["noteWrite"] == nil:
		return unknown, nil
	case r.StatusCode != http.StatusOK || len(a.Errors) > 0 || len(a.Data) != q.fields:
		return "", fmt.Errorf("neither right nor turned away")
	}
	for _, v := range a.Data {
		if told := words(v, nil); len(told) == 0 || strings.Join(told, " ") != strings.TrimSpace(strings.Repeat(tenant+" ", len(told))) {
			return "", fmt.Errorf("it is another's: %v", told)
		}
	}
	return "", nil
}

// words are all texts in a value.
func words(v any, to []string) []string {
	switch v := v.(type) {
	case string:
		return append(to, v)
	case map[string]any:
		for _, e := range v {
			to = words(e, to)
		}
	case []any:
		for _, e := range v {
			to = words(e, to)
		}
	}
	return to
}

// query is one, and how many root fields it has. With a key it is a mutation, which writes that down.
type query struct {
	text   string
	fields int
	key    string
}

const notes = "allNotes { nodes { body } }"

func list() query  { return query{text: "{ " + notes + " }", fields: 1} }
func first() query { return query{text: "{ noteByRowId(rowId: \"1\") { body } }", fields: 1} }
func five() query {
	return query{text: "{ a: " + notes + " b: " + notes + " c: noteByRowId(rowId: \"2\") { body } d: nap(seconds: 0.001) e: " + notes + " }", fields: 5}
}

func nap(seconds float64) query {
	return query{text: fmt.Sprintf("{ nap(seconds: %v) }", seconds), fields: 1}
}

func shortNap() query { return nap(0.03) }

// write takes a while, so that many are under way when PostgreSQL dies, some before they write and some behind it.
func write() query {
	key := rand.Text()
	return query{text: fmt.Sprintf("mutation { noteWrite(input: {key: %q}) { result } }", key), fields: 1, key: key}
}
