package sqlgen

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the SQL of testdata/sql anew")

// errStop ends an operation where its SQL is known.
var errStop = errors.New("nothing is run")

// recorder is a DB that runs nothing.
type recorder struct{ asks []Statement }

func (r *recorder) DoAll(_ context.Context, statements []Statement) error {
	r.asks = append(r.asks, statements...)
	return errStop
}

// The files hold an operation, its variables if it has any, and the statements that it becomes, laid out for reading. What is in them
// has been looked at: a change of one is a change of what every operation of its kind sends.
func TestOperationsBecomeTheStatementsOfTestdata(t *testing.T) {
	e, _ := forum(t, Options{PlanBytes: 1})
	files, err := filepath.Glob("testdata/sql/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			asked, want, _ := strings.Cut(string(text), "\n----\n")
			got := statementsOf(t, e, asked)
			if *update {
				want = got
				if err := os.WriteFile(file, []byte(asked+"\n----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got != want {
				t.Errorf("%s became\n%s\nnot\n%s", asked, got, want)
			}
		})
	}
}

func statementsOf(t *testing.T, e *Engine, asked string) string {
	t.Helper()
	query, variables, _ := strings.Cut(asked, "\n{")
	r := Request{Query: query}
	if variables != "" {
		d := json.NewDecoder(strings.NewReader("{" + variables))
		d.UseNumber()
		if err := d.Decode(&r.Variables); err != nil {
			t.Fatal(err)
		}
	}
	db := &recorder{}
	response, err := e.Execute(t.Context(), db, r)
	if !errors.Is(err, errStop) && len(db.asks) == 0 {
		t.Fatalf("nothing was sent: %+v, %v", response, err)
	}
	var b strings.Builder
	for _, s := range db.asks {
		b.WriteString(laidOut(s.SQL))
		for i, p := range s.Params {
			text := "NULL"
			if p != nil {
				text = fmt.Sprintf("%q", p)
			}
			fmt.Fprintf(&b, "\n  $%d = %s", i+1, text)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// laidOut gives each sub-select a line of its own, indented by its depth.
func laidOut(sql string) string {
	var b strings.Builder
	depth := 0
	var open []bool // of each parenthesis: it began a line
	for i := 0; i < len(sql); i++ {
		switch {
		case sql[i] == '(':
			breaks := strings.HasPrefix(sql[i:], "(select ")
			if breaks {
				depth++
			}
			open = append(open, breaks)
			b.WriteByte('(')
			if breaks {
				b.WriteString("\n" + strings.Repeat("  ", depth))
			}
			continue
		case sql[i] == ')' && len(open) > 0:
			if open[len(open)-1] {
				depth--
				b.WriteString("\n" + strings.Repeat("  ", depth))
			}
			open = open[:len(open)-1]
		case strings.HasPrefix(sql[i:], " from ") && !strings.HasSuffix(sql[:i], "distinct") || strings.HasPrefix(sql[i:], " where ") || strings.HasPrefix(sql[i:], " order by ") || strings.HasPrefix(sql[i:], " limit "):
			b.WriteString("\n" + strings.Repeat("  ", depth))
			continue
		}
		b.WriteByte(sql[i])
	}
	return b.String()
}
