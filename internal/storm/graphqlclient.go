package storm

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxGraphQLAnswer is far above what any question of ours can bring.
const maxGraphQLAnswer = 8 << 20

// graphqlHTTP asks. It may be used by many at once.
type graphqlHTTP struct {
	client *http.Client
	header http.Header
}

func newGraphQLHTTP(o *GraphQLOptions) (*graphqlHTTP, error) {
	h, err := o.header()
	if err != nil {
		return nil, err
	}
	t := &http.Transport{MaxIdleConnsPerHost: maxGraphQLClients, DisableCompression: true}
	return &graphqlHTTP{&http.Client{Transport: t, Timeout: o.Timeout}, h}, nil
}

func (c *graphqlHTTP) close() { c.client.CloseIdleConnections() }

// graphqlRequest is the body of a request.
type graphqlRequest struct {
	Query         string         `json:"query"`
	OperationName string         `json:"operationName,omitempty"`
	Variables     map[string]any `json:"variables,omitempty"`
}

func (r graphqlRequest) body() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("storm: a request of ours cannot be written: %v", err))
	}
	return text
}

// graphqlAnswer is what came back, whatever it was.
type graphqlAnswer struct {
	status     int
	retryAfter string
	body       []byte
}

func (c *graphqlHTTP) ask(ctx context.Context, url string, body []byte) (*graphqlAnswer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = c.header
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxGraphQLAnswer))
	if err != nil {
		return nil, err
	}
	return &graphqlAnswer{resp.StatusCode, resp.Header.Get("Retry-After"), text}, nil
}

// governedCodes are those that a shed may carry.
var governedCodes = []string{"SERVICE_OVERLOADED", "BUILD_TIMEOUT", "SERVICE_ROTATING"}

// graphqlBody is as much of an answer as is looked at.
type graphqlBody struct {
	Data   any `json:"data"`
	Errors []struct {
		Message    string `json:"message"`
		Extensions struct {
			Code string `json:"code"`
		} `json:"extensions"`
	} `json:"errors"`
}

// shedCode tells whether an answer is a shed as promised: 503, a known code, and when to come again. What is wrong with one
// that is not is the error.
func (a *graphqlAnswer) shedCode() (string, error) {
	var b graphqlBody
	if err := json.Unmarshal(a.body, &b); err != nil {
		return "", fmt.Errorf("a %d whose body is no JSON", a.status)
	}
	if a.status != http.StatusServiceUnavailable {
		return "", fmt.Errorf("status %d: %s", a.status, b.message())
	}
	code := ""
	if len(b.Errors) > 0 {
		code = b.Errors[0].Extensions.Code
	}
	if !slices.Contains(governedCodes, code) {
		return "", fmt.Errorf("a 503 whose extensions have no code of a shed, but %q", code)
	}
	if n, err := strconv.Atoi(a.retryAfter); err != nil || n < 1 {
		return "", fmt.Errorf("a 503 (%s) whose Retry-After is %q, not a whole number from 1", code, a.retryAfter)
	}
	return code, nil
}

func (b *graphqlBody) message() string {
	if len(b.Errors) == 0 {
		return "no error in the body"
	}
	message := b.Errors[0].Message
	if len(message) > 100 {
		message = message[:100] + " ..."
	}
	if code := b.Errors[0].Extensions.Code; code != "" {
		return message + " (" + code + ")"
	}
	return message
}

// Errors of an answer with status 200, told apart because one is far worse than the others.
var (
	errForeign = errors.New("a foreign row")
	errMissing = errors.New("rows are missing")
)

// check holds a 200 against what it must say: no error, and the sentinel in as many places as there must be, and no other.
func (a *graphqlAnswer) check(sentinel string, count int) error {
	var b graphqlBody
	if err := json.Unmarshal(a.body, &b); err != nil {
		return errors.New("a 200 whose body is no JSON")
	}
	if len(b.Errors) > 0 {
		return fmt.Errorf("a 200 with errors: %s", b.message())
	}
	seen, foreign := countSentinels(b.Data, sentinel)
	switch {
	case foreign != "":
		return fmt.Errorf("%w: %q in an answer for %q", errForeign, foreign, sentinel)
	case seen != count:
		return fmt.Errorf("%w: %d of %d", errMissing, seen, count)
	}
	return nil
}

// countSentinels walks to every field "tenant".
func countSentinels(v any, sentinel string) (seen int, foreign string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n, f := countSentinels(item, sentinel)
			seen, foreign = seen+n, max(foreign, f)
		}
	case map[string]any:
		for key, item := range v {
			text, isText := item.(string)
			switch {
			case key != sentinelColumn || !isText:
				n, f := countSentinels(item, sentinel)
				seen, foreign = seen+n, max(foreign, f)
			case text == sentinel:
				seen++
			default:
				foreign = max(foreign, text)
			}
		}
	}
	return seen, foreign
}

// signHS256 makes a token of claims, which are a JSON object.
func signHS256(secret, claims string, expires time.Time) (string, error) {
	var c map[string]any
	d := json.NewDecoder(strings.NewReader(claims))
	d.UseNumber()
	if err := d.Decode(&c); err != nil || c == nil {
		return "", fmt.Errorf("jwt-claims %q is no JSON object", claims)
	}
	if _, ok := c["exp"]; !ok {
		c["exp"] = expires.Unix()
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	text := enc.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc.EncodeToString(payload)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + enc.EncodeToString(mac.Sum(nil)), nil
}
