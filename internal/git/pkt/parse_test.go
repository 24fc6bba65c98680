package pkt

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var (
	a40 = strings.Repeat("a", 40)
	b40 = strings.Repeat("b", 40)
	c40 = strings.Repeat("c", 40)
	d64 = strings.Repeat("d", 64)
)

// v2 is a request with these capabilities and, behind a delimiter, arguments.
func v2(command, caps, args string) []byte {
	body := packets("command=" + command)
	for c := range strings.FieldsSeq(caps) {
		body += packets(c)
	}
	body += "0001"
	for l := range strings.SplitSeq(args, "|") {
		if l != "" {
			body += packets(l)
		}
	}
	return []byte(body + "0000")
}

// v0 is a request of lines; "-" is a flush packet.
func v0(lines string) []byte {
	body := ""
	for l := range strings.SplitSeq(lines, "|") {
		if l == "-" {
			body += "0000"
		} else {
			body += packets(l + "\n")
		}
	}
	return []byte(body)
}

func TestAV2FetchIsTakenApart(t *testing.T) {
	body := v2("fetch", "agent=git/2.39.5 object-format=sha1 session-id=x server-option=b server-option=a",
		"thin-pack|no-progress|include-tag|ofs-delta|want "+b40+"|want "+strings.ToUpper(a40)+"|want "+b40+
			"|have "+c40+"|shallow "+b40+"|deepen-since 1700000000|deepen-not v2|deepen-not v1|deepen-relative|filter blob:none|"+
			"want-ref refs/heads/z|want-ref refs/heads/a|wait-for-done|sideband-all|packfile-uris https,http|done")
	got, err := ParseV2(body, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := &Request{
		Version: 2, Command: "fetch", Body: body, Agent: "git/2.39.5", ObjectFormat: "sha1",
		Caps: []string{"include-tag", "no-progress", "ofs-delta", "packfile-uris=https,http", "server-option=a", "server-option=b",
			"sideband-all", "thin-pack"},
		Wants: []OID{OID(a40), OID(b40)}, Haves: []OID{OID(c40)}, Shallows: []OID{OID(b40)},
		WantRefs: []string{"refs/heads/a", "refs/heads/z"}, DeepenSince: "1700000000", DeepenNot: []string{"v1", "v2"},
		DeepenRelative: true, Filter: "blob:none", Done: true, WaitForDone: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAV2LsRefsIsTakenApart(t *testing.T) {
	body := v2("ls-refs", "object-format=sha256", "peel|symrefs|unborn|ref-prefix refs/tags/|ref-prefix HEAD|ref-prefix HEAD")
	got, err := ParseV2(body, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := &Request{Version: 2, Command: "ls-refs", Body: body, ObjectFormat: "sha256", Peel: true, Symrefs: true, Unborn: true,
		RefPrefixes: []string{"HEAD", "refs/tags/"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAV0FetchIsTakenApart(t *testing.T) {
	caps := " multi_ack_detailed no-done side-band-64k thin-pack no-progress deepen-relative agent=git/2.39.5 object-format=sha1 session-id=x"
	body := v0("want " + b40 + caps + "|want " + a40 + "|shallow " + c40 + "|deepen 3|filter tree:0|-|have " + c40 + "|have " + b40 + "|-|have " + a40 + "|done")
	got, err := ParseV0(1, body, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got.rest = ""
	want := &Request{
		Version: 1, Command: "fetch", Body: body, Agent: "git/2.39.5", ObjectFormat: "sha1",
		Caps:  []string{"deepen-relative", "multi_ack_detailed", "no-done", "no-progress", "side-band-64k", "thin-pack"},
		Wants: []OID{OID(a40), OID(b40)}, Haves: []OID{OID(a40), OID(b40), OID(c40)}, Shallows: []OID{OID(c40)},
		Depth: 3, DeepenRelative: true, Filter: "tree:0", Done: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestV0TellsTheObjectFormatByTheLengthOfIDs(t *testing.T) {
	got, err := ParseV0(0, v0("want "+d64+" ofs-delta|-|have "+d64+"|done"), Limits{})
	if err != nil || got.ObjectFormat != "sha256" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTheProbeHasNoCommand(t *testing.T) {
	for _, parse := range parsers {
		r, err := parse([]byte("0000"))
		if err != nil || r.Command != "" || r.EndsInPack() || r.Tellable() {
			t.Errorf("got %+v, %v", r, err)
		}
	}
}

var parsers = map[string]func([]byte) (*Request, error){
	"v0": func(b []byte) (*Request, error) { return ParseV0(0, b, Limits{}) },
	"v1": func(b []byte) (*Request, error) { return ParseV0(1, b, Limits{}) },
	"v2": func(b []byte) (*Request, error) { return ParseV2(b, Limits{}) },
}

func TestAnErrorNamesTheLineAndWhatWasExpected(t *testing.T) {
	for _, c := range []struct{ parser, body, want string }{
		{"v2", "", "empty"},
		{"v2", "000", "line 1 of the request: the body ends here"},
		{"v2", "0032want " + a40, "line 1 of the request: 46 bytes were promised and 45 are there"},
		{"v2", "zzzz", `line 1 of the request: malformed: a packet's length is "zzzz"`},
		{"v2", "0003", `no packet has the length "0003"`},
		{"v2", "0001", "line 1 of the request: a delimiter packet; expected a line command="},
		{"v2", packets("agent=x") + "0000", "line 2 of the request: a flush packet; expected a line command="},
		{"v2", packets("command=fetch") + "0002", "line 2 of the request: a response-end packet"},
		{"v2", packets("command=push") + "0000", `line 1 of the request: command "push" is not known; expected ls-refs, fetch`},
		{"v2", packets("command=fetch", "command=ls-refs"), `line 2 of the request: command "ls-refs" after fetch`},
		{"v2", packets("command=fetch", "color=blue"), `line 2 of the request: capability "color=blue" is not known; expected agent`},
		{"v2", string(v2("fetch", "", "want "+a40[1:])), `line 3 of the request: want "` + a40[1:] + `"; expected an object id of 40 or 64`},
		{"v2", string(v2("fetch", "", "want HEAD")), `want "HEAD"; expected an object id in hexadecimal`},
		{"v2", string(v2("fetch", "", "want "+a40+" side-band")), `expected an object id in hexadecimal`},
		{"v2", string(v2("fetch", "", "wnat "+a40)), `is no argument of fetch; expected want`},
		{"v2", string(v2("fetch", "", "done ")), `"done " is no argument of fetch`},
		{"v2", string(v2("fetch", "", "deepen 0")), `deepen "0"; expected it once, with a number from 1`},
		{"v2", string(v2("fetch", "", "deepen 1|deepen 1")), `line 4 of the request: deepen "1"; expected it once`},
		{"v2", string(v2("fetch", "", "deepen 99999999999")), `with a number from 1 to 2147483647`},
		{"v2", string(v2("fetch", "", "deepen-since yesterday")), "expected it once, with seconds since 1970"},
		{"v2", string(v2("fetch", "", "filter ")), "expected one that is not empty"},
		{"v2", string(v2("fetch", "", "filter a|filter b")), "line 4"},
		{"v2", string(v2("fetch", "", "want-ref a\nb")), "a NUL or a line feed within"},
		{"v2", string(v2("fetch", "", "deepen 1|deepen-not v1")), "deepen together with deepen-since or deepen-not"},
		{"v2", string(v2("fetch", "", "want "+d64)), "object ids of 64 digits and says no object-format"},
		{"v2", string(v2("fetch", "object-format=sha256", "want "+d64+"|have "+a40)), "object ids of 40 digits and says object-format=sha256"},
		{"v2", string(v2("fetch", "object-format=md5", "")), `object-format is "md5"; expected sha1 or sha256`},
		{"v2", string(v2("ls-refs", "", "want "+a40)), "is no argument of ls-refs; expected peel"},
		{"v2", packets("command=fetch") + "0001" + packets("done") + "0001", "a delimiter packet; expected an argument of fetch"},
		{"v2", packets("command=fetch") + "0001" + packets("done"), "line 4 of the request: the body ends here"},
		{"v2", string(v2("fetch", "", "")) + "0000", "line 4 of the request: 4 more bytes behind the flush packet"},
		{"v2", "00000000", "line 2 of the request: 4 more bytes behind"},

		{"v0", "", "empty"},
		{"v0", "00000000", "4 more bytes behind the end"},
		{"v0", packets("done\n"), `line 1 of the request: "done"; expected want`},
		{"v0", packets("have " + a40), "expected want, shallow"},
		{"v0", string(v0("shallow " + a40 + "|-")), "line 2 of the request: a flush packet; expected a line want"},
		{"v0", string(v0("want " + a40)), "line 2 of the request: the body ends here"},
		{"v0", string(v0("want " + a40 + "|want " + b40 + " ofs-delta")), `line 2 of the request: capabilities "ofs-delta"; they belong to the first want`},
		{"v0", string(v0("want " + a40 + "|-|want " + b40)), `line 3 of the request: "want ` + b40 + `"; expected have, done or a flush packet`},
		{"v0", string(v0("want " + a40 + "|-|done|have " + b40)), "after done; expected nothing"},
		{"v0", string(v0("want "+a40+"|-")) + "0001", "a delimiter packet; protocol v0 has none"},
		{"v1", "0001", "a delimiter packet; protocol v1 has none"},
		{"v0", string(v0("want "+a40+"|-")) + "00", "the body ends here"},
		{"v0", string(v0("want " + a40 + "|-|have " + d64 + "|done")), "object ids of 64 digits and says no object-format"},
	} {
		r, err := parsers[c.parser]([]byte(c.body))
		if err == nil || r != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.100q:\n got %v\nwant … %s …", c.parser, c.body, err, c.want)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
	_, err := parsers["v2"]([]byte("0032want " + a40))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v is no unexpected end", err)
	}
	_, err = parsers["v0"]([]byte("<html>"))
	if !errors.Is(err, ErrMalformed) {
		t.Errorf("%v is not malformed", err)
	}
}

func TestWhatIsAboveTheLimitsIsTooLarge(t *testing.T) {
	body := v2("fetch", "", "want "+a40+"|have "+b40+"|have "+b40+"|done")
	if _, err := ParseV2(body, Limits{Bytes: int64(len(body)), Lines: 5}); err != nil {
		t.Errorf("just within the limits: %v", err)
	}
	for _, l := range []Limits{{Bytes: int64(len(body)) - 1}, {Lines: 4}} {
		if _, err := ParseV2(body, l); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%+v: got %v, want ErrTooLarge", l, err)
		}
	}
	if _, err := ParseV2(make([]byte, 16<<20+1), Limits{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
	long := []byte(packets("command=fetch") + "0001" + strings.Repeat(packets("want "+a40), 400_000) + "0000")
	if _, err := ParseV2(long, Limits{Bytes: 1 << 30}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func TestSidebandAndProgressAreAsTheClientAsked(t *testing.T) {
	for _, c := range []struct {
		r        *Request
		size     int
		progress bool
	}{
		{mustV2(t, "fetch", "", "want "+a40+"|done"), 65515, true},
		{mustV2(t, "fetch", "", "want "+a40+"|no-progress|done"), 65515, false},
		{mustV0(t, "want "+a40+"|-|done"), 0, false},
		{mustV0(t, "want "+a40+" side-band|-|done"), 995, true},
		{mustV0(t, "want "+a40+" side-band side-band-64k|-|done"), 65515, true},
		{mustV0(t, "want "+a40+" side-band-64k no-progress|-|done"), 65515, false},
	} {
		if c.r.SidebandSize() != c.size || c.r.Progress() != c.progress {
			t.Errorf("%s: side-band %d, progress %t; want %d, %t", c.r.Body, c.r.SidebandSize(), c.r.Progress(), c.size, c.progress)
		}
	}
}

func mustV2(t *testing.T, command, caps, args string) *Request {
	t.Helper()
	r, err := ParseV2(v2(command, caps, args), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustV0(t *testing.T, lines string) *Request {
	t.Helper()
	r, err := ParseV0(0, v0(lines), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOnlyAPackfileSectionAloneIsTellable(t *testing.T) {
	want := "want " + a40
	for _, c := range []struct {
		args           string
		pack, tellable bool
	}{
		{want + "|done", true, true},
		{want + "|have " + b40 + "|done", true, true},
		{want + "|filter blob:none|done", true, true},
		{want, true, false},
		{want + "|have " + b40, false, false},
		{want + "|have " + b40 + "|wait-for-done", false, false},
		{"done", false, false},
		{"have " + b40 + "|wait-for-done", false, false},
		{want + "|deepen 1|done", true, false},
		{want + "|deepen-since 1|done", true, false},
		{want + "|deepen-not v1|done", true, false},
		{want + "|shallow " + c40 + "|done", true, false},
		{"want-ref refs/heads/main|done", true, false},
		{want + "|sideband-all|done", true, false},
		{want + "|packfile-uris https|done", true, false},
	} {
		r := mustV2(t, "fetch", "", c.args)
		if r.EndsInPack() != c.pack || r.Tellable() != c.tellable {
			t.Errorf("%s: pack %t, tellable %t; want %t, %t", c.args, r.EndsInPack(), r.Tellable(), c.pack, c.tellable)
		}
	}
	for lines, pack := range map[string]bool{
		"want " + a40 + "|-|done":                  true,
		"want " + a40 + "|-|have " + b40 + "|done": true,
		"want " + a40 + "|-|have " + b40 + "|-":    false,
		"want " + a40 + "|deepen 1|-":              false,
	} {
		if r := mustV0(t, lines); r.EndsInPack() != pack || r.Tellable() {
			t.Errorf("%s: pack %t, tellable %t; want %t, false", lines, r.EndsInPack(), r.Tellable(), pack)
		}
	}
	if r := mustV2(t, "ls-refs", "", ""); r.EndsInPack() || r.Tellable() {
		t.Error("ls-refs has no pack")
	}
}

// Of each group all are one, and no two groups are.
func TestTheCanonicalFormIsSharedByAllThatGetTheSameAnswer(t *testing.T) {
	w, h := "want "+a40, "have "+b40
	fetch := func(caps, args string) *Request { return mustV2(t, "fetch", caps, args) }
	groups := map[string][]*Request{
		"a clone": {
			fetch("", w+"|done"), fetch("agent=git/2.39", w+"|done"), fetch("agent=git/2.47 session-id=7", "no-progress|"+w+"|done"),
			fetch("object-format=sha1", "done|want "+strings.ToUpper(a40)+"|"+w),
		},
		"of two":                {fetch("", w+"|want "+b40+"|done"), fetch("", "want "+b40+"|"+w+"|done")},
		"a round":               {fetch("", w+"|"+h), fetch("agent=x", h+"|"+w)},
		"done with haves":       {fetch("", w+"|"+h+"|done")},
		"with another have":     {fetch("", w+"|have "+c40+"|done")},
		"a thin one":            {fetch("", "thin-pack|"+w+"|done")},
		"with offsets":          {fetch("", "ofs-delta|"+w+"|done")},
		"with tags":             {fetch("", "include-tag|"+w+"|done")},
		"with an option":        {fetch("server-option=a", w+"|done")},
		"a filtered one":        {fetch("", w+"|filter blob:none|done")},
		"filtered in other way": {fetch("", w+"|filter tree:0|done")},
		"a shallow one":         {fetch("", w+"|deepen 1|done"), fetch("agent=x", "deepen 1|"+w+"|done")},
		"a deeper one":          {fetch("", w+"|deepen 2|done")},
		"deepened":              {fetch("", w+"|deepen 1|deepen-relative|done")},
		"since":                 {fetch("", w+"|deepen-since 7|done")},
		"not":                   {fetch("", w+"|deepen-not 7|done")},
		"not two":               {fetch("", w+"|deepen-not 7|deepen-not 8|done"), fetch("", w+"|deepen-not 8|deepen-not 7|done")},
		"from a shallow one":    {fetch("", w+"|shallow "+b40+"|done")},
		"by name":               {fetch("", "want-ref HEAD|done")},
		"waiting for done":      {fetch("", w+"|"+h+"|wait-for-done")},
		"v0": {
			mustV0(t, w+"|-|done"), mustV0(t, w+" agent=x side-band-64k no-progress|-|done"), mustV0(t, w+" side-band|-|done|-"),
			second1(ParseV0(1, v0(w+"|-|done"), Limits{})),
		},
		"v0 with multi_ack":  {mustV0(t, w+" multi_ack|-|done")},
		"v0 in one round":    {mustV0(t, w+"|-|"+h+"|have "+c40+"|-"), mustV0(t, w+"|-|have "+c40+"|"+h+"|-")},
		"v0 in two rounds":   {mustV0(t, w+"|-|"+h+"|-|have "+c40+"|-")},
		"v0 in other rounds": {mustV0(t, w+"|-|have "+c40+"|-|"+h+"|-")},
		"ls-refs":            {mustV2(t, "ls-refs", "agent=x", "peel"), mustV2(t, "ls-refs", "", "peel")},
		"ls-refs, symrefs":   {mustV2(t, "ls-refs", "", "symrefs")},
		"ls-refs, prefix":    {mustV2(t, "ls-refs", "", "peel|ref-prefix a|ref-prefix b"), mustV2(t, "ls-refs", "", "peel|ref-prefix b|ref-prefix a")},
		"object-info":        {mustV2(t, "object-info", "agent=x", "size|oid "+a40), mustV2(t, "object-info", "", "size|oid "+a40)},
		"object-info, other": {mustV2(t, "object-info", "", "size|oid "+b40)},
		"bundle-uri":         {mustV2(t, "bundle-uri", "", "")},
	}
	seen := map[[32]byte]string{}
	for name, group := range groups {
		sum := group[0].Canonical()
		if other, taken := seen[sum]; taken {
			t.Errorf("%q and %q are one", name, other)
		}
		seen[sum] = name
		for i, r := range group {
			if r.Canonical() != sum {
				t.Errorf("%q: %d. is another than the first", name, i)
			}
		}
	}
}

func second1[T any](v T, _ error) T { return v }

// What a Request says of its memory.
func TestALongRequestCostsItsBodyTwiceAndALittle(t *testing.T) {
	raw := []byte(packets("command=fetch", "object-format=sha1") + "0001")
	for i := range 50_000 {
		raw = append(raw, packets(fmt.Sprintf("have %040x\n", i*7919%50_000))...)
	}
	raw = append(raw, "0000"...)
	var r *Request
	cost := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, _ = ParseV2(raw, Limits{})
		}
	})
	if len(r.Haves) != 50_000 || !slices.IsSorted(r.Haves) {
		t.Fatalf("%d haves", len(r.Haves))
	}
	if most := int64(len(raw)) * 3 / 2; cost.AllocedBytesPerOp() > most || cost.AllocsPerOp() > 20 {
		t.Errorf("%d bytes in %d allocations for a body of %d, want at most %d in 20",
			cost.AllocedBytesPerOp(), cost.AllocsPerOp(), len(raw), most)
	}
}

func BenchmarkParseV2(b *testing.B) {
	body := []byte(packets("command=fetch") + "0001")
	for i := range 4294 {
		body = append(body, packets(fmt.Sprintf("want %040x\n", i*7919%4294))...)
	}
	body = append(body, packets("done")+"0000"...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := ParseV2(body, Limits{})
		if err != nil {
			b.Fatal(err)
		}
		r.Canonical()
	}
}
