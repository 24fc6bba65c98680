package serve

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestQ16ALongHeaderIsServedOrAnsweredInTheWordsOfItsService(t *testing.T) {
	s := run(t, graphqlOn)
	zeros := strings.Repeat("0", 64)
	for _, c := range []struct {
		method, path, field string
		length              int
		status              int
		text                string
	}{
		{"POST", "/graphql", "Authorization", 100_000, 401, `"code":"TOKEN_TOO_LARGE"`},
		{"POST", "/graphql", "Authorization", 10_000, 401, `"code":"TOKEN_TOO_LARGE"`},
		{"POST", "/graphql", "Authorization", 7_000, 401, `"code":"TOKEN_`},
		{"POST", "/graphql", "Cookie", 100_000, 431, `"code":"HEADER_TOO_LARGE"`},
		{"POST", "/graphql/shop", "Authorization", 100_000, 401, `"code":"TOKEN_TOO_LARGE"`},
		{"GET", "/cas/" + zeros, "Cookie", 100_000, 431, "longer than 12288 bytes"},
		{"GET", "/cas/" + zeros, "Cookie", 10_000, 404, ""},
		{"GET", "/git/example.org/x/info/refs", "Cookie", 100_000, 404, ""}, // git is off
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+s.cache+c.path, strings.NewReader(`{"query":"{ __typename }"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(c.field, "Bearer "+strings.Repeat("t", c.length))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("%s %s with %d bytes of %s: %v", c.method, c.path, c.length, c.field, err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.status || !strings.Contains(string(text), c.text) || err != nil {
			t.Errorf("%s %s with %d bytes of %s: %d %s %v, want %d %s", c.method, c.path, c.length, c.field, answer.StatusCode, text, err, c.status, c.text)
		}
		if cut := c.length > httpMost; cut != answer.Close && c.status != 401 {
			t.Errorf("%s: the connection closes: %v", fmt.Sprint(c), answer.Close)
		}
	}
}

// httpMost is the longest header that is read to its end.
const httpMost = 12 << 10
