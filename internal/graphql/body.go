package graphql

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
)

const (
	// bodyPatience is how long a client may take to send its request.
	bodyPatience = 10 * time.Second

	// smallBody and smallValues are covered by perRequest: the body with its copies, and what it is parsed into.
	smallBody   = 8 * kib
	smallValues = 16 * kib

	// bodyFactor is how many times its length a body takes while it is read and taken apart.
	bodyFactor = 3
)

// receive takes in the body, before the request has a place at the door: who sends slowly keeps nobody out. Large ones are charged
// for until taken is called, fairly between addresses, as nobody is known yet.
func (c *call) receive() (body []byte, taken func(), err error) {
	length, taken := c.r.ContentLength, func() {}
	if length > c.opt.MaxBody {
		return nil, taken, c.tooLong()
	}
	if length < 0 {
		length = c.opt.MaxBody // it comes in chunks, and does not say
	}
	if length > smallBody {
		host, _, _ := net.SplitHostPort(c.r.RemoteAddr)
		p, err := c.gates.bodies.Admit(c.r.Context(), host, min(length*bodyFactor, c.shares.bodies))
		if err != nil {
			return nil, taken, err
		}
		taken = p.Release
	}
	body, err = c.readBody(length)
	if err != nil {
		taken()
	}
	return body, taken, err
}

// parse takes the body apart, and charges for what that becomes, which may be sixty times as large. Who waits for that holds the
// body, and nobody the other way around.
func (c *call) parse(body []byte) (r sqlgen.Request, err error) {
	e, err := open(c.r.Header.Get("Content-Type"), body)
	if err != nil {
		return r, err
	}
	if n := int64(len(e.query)) + weigh(e.variables); n > smallValues {
		if err := c.admit(c.gates.variables, n); err != nil {
			return r, c.tooMuch(err)
		}
	}
	return e.request()
}

func (c *call) tooLong() error {
	return &problem{http.StatusRequestEntityTooLarge, "REQUEST_TOO_LARGE", fmt.Sprintf("The request is longer than %d bytes (graphql.max_body).", c.opt.MaxBody)}
}

// tooMuch tells a request that will never fit from one that has no room now.
func (c *call) tooMuch(err error) error {
	var shed *gate.Shed
	if errors.As(err, &shed) && shed.Reason == gate.TooLarge {
		return &problem{http.StatusRequestEntityTooLarge, "REQUEST_TOO_LARGE", "The variables have more values than there is memory for: send fewer at a time, or have graphql.memory raised."}
	}
	return err
}

// readBody reads what is announced with length, at most. What is longer is not read to its end.
func (c *call) readBody(length int64) ([]byte, error) {
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(c.start.Add(bodyPatience))
	_ = rc.SetWriteDeadline(time.Time{}) // some wait for a build; ours begins with the answer
	b := bytes.NewBuffer(make([]byte, 0, min(length, smallBody)+bytes.MinRead))
	if c.r.ContentLength > 0 {
		b.Grow(int(length) + bytes.MinRead)
	}
	_, err := b.ReadFrom(http.MaxBytesReader(c.w, c.r.Body, c.opt.MaxBody))
	_ = rc.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &large):
		return nil, c.tooLong()
	case errors.As(err, &slow) && slow.Timeout():
		return nil, &problem{http.StatusRequestTimeout, "REQUEST_TIMEOUT", fmt.Sprintf("The request did not arrive within %v.", bodyPatience)}
	case err != nil:
		return nil, fmt.Errorf("reading the request: %w", context.Canceled)
	}
	return b.Bytes(), nil
}

// envelope is a request whose variables are not yet taken apart.
type envelope struct {
	query, operation string
	variables        json.RawMessage
}

func badRequest(text string) error { return &problem{http.StatusBadRequest, "BAD_REQUEST", text} }

func open(contentType string, body []byte) (e envelope, err error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" {
		media = contentType
	}
	switch media {
	case "application/graphql":
		e.query = string(body)
		return e, nil
	case "application/json":
	default:
		return e, &problem{http.StatusUnsupportedMediaType, "MEDIA_TYPE", fmt.Sprintf("Media type '%s' is not allowed; send application/json", cut(media))}
	}
	var in struct {
		Query         *string         `json:"query"`
		OperationName *string         `json:"operationName"`
		Variables     json.RawMessage `json:"variables"`
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && trimmed[0] != '{' {
		return e, badRequest("Invalid body; expected object")
	}
	if err := json.Unmarshal(body, &in); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return e, badRequest(kind.Field + " must be a string")
		}
		return e, badRequest("Parsing failed, please check that the data you're sending to the server is correct")
	}
	if in.Query == nil {
		return e, badRequest("query must be a string")
	}
	e.query, e.variables = *in.Query, in.Variables
	if in.OperationName != nil {
		e.operation = *in.OperationName
	}
	return e, nil
}

// request takes the variables apart.
func (e *envelope) request() (sqlgen.Request, error) {
	r := sqlgen.Request{Query: e.query, OperationName: e.operation}
	if len(e.variables) == 0 || string(e.variables) == "null" {
		return r, nil
	}
	d := json.NewDecoder(bytes.NewReader(e.variables))
	d.UseNumber()
	if err := d.Decode(&r.Variables); err != nil {
		return r, badRequest("variables must be an object")
	}
	return r, nil
}

// What values of JSON take in memory, as maps, slices and strings, in bytes; a test holds these figures.
const (
	perByte   = 5 // the decoder's copies, the text of strings, and the parameters that they are sent as
	perObject = 160
	perKey    = 280 // with what the object has outgrown
	perValue  = 104 // with what the list has outgrown
)

// weigh is how many bytes valid JSON becomes when it is taken apart, and sent on as parameters.
func weigh(text []byte) int64 {
	n := int64(perByte * len(text))
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			n += perObject
		case ':':
			n += perKey
		case '[', ',':
			n += perValue
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return n
}
