package pgvalue

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// PostgreSQL counts days and microseconds from 2000-01-01, and marks the infinities by the extremes of the integer.
// (src/include/datatype/timestamp.h)
const (
	daysToEpoch   = 10957 // from 1970-01-01 to 2000-01-01
	microsPerDay  = 24 * 60 * 60 * 1000000
	infiniteDate  = math.MaxInt32
	infiniteStamp = math.MaxInt64
)

func appendDate(dst []byte, days int32) []byte {
	if days == infiniteDate || days == math.MinInt32 {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	return append(appendDay(dst, int64(days)), '"')
}

// appendDay writes a day as ISO 8601 does: years before 1 and after 9999 with a sign and six digits.
func appendDay(dst []byte, days int64) []byte {
	year, month, day := time.Unix((days+daysToEpoch)*86400, 0).UTC().Date()
	if year >= 1 && year <= 9999 {
		dst = appendPadded(dst, int64(year), 4)
	} else {
		sign := byte('+')
		if year < 0 {
			sign, year = '-', -year
		}
		dst = appendPadded(append(dst, sign), int64(year), 6)
	}
	dst = appendPadded(append(dst, '-'), int64(month), 2)
	return appendPadded(append(dst, '-'), int64(day), 2)
}

func appendTime(dst []byte, micros int64) []byte {
	dst = append(dst, '"')
	return append(appendClock(dst, micros%microsPerDay), '"') // 24:00 is 00:00 of no other day
}

func appendClock(dst []byte, micros int64) []byte {
	seconds := micros / 1000000
	dst = appendPadded(dst, seconds/3600, 2)
	dst = appendPadded(append(dst, ':'), seconds/60%60, 2)
	dst = appendPadded(append(dst, ':'), seconds%60, 2)
	return appendPadded(append(dst, '.'), micros%1000000, 6)
}

func appendTimestamp(dst []byte, micros int64) []byte {
	if micros == infiniteStamp || micros == math.MinInt64 {
		return append(dst, "null"...)
	}
	days, rest := micros/microsPerDay, micros%microsPerDay
	if rest < 0 {
		days, rest = days-1, rest+microsPerDay
	}
	dst = appendDay(append(dst, '"'), days)
	return append(appendClock(append(dst, 'T'), rest), '"')
}

func appendPadded(dst []byte, n int64, width int) []byte {
	digits := strconv.AppendInt(make([]byte, 0, 20), n, 10)
	for range width - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// appendTimestampText changes the punctuation of PostgreSQL's text of a timestamptz, DateStyle ISO:
// "2024-02-29 09:34:56.789+00" becomes "2024-02-29T09:34:56.789000+00:00". A zone with seconds keeps them. Years before 1
// end in " BC".
func appendTimestampText(dst, v []byte) ([]byte, error) {
	if string(v) == "infinity" || string(v) == "-infinity" {
		return append(dst, "null"...), nil
	}
	v, beforeChrist := bytes.CutSuffix(v, []byte(" BC"))
	day, clock, ok := bytes.Cut(v, []byte(" "))
	if !ok {
		return dst, errMalformed
	}
	start := len(dst)
	dst, ok = appendTextDay(append(dst, '"'), day, beforeChrist)
	if ok {
		dst, ok = appendTextClock(append(dst, 'T'), clock)
	}
	if !ok {
		return dst[:start], errMalformed
	}
	return append(dst, '"'), nil
}

func appendTextDay(dst, day []byte, beforeChrist bool) ([]byte, bool) {
	text, rest, ok := bytes.Cut(day, []byte("-"))
	year, err := strconv.ParseInt(string(text), 10, 32)
	if !ok || err != nil {
		return dst, false
	}
	switch {
	case beforeChrist: // 1 BC is the year 0 of ISO 8601
		sign := byte('-')
		if year == 1 {
			sign = '+'
		}
		dst = appendPadded(append(dst, sign), year-1, 6)
	case year > 9999:
		dst = appendPadded(append(dst, '+'), year, 6)
	default:
		dst = appendPadded(dst, year, 4)
	}
	return append(append(dst, '-'), rest...), true
}

// appendTextClock writes "09:34:56.789+00" with six digits and the minutes of the zone.
func appendTextClock(dst, clock []byte) ([]byte, bool) {
	at := bytes.LastIndexAny(clock, "+-")
	if at < 8 || len(clock) > at+9 {
		return dst, false
	}
	time, zone := clock[:at], clock[at:]
	whole, fraction, _ := bytes.Cut(time, []byte("."))
	if string(whole) == "24:00:00" {
		whole = []byte("00:00:00")
	}
	dst = append(append(dst, whole...), '.')
	dst = append(dst, fraction...)
	for range 6 - len(fraction) {
		dst = append(dst, '0')
	}
	dst = append(dst, zone...)
	if len(zone) == 3 {
		dst = append(dst, ":00"...)
	}
	return dst, true
}

func appendTimeText(dst, v []byte) ([]byte, error) {
	start := len(dst)
	dst, ok := appendTextClock(append(dst, '"'), v)
	if !ok {
		return dst[:start], errMalformed
	}
	return append(dst, '"'), nil
}
