// Package levee keeps a memory-hungry server alive under load: one memory budget, proved before the first
// request and held under any number of them.
//
// It refuses to guess at run time. What a server may hold is written down as lines of a plan before anything starts;
// a plan that does not fit the memory limit does not start, and the error says which settings to lower. It also refuses
// to know protocols: what a shed looks like on the wire is the business of whoever calls.
//
// # The model
//
//	memory limit ─┬─ children     processes started by us
//	              ├─ kernel       socket buffers, dirty pages
//	              ├─ off-heap     the binary, threads, mappings
//	              ├─ margin       1/20 of the limit: what nobody can count
//	              └─ GOMEMLIMIT ─┬─ live Go lines, together ≤ 0.55   streams, queues, caches, decoders …
//	                             └─ collector                        the rest: garbage, and room to find it
//
// Three parts keep the plan true:
//
//   - A gate ([github.com/leveehq/levee/gate]) stands before everything that grows with offered load. It
//     counts bytes, queues a bounded number of callers fairly between keys, and sheds the rest before they cost memory.
//   - A line of the plan is units × measured bytes per unit, so that every setting has a price and every price a test.
//   - The governor ([github.com/leveehq/levee/governor]) watches what no plan knows (garbage, neighbours in the same
//     control group) and says normal, evict or shed. Gates made with shedOnPressure shed at the last of these.
//
// # Use
//
//	k, err := levee.New(levee.Options{})            // finds the memory limit; starts nothing
//	uploads, err := k.NewGate(gate.Options{…}, true)
//	k.AddLine(levee.Line{Account: "uploads", …})    // what the gate's limit may cost
//	err = k.Start()                                 // proves the plan, sets GOMEMLIMIT
//	go k.Run(ctx)                                   // drives the governor
//
// [Kernel.Status] shows all of it at any time, and is what metrics and dashboards are made from.
package levee
