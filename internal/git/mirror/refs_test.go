package mirror

import (
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/git/upstream"
)

func TestOfTwoHeadsTheFirstIsMeant(t *testing.T) {
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	r := &upstream.Refs{List: []upstream.Ref{{Name: "HEAD", OID: a}, {Name: "HEAD", OID: b}, {Name: "refs/heads/main", OID: a}}}
	if err := checkRefs(r); err != nil || len(r.List) != 2 || r.List[0].OID != a {
		t.Errorf("%v, %+v", err, r.List)
	}
	r.List = append(r.List, r.List[1])
	if err := checkRefs(r); err == nil || !strings.Contains(err.Error(), "refs/heads/main") {
		t.Errorf("a branch that is there twice: %v", err)
	}
}
