// Package bytesize reads and writes sizes the way operators do: "512MiB", "4GiB", "1.5GB", "4096".
//
// It refuses to guess. A bare "512M" may mean either million or mebi, so it is an error that names both spellings,
// and so is a size that is negative or does not fit an int64.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Sizes in bytes, for code that states figures as products.
const (
	KiB int64 = 1 << 10
	MiB int64 = 1 << 20
	GiB int64 = 1 << 30
	TiB int64 = 1 << 40
)

var units = map[string]int64{
	"": 1, "b": 1,
	"kib": KiB, "mib": MiB, "gib": GiB, "tib": TiB,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
}

// Parse returns the bytes that s names: a decimal number, which may have a fraction when a unit follows, and an
// optional unit (B, KiB, MiB, GiB, TiB in powers of 1024, or KB, MB, GB, TB in powers of 1000; case and one space
// before the unit do not matter). A fraction of a byte is cut off.
func Parse(s string) (int64, error) {
	number, unit := split(strings.TrimSpace(s))
	if number == "" {
		return 0, fmt.Errorf("size %q: want a number and a unit, such as 512MiB or 4GiB", s)
	}
	scale, ok := units[strings.ToLower(unit)]
	if !ok {
		return 0, unitError(s, number, unit)
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		if whole > math.MaxInt64/scale {
			return 0, fmt.Errorf("size %q: larger than any memory", s)
		}
		return whole * scale, nil
	}
	return parseFraction(s, number, scale)
}

// split cuts s where its leading digits and point end.
func split(s string) (number, unit string) {
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.') {
		end++
	}
	return s[:end], strings.TrimPrefix(s[end:], " ")
}

func unitError(s, number, unit string) error {
	switch strings.ToLower(unit) {
	case "k", "m", "g", "t":
		prefix := strings.ToUpper(unit)
		return fmt.Errorf("size %q: write %s%siB (powers of 1024) or %s%sB (powers of 1000)",
			s, number, prefix, number, prefix)
	}
	return fmt.Errorf("size %q: unknown unit %q, want B, KiB, MiB, GiB, TiB, KB, MB, GB or TB", s, unit)
}

func parseFraction(s, number string, scale int64) (int64, error) {
	if scale == 1 && strings.Contains(number, ".") {
		return 0, fmt.Errorf("size %q: a fraction of a byte", s)
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("size %q: not a number", s)
	}
	// The conversion of a float outside int64 is undefined, so the test comes before it, on the float.
	if bytes := value * float64(scale); bytes < math.MaxInt64 {
		return int64(bytes), nil
	}
	return 0, fmt.Errorf("size %q: larger than any memory", s)
}

// Format writes n in the largest power of 1024 that leaves at least one whole unit, rounded to one decimal:
// "512MiB", "1.5GiB", "37.4MiB". It is for people; what must be exact is written as a plain number of bytes.
func Format(n int64) string {
	if n < 0 {
		return "-" + Format(-max(n, -math.MaxInt64)) // the most negative int64 has no positive twin
	}
	for _, u := range []struct {
		size int64
		name string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if n >= u.size {
			return trimZero(strconv.FormatFloat(float64(n)/float64(u.size), 'f', 1, 64)) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func trimZero(s string) string { return strings.TrimSuffix(s, ".0") }
