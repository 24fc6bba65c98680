// Package gitcases is what a Git cache must do, as checks from outside with the real git: failures that users of such
// caches met with, each named by the number that docs/cases.md explains, and what was promised besides, named A and the
// number of the promise.
//
// It refuses to look inside, and to know what a machine can bear: sizes are the caller's, so that the same checks run for
// every change and at full length by night. What has to happen at a certain moment is arranged, not hit upon: the upstream
// stalls and the server's children are held until the test has seen what it waits for.
package gitcases

import "testing"

// Size of what is offered.
type Size struct {
	Big     int64 // bytes of the repository of random blobs
	Commits int   // of the deep repository, five objects each
	Crowd   int   // clients at once
	Rounds  int   // of what is repeated

	// Share of what a service does alone that it has to do beside a storm on the other. What a machine with other things to do
	// has left says nothing of ours, so where that is to be expected it is low: nobody comes to a halt, and nobody is shed.
	Share float64
}

// Small takes seconds, Full what the cases say. Both repositories have more objects than what a server calls few: their clones
// are not of those that are cheap enough to pass the others.
var (
	Small = Size{Big: 8 << 20, Commits: 1500, Crowd: 20, Rounds: 6, Share: 0.1}
	Full  = Size{Big: 200 << 20, Commits: 18_500, Crowd: 60, Rounds: 200, Share: 0.7}
)

// Case is one check.
type Case struct {
	Name string // number, then what is right

	// Wide: the case needs more than one generation at a time, which a server with limits of one does not give.
	Wide bool

	Run func(*Lab)
}

// All cases, in the order of their numbers.
func All() []Case {
	return []Case{
		{Name: "G1 a storm of clones makes few packs at a time and everything else goes on", Wide: true, Run: stormOfClones},
		{Name: "G2 equal clones share one pack", Run: equalClones},
		{Name: "G2 a pack is spooled within its budget", Run: spoolBudget},
		{Name: "G3 gzipped requests are read, broken and huge ones turned down", Run: gzippedRequests},
		{Name: "G4 first clones at the same moment share one transfer", Run: firstClones},
		{Name: "G5 a private repository is served to those who may read it upstream", Run: privateRepository},
		{Name: "G5 what upstream has dropped is not served by its hash", Run: droppedCommit},
		{Name: "G5 odd paths reach no other repository", Run: oddPaths},
		{Name: "G6 nothing is left of clients that leave", Run: clientsLeave},
		{Name: "G7 a failed fetch never hides a new tag", Run: failedFetch},
		{Name: "G8 children are told how much they may take", Run: childrensSettings},
		{Name: "G8 a killed child is an error that the client sees", Run: killedChild},
		{Name: "G11 packs are not held in memory", Run: packsNotInMemory},
		{Name: "G13 an upstream that limits its rate is left alone", Run: rateLimited},
		{Name: "G14 partial and shallow clones, and wants by hash", Run: partialClones},
		{Name: "G16 fetches, clones and maintenance do not hurt one another", Run: maintenanceRace},
		{Name: "G17 a killed server comes back in every state of a mirror", Run: killedServer},
		{Name: "G17 locks and broken files of a dead server are repaired", Run: brokenMirror},
		{Name: "G19 the refs are upstream's, line for line", Run: sameRefs},
		{Name: "A2 a cold burst is one transfer for each repository", Wide: true, Run: coldBurst},
		{Name: "A3 waiting clones of one repository never delay another", Wide: true, Run: fairBetweenRepositories},
		{Name: "A3 what is shed is shed before any pack byte", Run: shedBeforeAnyByte},
		{Name: "A3 a terminal shows the place in the queue", Run: placeInTheQueue},
		{Name: "A4 requests behave as their cost says", Run: byCost},
		{Name: "A5 a truncated or stalled upstream hangs nobody", Run: badUpstream},
		{Name: "A7 a permit is held while a pack is made, and no longer", Run: permits},
		{Name: "O6 a shed clone costs little", Run: cheapShed},
		{Name: "O10 health answers during a storm of clones", Wide: true, Run: healthInAStorm},
		{Name: "O11 neither service starves the other", Wide: true, Run: neitherStarves},
	}
}

// RunAll runs the cases as tests of their own, each with servers that have the flags.
func RunAll(t *testing.T, size Size, choose func(Case) bool, flags ...string) {
	for _, c := range All() {
		if choose == nil || choose(c) {
			t.Run(c.Name, func(t *testing.T) { c.Run(newLab(t, size, flags)) })
		}
	}
}
