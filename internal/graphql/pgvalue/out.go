package pgvalue

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
)

// errMalformed is a value that is not what its type's binary format says. It cannot happen with a true PostgreSQL server.
var errMalformed = errors.New("malformed value from the database")

// AppendJSON appends the JSON of a value that is not null. An infinite date becomes null. An error (a float that is NaN) is
// a field error, and dst is returned as it was; but with ItemErrors the list is there, with null for each item in error.
func (o Out) AppendJSON(dst, value []byte) ([]byte, error) {
	if o.array {
		return o.appendArray(dst, value)
	}
	return o.appendLeaf(dst, value)
}

// Length is about how long the JSON of a long value is, and never less for texts.
func (o Out) Length(v []byte) int {
	switch {
	case o.array:
		return 2 * len(v)
	case o.kind == asText, o.kind == asString, o.kind == asEnum:
		return stringLength(v)
	case o.kind == asBytes:
		return base64.StdEncoding.EncodedLen(len(v)) + 2
	}
	return len(v)
}

// AppendKey is AppendJSON for cursors and node ids, which go back to PostgreSQL: what JSON has no value for (an infinite date, NaN) is
// a string that PostgreSQL reads.
func (o Out) AppendKey(dst, value []byte) ([]byte, error) {
	out, err := o.AppendJSON(dst, value)
	if err == nil && string(out[len(dst):]) != "null" {
		return out, nil
	}
	switch {
	case o.array:
		return out, err
	case o.kind == asTimestampTZ:
		return AppendString(dst, value), nil
	case err == nil && (o.kind == asDate || o.kind == asTimestamp):
		return append(dst, infinity(value[0] >= 0x80)...), nil
	case o.kind == asFloat4 && len(value) == 4:
		return appendNoNumber(dst, float64(math.Float32frombits(binary.BigEndian.Uint32(value)))), nil
	case o.kind == asFloat8 && len(value) == 8:
		return appendNoNumber(dst, math.Float64frombits(binary.BigEndian.Uint64(value))), nil
	}
	return out, err
}

func appendNoNumber(dst []byte, f float64) []byte {
	if math.IsNaN(f) {
		return append(dst, `"NaN"`...)
	}
	return append(dst, infinity(f < 0)...)
}

func infinity(negative bool) string {
	if negative {
		return `"-infinity"`
	}
	return `"infinity"`
}

func (o Out) appendLeaf(dst, v []byte) ([]byte, error) {
	switch o.kind {
	case asText, asString:
		return AppendString(dst, v), nil
	case asEnum:
		if o.known != nil && !slices.ContainsFunc(o.known, func(label string) bool { return label == string(v) }) {
			return dst, fmt.Errorf("%q is not among the enum's values; if its row is new, ask again in some seconds", v)
		}
		return AppendString(dst, o.nameOf(v)), nil
	case asJSON, asHstore:
		return append(dst, v...), nil
	case asNumber:
		return append(dst, withoutZeros(v)...), nil
	case asBytes:
		dst = append(dst, '"')
		return append(base64.StdEncoding.AppendEncode(dst, v), '"'), nil
	case asInet:
		return appendInet(dst, v)
	case asTimestampTZ:
		return appendTimestampText(dst, v)
	case asTimeTZ:
		return appendTimeText(dst, v)
	}
	if width := o.width(); len(v) < width || (len(v) > width && o.kind != asJSONB) {
		return dst, errMalformed
	}
	return o.appendFixed(dst, v)
}

// width is the length of a fixed binary value; for jsonb, the least.
func (o Out) width() int {
	switch o.kind {
	case asBool, asJSONB:
		return 1
	case asInt2:
		return 2
	case asInt4, asOID, asFloat4, asDate:
		return 4
	case asUUID:
		return 16
	default:
		return 8
	}
}

func (o Out) appendFixed(dst, v []byte) ([]byte, error) {
	switch o.kind {
	case asBool:
		return strconv.AppendBool(dst, v[0] != 0), nil
	case asInt2:
		return strconv.AppendInt(dst, int64(int16(binary.BigEndian.Uint16(v))), 10), nil
	case asInt4:
		return strconv.AppendInt(dst, int64(int32(binary.BigEndian.Uint32(v))), 10), nil
	case asOID:
		return strconv.AppendUint(dst, uint64(binary.BigEndian.Uint32(v)), 10), nil
	case asInt8:
		dst = append(dst, '"')
		return append(strconv.AppendInt(dst, int64(binary.BigEndian.Uint64(v)), 10), '"'), nil
	case asFloat4:
		return appendFloat(dst, float64(math.Float32frombits(binary.BigEndian.Uint32(v))), 32)
	case asFloat8:
		return appendFloat(dst, math.Float64frombits(binary.BigEndian.Uint64(v)), 64)
	case asJSONB:
		return append(dst, v[1:]...), nil
	case asUUID:
		return appendUUID(dst, v), nil
	case asDate:
		return appendDate(dst, int32(binary.BigEndian.Uint32(v))), nil
	case asTime:
		return appendTime(dst, int64(binary.BigEndian.Uint64(v))), nil
	default: // asTimestamp
		return appendTimestamp(dst, int64(binary.BigEndian.Uint64(v))), nil
	}
}

// withoutZeros cuts what says nothing from behind a decimal point.
func withoutZeros(v []byte) []byte {
	if bytes.IndexByte(v, '.') < 0 {
		return v
	}
	return bytes.TrimSuffix(bytes.TrimRight(v, "0"), []byte("."))
}

func (o Out) nameOf(label []byte) []byte {
	for i := 0; i < len(o.names); i += 2 {
		if o.names[i] == string(label) {
			return []byte(o.names[i+1])
		}
	}
	return label
}

// appendInet writes an inet or cidr: family, length of the prefix, whether it is a cidr, length of the address, address. (network.c,
// network_send) The prefix of an inet that is a whole address is not written; PostgreSQL's cast to text would.
func appendInet(dst, v []byte) ([]byte, error) {
	if len(v) < 4 || len(v) != 4+int(v[3]) {
		return dst, errMalformed
	}
	a, ok := netip.AddrFromSlice(v[4:])
	if !ok {
		return dst, errMalformed
	}
	dst = a.AppendTo(append(dst, '"'))
	if v[2] != 0 || int(v[1]) != a.BitLen() {
		dst = strconv.AppendUint(append(dst, '/'), uint64(v[1]), 10)
	}
	return append(dst, '"'), nil
}

// appendFloat writes the shortest number that reads back the same, in ECMAScript's notation, as clients' own would be.
func appendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	switch {
	case math.IsNaN(f):
		return dst, errors.New("Float cannot represent non numeric value: NaN")
	case math.IsInf(f, 0):
		return dst, fmt.Errorf("Float cannot represent non numeric value: %s", infinityName(f))
	case f == 0:
		return append(dst, '0'), nil // -0 has no JSON of its own in ECMAScript
	}
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, bits), nil
	}
	return strconv.AppendFloat(dst, f, 'e', -1, bits), nil
}

func infinityName(f float64) string {
	if f < 0 {
		return "-Infinity"
	}
	return "Infinity"
}

func appendUUID(dst, v []byte) []byte {
	dst = append(dst, '"')
	for i, end := range []int{4, 6, 8, 10, 16} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, v[[]int{0, 4, 6, 8, 10}[i]:end])
	}
	return append(dst, '"')
}
