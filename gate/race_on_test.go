//go:build race

package gate

// raceEnabled makes the longest test shorter: the race detector makes it many times as slow.
const raceEnabled = true
