package pgvalue

// Object ids of the shapes, from pg_type.dat.
const (
	oidPoint   = 600
	oidLseg    = 601
	oidPath    = 602
	oidBox     = 603
	oidPolygon = 604
	oidLine    = 628
	oidCircle  = 718
)

// encodeShape writes a geometric value in PostgreSQL's text form.
func encodeShape(oid uint32, value any) ([]byte, error) {
	m, ok := value.(map[string]any)
	if !ok {
		return nil, wrong("expected an object")
	}
	switch oid {
	case oidPoint:
		return appendPoint(nil, m)
	case oidLseg, oidLine, oidBox: // two points make each of them
		return appendPoints(nil, "", "", []any{m["a"], m["b"]})
	case oidPath:
		if open, _ := m["isOpen"].(bool); open {
			return appendPoints(nil, "[", "]", m["points"])
		}
		return appendPoints(nil, "(", ")", m["points"])
	case oidPolygon:
		return appendPoints(nil, "(", ")", m["points"])
	default:
		b, err := appendPoint([]byte{'<'}, m["center"])
		if err != nil {
			return nil, err
		}
		if b, err = appendNumber(append(b, ','), m["radius"]); err != nil {
			return nil, err
		}
		return append(b, '>'), nil
	}
}

// appendPoints writes points between brackets. A single point is a list of one, as GraphQL coerces.
func appendPoints(b []byte, before, after string, value any) ([]byte, error) {
	points, ok := value.([]any)
	if !ok {
		points = []any{value}
	}
	if len(points) == 0 {
		return nil, wrong("there must be a point at least")
	}
	b = append(b, before...)
	for i, p := range points {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendPoint(b, p); err != nil {
			return nil, err
		}
	}
	return append(b, after...), nil
}

func appendPoint(b []byte, value any) ([]byte, error) {
	m, ok := value.(map[string]any)
	if !ok {
		return nil, wrong("expected a point")
	}
	b, err := appendNumber(append(b, '('), m["x"])
	if err != nil {
		return nil, err
	}
	if b, err = appendNumber(append(b, ','), m["y"]); err != nil {
		return nil, err
	}
	return append(b, ')'), nil
}

func appendNumber(b []byte, value any) ([]byte, error) {
	text, err := encodePlain(value)
	if err != nil {
		return nil, err
	}
	return append(b, text...), nil
}
