package pkt

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// uploadPack gives body to git itself, and reports whether it took it, and its answer.
func (o *origin) uploadPack(version int, body []byte) (answer []byte, taken bool) {
	cmd := exec.Command("git", "upload-pack", "--stateless-rpc", o.dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.tmp, "GIT_CONFIG_NOSYSTEM=1", fmt.Sprintf("GIT_PROTOCOL=version=%d", version)}
	cmd.Stdin = bytes.NewReader(body)
	answer, err := cmd.Output()
	return answer, err == nil
}

// What git takes is never refused here, and what is refused here is refused by git, but for what is stated in the cases.
func TestGitRefusesWhatIsRefused(t *testing.T) {
	o := newOrigin(t)
	o.git(o.dir, "config", "uploadpack.allowRefInWant", "true")
	tip, old, blob := o.git(o.dir, "rev-parse", "main"), o.git(o.dir, "rev-parse", "main~9"), o.git(o.dir, "rev-parse", "main:f1")
	w, h := "want "+tip, "have "+old
	const git, both, neither = "git alone", "both", "neither"
	for _, c := range []struct {
		version int
		body    []byte
		takes   string
	}{
		{2, v2("fetch", "object-format=sha1", w+"|done"), both},
		{2, v2("fetch", "", w+"|"+w+"|"+h+"|done"), both},
		{2, v2("fetch", "agent=x", "want "+strings.ToUpper(tip)+"|done"), both},
		{2, v2("fetch", "", "done|"+w+"|thin-pack|no-progress|include-tag|ofs-delta|deepen 2|deepen-relative|filter tree:0"), both},
		{2, v2("fetch", "", "want "+blob+"|done"), both},
		{2, v2("fetch", "", "want-ref refs/heads/main|done"), both},
		{2, v2("fetch", "", w), both},
		{2, v2("fetch", "", w+"|"+h), both},
		{2, v2("fetch", "", h+"|wait-for-done"), both},
		{2, v2("fetch", "", ""), both},
		{2, v2("fetch", "", w+"|deepen-since 1700000000|deepen-not v1|done"), both},
		{2, v2("fetch", "", w+"|shallow "+old+"|done"), both},
		{2, v2("ls-refs", "", "peel|symrefs|unborn|ref-prefix HEAD|ref-prefix "), both},
		{2, []byte(packets("command=ls-refs\n") + "0000"), both},
		{2, []byte(packets("agent=x", "command=ls-refs", "server-option=a") + "00010000"), both},
		{2, []byte("0000"), both},

		{2, v2("fetch", "", "wnat "+tip), neither},
		{2, v2("fetch", "", "want "+tip[1:]), neither},
		{2, v2("fetch", "", w+"|deepen 0|done"), neither},
		{2, v2("fetch", "", w+"|deepen x|done"), neither},
		{2, v2("fetch", "", w+"|deepen 1|deepen-not v1|done"), neither},
		{2, v2("fetch", "", w+"|filter blob:none|filter tree:0|done"), neither},
		{2, v2("fetch", "object-format=sha256", "want "+d64+"|done"), git + " refuses"},
		{2, v2("push", "", ""), neither},
		{2, v2("ls-refs", "", w), neither},
		{2, []byte(packets("command=fetch", "command=fetch") + "0000"), neither},
		{2, []byte(packets("command=fetch", "color=blue") + "0000"), neither},
		{2, []byte(packets("command=fetch") + "0001" + packets(w)), neither},
		{2, []byte(packets("command=fetch") + "0001" + packets(w) + "0001"), neither},
		{2, []byte(packets("agent=x") + "0000"), neither},
		{2, []byte("0001"), neither},
		{2, []byte("0003"), neither},
		{2, []byte("xxxx"), neither},

		// Bytes that git leaves unread may be meant as something: better told than lost.
		{2, append(v2("fetch", "", w+"|done"), "0000"...), git},
		{2, v2("fetch", "", w+"|deepen 1|deepen 2|done"), git},

		{0, v0(w + "|-|done"), both},
		{0, v0(w + "|-|done|-"), both},
		{1, v0(w + " side-band-64k something-new|-|" + h + "|-"), both},
		{0, v0(w + " multi_ack_detailed no-done side-band-64k|-|" + h + "|-|" + h + "|done"), both},
		{0, v0(w + " side-band|deepen 1|-"), both},
		{0, v0("shallow " + old + "|" + w + " side-band|deepen 3|-|done"), both},
		{0, []byte("0000"), both},
		{0, v0("wnat " + tip + "|-|done"), neither},
		{0, v0("want " + tip[1:] + "|-|done"), neither},
		{0, v0(w + "|-|haev " + old + "|done"), neither},
		{0, v0(w + "|-|have " + old[1:] + "|done"), neither},
		{0, v0(w + "|deepen 0|-|done"), neither},
		{0, v0(w + "|shallow x|-|done"), neither},
		{0, v0(w + "|-|done|have " + old), git},
		{0, v0(w + "|want " + old + " ofs-delta|-|done"), git},
	} {
		_, taken := o.uploadPack(c.version, c.body)
		r, err := parsers[fmt.Sprint("v", c.version)](c.body)
		got := map[[2]bool]string{{true, true}: both, {false, false}: neither, {true, false}: git, {false, true}: git + " refuses"}[[2]bool{taken, err == nil}]
		if got != c.takes {
			t.Errorf("v%d %q\ntaken by %s, want %s (here: %v)", c.version, c.body, got, c.takes, err)
		}
		if got == both {
			answer, _ := o.uploadPack(c.version, c.body)
			if c.version == 2 || r.SidebandSize() > 0 {
				o.wantForetold(r, answer)
			}
		}
	}
}
