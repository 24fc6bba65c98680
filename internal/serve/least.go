package serve

import (
	"io"
	"math"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/bytesize"
	"github.com/leveehq/levee/internal/config"
)

// leastLimit is the least memory limit, in whole MiB, that the configuration's plan fits into; 0 if none does. The plan's
// own figure would be too low: what is sized by the limit grows with it. A server that is built and not run costs a
// millisecond, so a few dozen are built to find out.
func leastLimit(cfg *config.Config, env []string, above int64) int64 {
	fits := func(mib int64) bool {
		c := *cfg
		c.MemoryLimit = config.Bytes(mib * bytesize.MiB)
		a, err := Build(&c, Options{Out: io.Discard, Log: io.Discard, Env: env})
		return err == nil && a.kernel.Plan().Fits
	}
	low := above / bytesize.MiB
	high := low + 1
	for !fits(high) {
		if low = high; high > math.MaxInt64/bytesize.MiB/4 {
			return 0
		}
		high *= 2
	}
	for high-low > 1 {
		if mid := low + (high-low)/2; fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high * bytesize.MiB
}

// Plan is the memory plan of this server.
func (a *App) Plan() levee.Plan {
	p := a.kernel.Plan()
	if !p.Fits {
		p.Needed = leastLimit(a.cfg, a.env, p.Limit)
	}
	return p
}
