package pgpool

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// step is one statement of a pipeline and what its answer is for.
type step struct {
	prepared *prepared // nil: without a name
	each     func([][]byte) error
	tag      string // what PostgreSQL calls it when it has run, where that is known
}

// resetSession takes back whatever functions, triggers and policies may have left behind in a session: a role or a setting that is
// not local to a transaction, temporary tables, channels, cursors, locks. What it goes back to is what the session began with, so
// that ALTER ROLE … SET and ALTER DATABASE … SET hold, a role among them. It goes out behind each request that may write, in the same
// write, and is answered while nobody waits. There is no list of statements that need it: a list could be wrong, for custom settings
// cannot be looked up (pg_settings does not show them), and a view or a policy calls what it likes. DISCARD ALL does the same, but takes
// the prepared statements too, and RESET ALL leaves the role. It takes PostgreSQL as long as a look-up by key does: some 18 microseconds,
// of which 5 are an answer of its own, 5 the locks, and 1 to 2 each of the others.
const resetSession = "set session authorization default; reset role; reset all; discard temp; discard sequences; unlisten *; close all; select pg_catalog.pg_advisory_unlock_all()"

// encode puts the whole request into out.
func (c *conn) encode(r *Request, undone bool) error {
	if err := r.check(); err != nil {
		return err
	}
	n := c.countSettings(r)
	settings := settingsSQL(n)
	var before, after []plain
	if undone {
		before, after = undoneBegin[:], undoneEnd[:]
	}
	named := c.known != nil && len(before)+1+len(r.Statements)+len(after) <= c.known.limit
	c.steps = c.appendSteps(c.steps[:0], before, named)
	c.steps = append(c.steps, c.step("", settings, named, nil))
	role, first := r.role(), len(c.steps)
	for i := range r.Statements {
		s := &r.Statements[i]
		c.steps = append(c.steps, c.step(role, s.SQL, named && !s.Unnamed, s.Each))
	}
	c.steps = c.appendSteps(c.steps, after, named)
	b := c.evict(c.appendBegin(c.out[:0]))
	b = c.appendPlain(b, 0, before)
	b = c.appendSettings(b, c.steps[first-1].prepared, settings, n, r)
	b = c.appendDescribes(b, first, len(r.Statements))
	for i := range r.Statements {
		b = c.appendStatement(b, c.steps[first+i].prepared, &r.Statements[i])
	}
	b = c.appendPlain(b, first+len(r.Statements), after)
	b = c.appendEnd(b, undone)
	for _, s := range c.steps {
		if s.prepared != nil {
			s.prepared.asked = false
		}
	}
	c.out = b
	if len(b) > maxMessage {
		c.out, c.resetting = nil, false
		return fmt.Errorf("a request of %d bytes is larger than PostgreSQL takes", len(b))
	}
	return nil
}

func (c *conn) appendSteps(steps []step, texts []plain, named bool) []step {
	for _, p := range texts {
		s := c.step("", p.sql, named, nil)
		s.tag = p.tag
		steps = append(steps, s)
	}
	return steps
}

// appendPlain has statements without parameters run, of which the first is the step at.
func (c *conn) appendPlain(b []byte, at int, texts []plain) []byte {
	for i, p := range texts {
		b = c.appendStatement(b, c.steps[at+i].prepared, &Statement{SQL: p.sql, TextResults: true})
	}
	return b
}

func (c *conn) step(role, sql string, named bool, each func([][]byte) error) step {
	if !named {
		return step{each: each}
	}
	return step{prepared: c.known.get(role, sql), each: each}
}

// evict closes statements that are too many. That comes first: what fails later makes PostgreSQL skip the rest.
func (c *conn) evict(b []byte) []byte {
	if c.known == nil {
		return b
	}
	for p := c.known.evict(); p != nil; p = c.known.evict() {
		b = appendClose(b, p.name)
	}
	for _, name := range c.known.doomed {
		b = appendClose(b, name)
	}
	c.known.doomed = c.known.doomed[:0]
	return b
}

// appendParse has a statement parsed, unless it was, and returns its name.
func (c *conn) appendParse(b []byte, p *prepared, sql string) ([]byte, string) {
	switch {
	case p == nil:
		return appendParse(b, "", sql), ""
	case !p.ready && !p.asked:
		p.asked = true
		b = appendParse(b, p.name, sql)
	}
	return b, p.name
}

