package packs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/pkt"
)

// plan is what upload-pack makes of a request.
type plan struct {
	prefix []byte   // of the answer, up to the pack; all of it if there is none
	args   []string // of pack-objects; nil if there is no pack
	input  []byte
	pack   key
	ended  error // upload-pack's, when it has no more to say than prefix
}

func (p *plan) size() int64 {
	n := int64(len(p.prefix)+len(p.input)) + 512
	for _, a := range p.args {
		n += int64(len(a)) + 16
	}
	return n
}

// hook takes the place of pack-objects: it hands over what that was to be told, and then waits for its end. Should this process
// die, descriptor 4 is closed, and upload-pack ends with an error that nobody reads. Git appends the arguments, so it is a
// function; they are counted, since one of them may be empty.
const hook = `f() { { printf '%s\0' "$#" "$@"; cat; printf '\0'; } >&3; read -r _ <&4; }; f`

// planMost is the longest time that upload-pack may take to plan.
const planMost = 2 * time.Minute

var errPlanned = errors.New("upload-pack has planned")

// ear is our side of the hook's descriptors.
type ear struct {
	said, toUs *os.File // what it hands over
	held, hold *os.File // what it waits for
	heard      chan told
}

type told struct {
	args  []string
	input []byte
	err   error // io.EOF: no hook was started
}

func newEar() (e *ear, err error) {
	e = &ear{heard: make(chan told, 1)}
	if e.said, e.toUs, err = os.Pipe(); err != nil {
		return nil, err
	}
	if e.held, e.hold, err = os.Pipe(); err != nil {
		e.said.Close()
		e.toUs.Close()
		return nil, err
	}
	return e, nil
}

// listen calls done when the hook has said everything, or what cannot be believed.
func (e *ear) listen(most int64, done func(error)) {
	args, input, err := hear(e.said, most)
	switch {
	case err == nil:
		done(errPlanned)
	case !errors.Is(err, io.EOF):
		done(err)
	}
	e.heard <- told{args, input, err}
}

// hangUp comes when the child is gone. Ours are then the last copies of its descriptors, so that listen ends even if no hook was
// ever started.
func (e *ear) hangUp() told {
	e.toUs.Close()
	e.held.Close()
	t := <-e.heard
	e.said.Close()
	e.hold.Close()
	return t
}

// plan asks upload-pack, within a budget that the caller has a permit for.
func (c *Cache) plan(ctx context.Context, j *Job, b child.Budget) (*plan, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, planMost, errors.New("git upload-pack did not plan in time"))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	e, err := newEar()
	if err != nil {
		return nil, err
	}
	go e.listen(maxInput(j.Request), stop)
	var out bytes.Buffer
	_, err = c.o.Runner.Run(ctx, child.Cmd{
		Dir: j.Lease.Dir, Args: []string{"upload-pack", "--stateless-rpc", "--strict", "."},
		Config: c.planSettings(), Env: protocol(j.Request.Version), Budget: b,
		Stdin: bytes.NewReader(j.Request.Body), Stdout: &atMost{w: &out, left: maxPrefix}, Extra: []*os.File{e.toUs, e.held},
	})
	t := e.hangUp()
	var exit *child.ExitError
	switch {
	case t.err == nil:
		return newPlan(j, out.Bytes(), t.args, t.input), nil
	case err == nil:
		return &plan{prefix: out.Bytes()}, nil
	case errors.As(err, &exit) && !exit.OutOfMemory && refused(refusal(out.Bytes())):
		return &plan{prefix: out.Bytes(), ended: err}, nil
	}
	return nil, err
}

func (c *Cache) planSettings() []string {
	settings := []string{
		"uploadpack.packObjectsHook=" + hook,
		"uploadpack.keepAlive=0",
		"uploadpack.allowFilter=true",
		"uploadpack.allowRefInWant=true",
		// Whoever is let in here may read the repository, and what is in a mirror but not reachable is kept from its
		// clients by the mirror.
		"uploadpack.allowAnySHA1InWant=true",
		"transfer.hideRefs=refs/levee",
	}
	for _, r := range c.o.HideRefs {
		settings = append(settings, "transfer.hideRefs="+r)
	}
	return settings
}

func protocol(version int) []string {
	if version == 0 {
		return nil
	}
	return []string{"GIT_PROTOCOL=version=" + strconv.Itoa(version)}
}

// maxInput of pack-objects: upload-pack writes less than it has read, but for what it finds for shallow clients and wanted refs.
func maxInput(r *pkt.Request) int64 { return 2*int64(len(r.Body)) + 4<<20 }

// maxPrefix bounds acknowledgments and shallow lines.
const maxPrefix = 4 << 20

type atMost struct {
	w    io.Writer
	left int
}

func (a *atMost) Write(p []byte) (int, error) {
	if a.left -= len(p); a.left < 0 {
		return 0, errors.New("upload-pack says more than it should")
	}
	return a.w.Write(p)
}

// hear reads what hook writes: a count, as many arguments, and the input, each ended by a NUL. io.EOF is nothing at all.
func hear(r io.Reader, most int64) (args []string, input []byte, err error) {
	limited := &io.LimitedReader{R: r, N: most + 1}
	in := bufio.NewReader(limited)
	next := func() (string, error) {
		s, err := in.ReadString(0)
		if err == io.EOF && s != "" {
			err = io.ErrUnexpectedEOF
		}
		if limited.N == 0 {
			err = errors.New("pack-objects is to be told more than the request can be the reason for")
		}
		if err != nil {
			return "", err
		}
		return s[:len(s)-1], nil
	}
	count, err := next()
	if err != nil {
		return nil, nil, err
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > 1000 {
		return nil, nil, fmt.Errorf("the hook says that pack-objects has %.20q arguments", count)
	}
	for range n {
		a, err := next()
		if err != nil {
			return nil, nil, noEOF(err)
		}
		args = append(args, a)
	}
	text, err := next()
	return args, []byte(text), noEOF(err)
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// newPlan makes the pack key. Progress does not change a pack; everything else might. With --include-tag the pack follows from
// the refs of the moment as well.
func newPlan(j *Job, prefix []byte, args []string, input []byte) *plan {
	args = slices.DeleteFunc(args[1:], func(a string) bool { // without git itself
		return a == "--progress" || a == "-q" || a == "--all-progress" || a == "--all-progress-implied"
	})
	h := sha256.New()
	put := func(s string) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
		io.WriteString(h, s)
	}
	put(j.Lease.Repo.String())
	for _, a := range args {
		put(a)
		if a == "--include-tag" {
			put(strconv.FormatUint(j.Lease.Generation, 10))
		}
	}
	h.Write(input)
	return &plan{prefix: prefix, args: args, input: input, pack: key(h.Sum(nil))}
}

// refused tells a refusal from a fault of the mirror: whoever leased it has made sure that the wants are there, so one that
// upload-pack cannot read is damaged, and that is no answer for a client.
func refused(text string) bool {
	return text != "" && !strings.Contains(text, "not our ref")
}

// refusal is the text of the line with which upload-pack gives up, "" if it has not.
func refusal(answer []byte) string {
	r := pkt.NewReader(bytes.NewReader(answer))
	for {
		_, payload, err := r.Next()
		if err != nil {
			return ""
		}
		var said *pkt.RemoteError
		if errors.As(pkt.ErrorLine(payload), &said) {
			return said.Text
		}
	}
}
