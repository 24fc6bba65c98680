package catalog

import (
	"strconv"
	"strings"
)

// arena keeps texts, each once, many in one piece of memory: a string of its own would take sixteen bytes at least.
type arena struct {
	known map[string]string
	chunk strings.Builder
	next  int
	bytes int64
}

const (
	firstChunk = 1 << 10
	lastChunk  = 64 << 10
)

func (a *arena) keep(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if s, ok := a.known[string(text)]; ok {
		return s
	}
	if a.known == nil {
		a.known, a.next = map[string]string{}, firstChunk
	}
	if a.chunk.Cap()-a.chunk.Len() < len(text) {
		a.chunk = strings.Builder{} // what was kept holds on to the old one
		a.chunk.Grow(max(a.next, len(text)))
		a.bytes += int64(a.chunk.Cap())
		a.next = min(2*a.next, lastChunk)
	}
	from := a.chunk.Len()
	a.chunk.Write(text)
	s := a.chunk.String()[from:]
	a.known[s] = s
	return s
}

// row is one row in text form.
type row struct{ columns [][]byte }

func (r row) text(i int) string { return string(r.columns[i]) }
func (r row) oid(i int) uint32  { return parseOID(r.columns[i]) }
func (r row) bool(i int) bool   { return string(r.columns[i]) == "t" }

func (r row) int(i int) int {
	n, _ := strconv.Atoi(string(r.columns[i])) // PostgreSQL's own output
	return n
}

// numbers reads "1 2 3".
func (r row) numbers(i int) (out []int16) {
	for _, field := range strings.Fields(string(r.columns[i])) {
		n, _ := strconv.ParseInt(field, 10, 16)
		out = append(out, int16(n))
	}
	return out
}

// list reads "{a,b}" or, of what does not begin at 1, "[0:1]={a,b}", of items that need no quotes.
func (r row) list(i int) []string {
	_, inner, _ := strings.Cut(string(r.columns[i]), "{")
	inner = strings.TrimSuffix(inner, "}")
	if inner == "" {
		return nil
	}
	return strings.Split(inner, ",")
}

func parseOID(b []byte) uint32 {
	n, _ := strconv.ParseUint(string(b), 10, 32)
	return uint32(n)
}

func oidArray(oids []string) string { return "{" + strings.Join(oids, ",") + "}" }

// textArray writes an array literal of texts.
func textArray(texts []string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = `"` + quote.Replace(t) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}
