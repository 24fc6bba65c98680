package bytesize

import (
	"math"
	"strings"
	"testing"
)

func TestParseReadsWhatOperatorsWrite(t *testing.T) {
	for in, want := range map[string]int64{
		"0":       0,
		"4096":    4096,
		"4096B":   4096,
		"512MiB":  512 << 20,
		"512mib":  512 << 20,
		"512 MiB": 512 << 20,
		" 4GiB ":  4 << 30,
		"1.5GiB":  3 << 29,
		".5KiB":   512,
		"10GB":    10_000_000_000,
		"64kb":    64_000,
		"2TiB":    2 << 40,
	} {
		got, err := Parse(in)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestParseRefusesWhatIsAmbiguousAndSaysWhatToWrite(t *testing.T) {
	for in, part := range map[string]string{
		"":                     "want a number and a unit",
		"MiB":                  "want a number and a unit",
		"-1MiB":                "want a number and a unit",
		"512M":                 "512MiB (powers of 1024) or 512MB (powers of 1000)",
		"3 bananas":            `unknown unit "bananas"`,
		"1.5":                  "a fraction of a byte",
		"1.2.3GiB":             "not a number",
		"9223372036854775807K": "write",
		"9223372036854775808":  "larger than any memory",
		"8388608TiB":           "larger than any memory",
		"9999999.9TiB":         "larger than any memory",
	} {
		got, err := Parse(in)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Parse(%q) = %d, %v; want an error with %q", in, got, err, part)
		}
	}
}

func TestFormatIsShortAndReadsBack(t *testing.T) {
	for in, want := range map[int64]string{
		0:                  "0B",
		1023:               "1023B",
		1024:               "1KiB",
		1536:               "1.5KiB",
		512 << 20:          "512MiB",
		3 << 29:            "1.5GiB",
		math.MaxInt64:      "8388608TiB",
		-(1 << 20):         "-1MiB",
		math.MinInt64:      "-8388608TiB",
		39_216_742:         "37.4MiB",
		1<<30 - 1:          "1024MiB",
		10_000_000_000_000: "9.1TiB",
	} {
		if got := Format(in); got != want {
			t.Errorf("Format(%d) = %q, want %q", in, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"512MiB", "1.5GB", "4096", "512M", "", ".", "9223372036854775807", "0.000001TiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Parse(s)
		if err != nil {
			if n != 0 {
				t.Fatalf("Parse(%q) returned %d beside an error", s, n)
			}
			return
		}
		if n < 0 {
			t.Fatalf("Parse(%q) = %d, a negative size", s, n)
		}
		if n >= 8388607*TiB {
			return // rounding up may leave int64
		}
		back, err := Parse(Format(n))
		if err != nil {
			t.Fatalf("Parse(Format(%d)): %v", n, err)
		}
		if diff := math.Abs(float64(back - n)); diff > 0.051*float64(max(n, 1)) {
			t.Fatalf("Format(%d) = %s reads back as %d", n, Format(n), back)
		}
	})
}