func (c *conn) appendSettings(b []byte, p *prepared, sql string, n int, r *Request) []byte {
	b, name := c.appendParse(b, p, sql)
	b, at := appendBind(b, name, 2*n)
	if c.known == nil {
		for _, s := range forms {
			b = appendValue(appendValue(b, s.Name), s.Value)
		}
	}
	for _, s := range r.Settings {
		b = appendValue(appendValue(b, s.Name), s.Value)
	}
	if r.Timeout > 0 {
		var digits [20]byte
		b = appendValue(appendValue(b, "statement_timeout"), strconv.AppendInt(digits[:0], milliseconds(r.Timeout), 10))
	}
	return append(endBind(b, at, textFormat), messageExecute...)
}

// milliseconds rounds up: to PostgreSQL 0 means no limit.
func milliseconds(d time.Duration) int64 {
	return min(int64((d+time.Millisecond-1)/time.Millisecond), 1<<31-1)
}

// appendDescribes has PostgreSQL look at every statement but the first before any of them runs, so that one that was prepared
// before its table changed fails while the request can still be repeated. (The first does so by itself.) They are n steps.
func (c *conn) appendDescribes(b []byte, first, n int) []byte {
	for i := 1; i < n; i++ {
		if p := c.steps[first+i].prepared; p != nil && p.ready {
			b = appendDescribe(b, p.name)
		}
	}
	return b
}

func (c *conn) appendStatement(b []byte, p *prepared, s *Statement) []byte {
	b, name := c.appendParse(b, p, s.SQL)
	b, at := appendBind(b, name, len(s.Params))
	for _, v := range s.Params {
		if v == nil {
			b = appendNull(b)
			continue
		}
		b = appendValue(b, v)
	}
	format := byte(binaryFormat)
	if s.TextResults {
		format = textFormat
	}
	return append(endBind(b, at, format), messageExecute...)
}

// forgetSteps has the statements of the present request parsed anew.
func (c *conn) forgetSteps() {
	for _, s := range c.steps {
		if s.prepared != nil && s.prepared.ready {
			c.known.doom(s.prepared)
		}
	}
}

func (c *conn) countSettings(r *Request) int {
	n := len(r.Settings)
	if c.known == nil {
		n += len(forms)
	}
	if r.Timeout > 0 {
		n++
	}
	return n
}

// role is "" for that of the session.
func (r *Request) role() string {
	for i := range r.Settings {
		if strings.EqualFold(r.Settings[i].Name, "role") {
			return r.Settings[i].Value
		}
	}
	return ""
}

func (r *Request) check() error {
	roles := 0
	for _, s := range r.Settings {
		if strings.EqualFold(s.Name, "role") {
			roles++
		}
	}
	if roles > 1 {
		return fmt.Errorf("a request has one role, not %d", roles)
	}
	if len(r.Settings) > maxSettings {
		return fmt.Errorf("a request has at most %d settings, not %d", maxSettings, len(r.Settings))
	}
	for i := range r.Statements {
		s := &r.Statements[i]
		if strings.IndexByte(s.SQL, 0) >= 0 {
			return fmt.Errorf("statement %d has a zero byte", i)
		}
		if len(s.Params) > 65535 {
			return fmt.Errorf("statement %d has %d parameters; PostgreSQL takes 65535", i, len(s.Params))
		}
	}
	return nil
}

const maxSettings = 1000

// settingsTexts are the statements for few settings, which are those of nearly every request.
var settingsTexts = func() (texts [33]string) {
	for n := range texts {
		texts[n] = buildSettings(n)
	}
	return texts
}()

func settingsSQL(n int) string {
	if n < len(settingsTexts) {
		return settingsTexts[n]
	}
	return buildSettings(n)
}

// buildSettings is a statement of n settings. PostgreSQL evaluates a select list from left to right.
func buildSettings(n int) string {
	var b strings.Builder
	b.WriteString("select ")
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "pg_catalog.set_config($%d, $%d, true)", 2*i+1, 2*i+2)
	}
	return b.String()
}
