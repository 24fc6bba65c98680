package child

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// The first sample is taken early, since most children are short; long ones do not need as many.
const (
	sampleFirst = time.Millisecond
	sampleMost  = 64 * time.Millisecond
)

// maxFamily bounds what one sample looks at.
const maxFamily = 64

// sample returns the most anonymous memory that the tree below pid held, when done is closed.
func sample(pid int, done <-chan struct{}) (peak int64) {
	wait := sampleFirst
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return peak
		case <-timer.C:
		}
		peak = max(peak, anonOfTree(pid))
		wait = min(2*wait, sampleMost)
		timer.Reset(wait)
	}
}

func anonOfTree(pid int) (sum int64) {
	queue := []int{pid}
	for seen := 0; len(queue) > 0 && seen < maxFamily; seen++ {
		dir := "/proc/" + strconv.Itoa(queue[0])
		queue = queue[1:]
		sum += anonOf(dir)
		// Git's helpers are started by its main thread.
		text, _ := os.ReadFile(dir + "/task/" + dir[len("/proc/"):] + "/children")
		for field := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(field); err == nil {
				queue = append(queue, n)
			}
		}
	}
	return sum
}

// anonOf is 0 for a process that has ended.
func anonOf(dir string) int64 {
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("\nRssAnon:"))
	line, _, _ := bytes.Cut(rest, []byte(" kB"))
	kib, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 40)
	if err != nil {
		return 0
	}
	return kib << 10
}
