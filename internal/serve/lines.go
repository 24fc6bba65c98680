package serve

import (
	"github.com/leveehq/levee"
	"github.com/leveehq/levee/gate"
)

const (
	// adminConnections bounds the admin listener: a few probes, a scraper or two, a person.
	adminConnections = 24

	// adminPerAddress is what one address may hold of them, so that it cannot keep another one's probe out.
	adminPerAddress = adminConnections * 7 / 8

	// perAdminConnection is net/http's goroutine and buffers, and the snapshot with its text that a scrape holds, or the
	// map of a header of as many fields as 5 KiB have room for.
	perAdminConnection = 76 << 10

	// adminSmallRead is listen.Options.SmallRead: the header of an honest request comes in one read.
	adminSmallRead = 1 << 10

	// profileBytes is what the profiler and one profile in the making take; most of it is symbol tables, and the rest grows with the places
	// that have allocated.
	profileBytes = 5 << 19

	// adminSocketReceive and adminSocketSend are small: requests are tiny and a slow scraper may wait.
	adminSocketReceive = 16 << 10
	adminSocketSend    = 16 << 10

	// logBytes is for records being written; the access log bounds how many there are in a second.
	logBytes = 256 << 10
)

// addAdminLines registers what belongs to no service: the admin listener and the log.
func addAdminLines(k *levee.Kernel, connections *gate.Gate) {
	const perSocket = 2 * (adminSocketReceive + adminSocketSend) // the kernel doubles what is set
	k.AddLine(levee.Line{Account: "admin", Kind: levee.KindGo, Units: adminConnections, Unit: "connection", PerUnit: perAdminConnection,
		Note: "Health, metrics and status.", InUse: inUse(connections, perAdminConnection)})
	k.AddLine(levee.Line{Account: "profiles", Kind: levee.KindGo, Units: profilesAtOnce, Unit: "profile", PerUnit: profileBytes,
		Note: "Profiles in the making."})
	k.AddLine(levee.Line{Account: "log", Kind: levee.KindGo, Units: 1, Unit: "process", PerUnit: logBytes,
		Setting: "log.max_per_second", Note: "Records being written."})
	k.AddLine(levee.Line{Account: "admin_sockets", Kind: levee.KindKernel, Units: adminConnections, Unit: "connection", PerUnit: perSocket,
		Note: "Kernel buffers of the admin listener's connections.", InUse: inUse(connections, perSocket)})
}

// addDescriptors reads the plan for what may be open: a connection is a socket, and a stream may be reading a file.
// So may an unfinished upload be writing one.
func addDescriptors(k *levee.Kernel) {
	for _, l := range k.Plan().Lines {
		if l.Kind == levee.KindGo && (l.Unit == "connection" || l.Unit == "stream" || l.Unit == "upload") {
			k.AddDescriptors(l.Units, l.Account)
		}
	}
}

func inUse(g *gate.Gate, per int64) func() int64 {
	return func() int64 { return g.Stats().InUse * per }
}
