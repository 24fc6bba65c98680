package graphql

import (
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/bytesize"
)

func TestTheMemoryThatAnErrorAsksForIsEnoughAndNoMoreThanThat(t *testing.T) {
	for _, o := range []Options{
		{Memory: 20 * mib},
		{Memory: 60 * mib},
		{Memory: 40 * mib, Connections: 4, MaxResponse: mib},
		{Memory: 300 * mib, Connections: 400},
		{Memory: 100 * mib, MaxResponse: 1 << 30},
	} {
		o.fill(512 * mib)
		asked, less := o, o
		_, err := o.divide()
		if err == nil {
			t.Fatalf("%d bytes are enough", o.Memory)
		}
		asked.Memory = asked.enough()
		less.Memory = asked.Memory - mib
		if !strings.Contains(err.Error(), "raise graphql.memory to "+bytesize.Format(asked.Memory)) {
			t.Error(err)
		}
		if _, err := asked.divide(); err != nil {
			t.Error(err)
		}
		if _, err := less.divide(); err == nil {
			t.Errorf("%d bytes were enough", less.Memory)
		}
	}
}
