package pgvalue

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// AppendString appends text as a JSON string. Bytes that are no UTF-8 (a database in another encoding without conversion)
// become U+FFFD.
func AppendString[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		b := text[i]
		if b < utf8.RuneSelf {
			if b >= ' ' && b != '"' && b != '\\' {
				i++
				continue
			}
			dst = appendEscape(append(dst, text[start:i]...), b)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
		if r == utf8.RuneError && size == 1 {
			dst = append(append(dst, text[start:i]...), "\uFFFD"...)
			start = i + 1
		}
		i += size
	}
	return append(append(dst, text[start:]...), '"')
}

// stringLength is the length of what AppendString appends.
func stringLength(text []byte) int {
	n := len(text) + 2
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				n += len("\uFFFD") - 1
			}
			i += size
			continue
		case b == '"', b == '\\', b == '\n', b == '\r', b == '\t':
			n++
		case b < ' ':
			n += len("\\u0000") - 1
		}
		i++
	}
	return n
}

func appendEscape(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
	}
}
