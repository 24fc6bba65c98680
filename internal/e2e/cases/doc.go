// Package cases is what a Bazel cache must do whatever its limits are, as checks from outside: failures that users of
// such caches met with, each named by the number that docs/cases.md explains.
//
// It refuses to depend on an empty cache or on being alone: every check has content of its own, so that many clients
// can run all of them at once against one server, and asks again for what was shed.
package cases

// Check is one case.
type Check struct {
	Name string // case number, then what is right

	// Together: the check needs two calls at the same time, which a server with limits of one does not admit.
	Together bool

	// Heavy: the check stores tens of thousands of blobs, so that one client is enough.
	Heavy bool

	Run func(*Client) error
}

// All checks, in the order of their numbers.
func All() []Check {
	return []Check{
		{Name: "B3 an action result is hidden over HTTP until its files are there", Run: hiddenUntilComplete},
		{Name: "B3 gRPC refuses a result of absent files and names one", Run: danglingRefused},
		{Name: "B4 an upload that was cut off is not there", Run: cutUploads},
		{Name: "B5 wrong bytes are refused and do not hurt their neighbours", Run: wrongBytes},
		{Name: "B6 a download goes on where it stopped", Run: resumedDownload},
		{Name: "B10a the same upload name twice at once", Together: true, Run: sameNameTwice},
		{Name: "B10b the second uploader's blob is there when it is told so", Together: true, Run: secondUploader},
		{Name: "B12 the empty blob is always there", Run: emptyBlob},
		{Name: "B14 a batch of the announced size is taken", Heavy: true, Run: announcedBatch},
		{Name: "B14 sixty thousand digests in one call", Run: manyDigests},
		{Name: "B16 instances have their own action results", Run: instances},
		{Name: "O11 a small frame of a huge blob stops at the declared size", Run: bomb},
	}
}
