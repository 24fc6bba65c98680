package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/upstream"
)

// permit is the right to run one git process at a time for one mirror.
type permit struct {
	*gate.Permit
	s *Store
}

// permit is for what somebody waits for: upkeep gives way to it.
func (s *Store) permit(ctx context.Context, id upstream.Repo) (*permit, error) {
	if st := s.o.Gate.Stats(); st.InUse+s.o.Budget.Bytes > st.Limit {
		s.interrupt()
	}
	return s.quietPermit(ctx, id)
}

func (s *Store) quietPermit(ctx context.Context, id upstream.Repo) (*permit, error) {
	p, err := s.o.Gate.Admit(ctx, id.String(), s.o.Budget.Bytes)
	if err != nil {
		return nil, err
	}
	return &permit{Permit: p, s: s}, nil
}

// mostSheds is how often a permit is asked for again when a pack has come that upstream would have to send once more.
const mostSheds = 5

func (s *Store) patientPermit(ctx context.Context, id upstream.Repo) (p *permit, err error) {
	for range mostSheds {
		var shed *gate.Shed
		if p, err = s.permit(ctx, id); !errors.As(err, &shed) || shed.Reason == gate.Closed || shed.Reason == gate.TooLarge {
			return p, err
		}
		select {
		case <-time.After(shed.RetryAfter):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, err
}

// git runs c on a repository.
func (p *permit) git(ctx context.Context, dir string, c child.Cmd) error {
	c.Dir, c.Budget = dir, p.s.o.Budget
	_, err := p.s.run.Run(ctx, c)
	return err
}

// incoming is a pack on its way in: a directory of work/ that is laid out as an object directory. It is received without a
// permit, since upstream decides how long that takes, and takes no child until it is whole.
type incoming struct {
	s     *Store
	work  string
	bytes int64
	thin  bool   // it may have deltas against what the mirror has
	hash  string // its name, once it is indexed

	inPlace bool // it was indexed under the name it was received by
}

const rawName = "in.pack"

func (in *incoming) objects() string { return filepath.Join(in.work, "objects") }
func (in *incoming) packs() string   { return filepath.Join(in.work, "objects", "pack") }
func (in *incoming) raw() string     { return filepath.Join(in.packs(), rawName) }

func (s *Store) newIncoming() (*incoming, error) {
	work, err := s.newWork()
	if err != nil {
		return nil, err
	}
	in := &incoming{s: s, work: work}
	for _, dir := range []string{in.packs(), filepath.Join(in.objects(), "info")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			in.discard()
			return nil, err
		}
	}
	return in, nil
}

// receive downloads a pack, and makes room for it as it grows. If the gate sheds, upstream is left alone.
func (s *Store) receive(ctx context.Context, id upstream.Repo, cred upstream.Credentials, f upstream.Fetch) (_ *incoming, err error) {
	p, err := s.permit(ctx, id)
	if err != nil {
		return nil, err
	}
	p.Release()
	in, err := s.newIncoming()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			in.discard()
		}
	}()
	file, err := os.OpenFile(in.raw(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	in.thin = len(f.Haves) > 0
	f.Pack = &roomWriter{in: in, file: file}
	err = s.up.Fetch(ctx, id, cred, f)
	return in, errors.Join(err, file.Close())
}

// roomWriter makes room before it writes, in steps.
type roomWriter struct {
	in   *incoming
	file *os.File
	room int64
}

func (w *roomWriter) Write(p []byte) (int, error) {
	if w.in.bytes+int64(len(p)) > w.room {
		step := max(int64(len(p)), min(8<<20, w.in.s.o.MaxBytes/64))
		if err := w.in.s.makeRoom(step); err != nil {
			return 0, err
		}
		w.room = w.in.bytes + step
	}
	n, err := w.file.Write(p)
	w.in.bytes += int64(n)
	w.in.s.incoming.Add(int64(n))
	return n, err
}

// discard may be called on nil, and twice.
func (in *incoming) discard() {
	if in == nil || in.work == "" {
		return
	}
	os.RemoveAll(in.work)
	in.s.incoming.Add(-in.bytes)
	in.work, in.bytes = "", 0
}

// index verifies what came, and that with b's objects it is all that tips reach.
func (in *incoming) index(ctx context.Context, p *permit, b *bare, tips []string) error {
	if in == nil {
		return p.connected(ctx, b, nil, tips)
	}
	whole, err := in.indexPack(ctx, p, b)
	var exit *child.ExitError
	if errors.As(err, &exit) && exit.OutOfMemory {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	if err != nil {
		return fmt.Errorf("index what upstream sent: %w", err)
	}
	if whole {
		return nil
	}
	return p.connected(ctx, b, in.env(), tips)
}

// env lets git see b's objects and those that came as if they were one.
func (in *incoming) env() []string { return []string{"GIT_OBJECT_DIRECTORY=" + in.objects()} }

// borrow makes b's objects visible where env is used.
func (in *incoming) borrow(b *bare) error {
	return os.WriteFile(filepath.Join(in.objects(), "info", "alternates"), []byte(b.objectDir()+"\n"), 0o600)
}

// indexPack indexes the pack where it lies, unless objects must be added to it. whole says that it needs no others.
func (in *incoming) indexPack(ctx context.Context, p *permit, b *bare) (whole bool, err error) {
	if err := in.borrow(b); err != nil {
		return false, err
	}
	var out bytes.Buffer
	c := child.Cmd{Env: in.env(), Stdout: &out}
	if in.thin {
		file, err := os.Open(in.raw())
		if err != nil {
			return false, err
		}
		defer file.Close()
		c.Args, c.Stdin = []string{"index-pack", "--stdin", "--fix-thin"}, file
	} else {
		in.inPlace = true
		c.Args = []string{"index-pack", "--check-self-contained-and-connected", in.raw()}
	}
	err = p.git(ctx, b.dir, c)
	words := strings.Fields(out.String())
	if len(words) > 0 {
		in.hash = words[len(words)-1]
	}
	if !validOID(in.hash, b.hash) {
		return false, errors.Join(err, fmt.Errorf("git index-pack says %.80q", out.String()))
	}
	var exit *child.ExitError
	if !in.thin && errors.As(err, &exit) && exit.Status == 1 {
		return false, nil // indexed, and there are links to what is not in it
	}
	return !in.thin, err
}

// connected checks that everything that tips reach is there, in b or where env says.
func (p *permit) connected(ctx context.Context, b *bare, env, tips []string) error {
	if len(tips) == 0 {
		return nil
	}
	err := p.git(ctx, b.dir, child.Cmd{
		Args:  []string{"rev-list", "--objects", "--stdin", "--not", "--all", "--quiet"},
		Env:   env,
		Stdin: strings.NewReader(strings.Join(tips, "\n") + "\n"),
	})
	if err != nil {
		return fmt.Errorf("check that what upstream sent is complete: %w", err)
	}
	return nil
}

// land moves the pack to a directory of packs, its index last, and nil if there is none. Its name there is its own: one of
// the same content may be on its way out.
func (in *incoming) land(b *bare, dir string) (*pack, error) {
	if in == nil || in.hash == "" {
		return nil, nil
	}
	from := filepath.Join(in.packs(), "pack-"+in.hash)
	if in.inPlace {
		from = strings.TrimSuffix(in.raw(), ".pack")
	}
	to := in.s.freeName(dir, in.hash)
	for _, ext := range []string{".rev", ".pack", ".idx"} {
		err := os.Rename(from+ext, to+ext)
		if err != nil && !(ext == ".rev" && errors.Is(err, os.ErrNotExist)) {
			removePack(to)
			return nil, err
		}
	}
	return openPack(to, b.hash)
}

// freeName ends in the hash: that is where git looks for one.
func (s *Store) freeName(dir, hash string) string {
	for {
		name := filepath.Join(dir, fmt.Sprintf("pack-%d-%s", s.seq.Add(1), hash))
		if !exists(name+".pack") && !exists(name+".idx") {
			return name
		}
	}
}

// findSuspects lists what only lost tips reached.
func (p *permit) findSuspects(ctx context.Context, b *bare, lost []string) error {
	if len(lost) == 0 {
		return nil
	}
	found := &oidLines{hash: b.hash, most: mostSuspects}
	err := p.git(ctx, b.dir, child.Cmd{
		Args:   []string{"rev-list", "--objects", "--stdin", "--not", "--all"},
		Stdin:  strings.NewReader(strings.Join(lost, "\n") + "\n"),
		Stdout: found,
	})
	if err != nil && !found.over {
		return fmt.Errorf("look for what no ref reaches any more: %w", err)
	}
	b.mu.Lock()
	next := b.mu.suspects.with(found.list)
	b.mu.Unlock()
	if found.over {
		next = suspects{all: true}
	}
	return b.suspect(next)
}

// suspect replaces the list. That all are suspects is written as an unsettled mirror's meta would be read.
func (b *bare) suspect(next suspects) error {
	if err := next.write(b.dir); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.suspects = next
	return nil
}
