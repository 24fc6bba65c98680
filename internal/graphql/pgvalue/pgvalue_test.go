package pgvalue

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLeavesBecomeTheJSONThatClientsExpect(t *testing.T) {
	be32 := func(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
	be64 := func(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }
	for _, c := range []struct {
		name string
		kind kind
		in   []byte
		want string
	}{
		{"bool", asBool, []byte{1}, `true`},
		{"smallest int2", asInt2, []byte{0x80, 0}, `-32768`},
		{"int8 is a string", asInt8, be64(math.MaxInt64), `"9223372036854775807"`},
		{"float8 0.1", asFloat8, be64(math.Float64bits(0.1)), `0.1`},
		{"float8 1e300", asFloat8, be64(math.Float64bits(1e300)), `1e+300`},
		{"float8 -0", asFloat8, be64(math.Float64bits(math.Copysign(0, -1))), `0`},
		{"float4 1.1 keeps its own shortest form", asFloat4, be32(math.Float32bits(1.1)), `1.1`},
		{"text with controls", asString, []byte("a\"\\\n\x01é\xff"), `"a\"\\\n\u0001é` + "\uFFFD" + `"`},
		{"jsonb", asJSONB, []byte("\x01{\"a\": 1}"), `{"a": 1}`},
		{"bytea", asBytes, []byte{0xde, 0xad, 0xbe, 0xef}, `"3q2+7w=="`},
		{"uuid", asUUID, []byte("\x11\x11\x11\x11\x22\x22\x33\x33\x44\x44\x55\x55\x55\x55\x55\x55"), `"11111111-2222-3333-4444-555555555555"`},
		{"date before 2000", asDate, be32(uint32(0xffffffff)), `"1999-12-31"`},
		{"infinite date", asDate, be32(infiniteDate), `null`},
		{"time 24:00", asTime, be64(microsPerDay), `"00:00:00.000000"`},
		{"timestamp a microsecond before 2000", asTimestamp, be64(math.MaxUint64), `"1999-12-31T23:59:59.999999"`},
		{"timestamptz", asTimestampTZ, []byte("2024-02-29 09:34:56.789+00"), `"2024-02-29T09:34:56.789000+00:00"`},
		{"timestamptz in a half-hour zone", asTimestampTZ, []byte("2024-02-29 09:34:56+05:30"), `"2024-02-29T09:34:56.000000+05:30"`},
		{"timestamptz before Christ", asTimestampTZ, []byte("0044-03-15 12:00:00+00 BC"), `"-000043-03-15T12:00:00.000000+00:00"`},
		{"infinite timestamptz", asTimestampTZ, []byte("-infinity"), `null`},
		{"timetz", asTimeTZ, []byte("07:44:15+00"), `"07:44:15.000000+00:00"`},
		{"money", asNumber, []byte("-0.01"), `-0.01`},
	} {
		got, err := Out{kind: c.kind}.AppendJSON([]byte("x"), c.in)
		if err != nil || string(got) != "x"+c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}

func TestAFloatThatIsNoNumberIsAFieldErrorAndLeavesTheResponseAsItWas(t *testing.T) {
	got, err := Out{kind: asFloat8}.AppendJSON([]byte("x"), binary.BigEndian.AppendUint64(nil, math.Float64bits(math.NaN())))
	if err == nil || string(got) != "x" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAnItemInErrorIsNullInItsList(t *testing.T) {
	v := array(1, be64(math.Float64bits(1.5)), be64(math.Float64bits(math.Inf(-1))), nil)
	got, err := Out{kind: asFloat8, array: true}.AppendJSON(nil, v)
	var items ItemErrors
	if !errors.As(err, &items) || len(items) != 1 || items[0].Index != 1 || string(got) != "[1.5,null,null]" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAnArrayOfTwoDimensionsHasAnErrorForEachItem(t *testing.T) {
	v := array(2, be64(1), be64(2))
	got, err := Out{kind: asInt8, array: true}.AppendJSON(nil, v)
	var items ItemErrors
	if !errors.As(err, &items) || len(items) != 2 || string(got) != "[null,null]" {
		t.Errorf("%s, %v", got, err)
	}
}

func be64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// array makes PostgreSQL's binary form, with all items in the first dimension.
func array(dimensions int, items ...[]byte) []byte {
	v := binary.BigEndian.AppendUint32(nil, uint32(dimensions))
	v = append(v, 0, 0, 0, 1, 0, 0, 0, 20)
	for d := range dimensions {
		n := len(items)
		if d > 0 {
			n = 1
		}
		v = binary.BigEndian.AppendUint32(v, uint32(n))
		v = append(v, 0, 0, 0, 1)
	}
	for _, item := range items {
		if item == nil {
			v = append(v, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		v = append(binary.BigEndian.AppendUint32(v, uint32(len(item))), item...)
	}
	return v
}

func TestDatesAreThoseOfTheCalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		days := rapid.Int32Range(-730000, 2900000).Draw(t, "days")
		got, _ := Out{kind: asDate}.AppendJSON(nil, binary.BigEndian.AppendUint32(nil, uint32(days)))
		want := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, int(days)).Format(`"2006-01-02"`)
		if string(got) != want {
			t.Fatalf("%d days: %s, want %s", days, got, want)
		}
	})
}

func TestAnyTextBecomesJSONThatReadsBackTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var back string
		if err := json.Unmarshal(AppendString(nil, text), &back); err != nil || back != text {
			t.Fatalf("%q: %q, %v", text, back, err)
		}
	})
}

func FuzzAppendJSON(f *testing.F) {
	f.Add(uint8(asTimestampTZ), false, []byte("2024-02-29 09:34:56.789+00"))
	f.Add(uint8(asInt8), true, array(1, be64(7), nil))
	f.Add(uint8(asTimeTZ), false, []byte("24:00:00+00"))
	f.Fuzz(func(t *testing.T, k uint8, list bool, v []byte) {
		o := Out{kind: kind(k % uint8(asInet+1)), array: list}
		if o.kind == asJSON || o.kind == asJSONB || o.kind == asHstore || o.kind == asNumber || o.kind == asTimestampTZ || o.kind == asTimeTZ {
			_, _ = o.AppendJSON(nil, v) // the database's own text: only that it does not crash
			return
		}
		got, err := o.AppendJSON(nil, v)
		var items ItemErrors
		if err == nil || errors.As(err, &items) {
			if !json.Valid(got) {
				t.Errorf("%q", got)
			}
		} else if len(got) != 0 {
			t.Errorf("%q left behind", got)
		}
	})
}

func TestAKeyThatHasNoJSONIsWhatPostgreSQLReads(t *testing.T) {
	for _, c := range []struct {
		kind  kind
		value []byte
		want  string
	}{
		{asDate, []byte{0x7f, 0xff, 0xff, 0xff}, `"infinity"`},
		{asDate, []byte{0x80, 0, 0, 0}, `"-infinity"`},
		{asTimestamp, []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, `"infinity"`},
		{asTimestampTZ, []byte("-infinity"), `"-infinity"`},
		{asFloat8, []byte{0x7f, 0xf8, 0, 0, 0, 0, 0, 0}, `"NaN"`},
		{asFloat4, []byte{0xff, 0x80, 0, 0}, `"-infinity"`},
		{asInt4, []byte{0, 0, 0, 7}, `7`},
	} {
		got, err := Out{kind: c.kind}.AppendKey(nil, c.value)
		if err != nil || string(got) != c.want {
			t.Errorf("%x is %s, %v; want %s", c.value, got, err, c.want)
		}
	}
}
