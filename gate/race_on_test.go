//go:build race

package gate

// raceEnabled makes the long tests ten times as short: the race detector makes them ten times as slow.
const raceEnabled = true
