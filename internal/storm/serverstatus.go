package storm

import "time"

// serverStatus is what storm reads of the admin listener's /status. Whatever else is in it does not matter here.
type serverStatus struct {
	Plan struct {
		Limit int64 `json:"limit_bytes"`
		Lines []struct {
			Account string `json:"account"`
			Kind    string `json:"kind"`
			Units   int64  `json:"units"`
			PerUnit int64  `json:"per_unit_bytes"`
			Bytes   int64  `json:"bytes"`
			InUse   *int64 `json:"in_use_bytes"` // nil if the line does not count
		} `json:"lines"`
	} `json:"plan"`
	Gates []struct {
		Name   string            `json:"name"`
		InUse  int64             `json:"in_use"`
		Limit  int64             `json:"limit"`
		Queued int               `json:"queued"`
		Shed   map[string]uint64 `json:"shed"`
	} `json:"gates"`
	Pressure struct {
		At   time.Time `json:"at"`
		Heap struct {
			Live int64 `json:"live_bytes"` // found by the last collection
		} `json:"heap"`
	} `json:"pressure"`
}

// sheds are the counters of all gates that have shed anything.
func (st *serverStatus) sheds() map[GateShed]uint64 {
	counts := map[GateShed]uint64{}
	for _, g := range st.Gates {
		for reason, n := range g.Shed {
			if n > 0 {
				counts[GateShed{Gate: g.Name, Reason: reason}] = n
			}
		}
	}
	return counts
}
