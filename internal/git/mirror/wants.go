package mirror

import (
	"context"
	"errors"

	"github.com/leveehq/levee/internal/git/upstream"
)

// flight fetches objects by name, for all who want one of them. Like a transfer, it is nobody's own.
type flight struct {
	cred upstream.Credentials
	oids []string
	done chan struct{}

	missing []string // upstream does not have them, or not for cred; set before done is closed, as is err
	err     error
}

// fetchWants returns the flights that bring oids: one of the caller's, unless others bring all of them already.
func (m *mirror) fetchWants(b *bare, cred upstream.Credentials, oids []string) (mine *flight, others []*flight, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[*flight]bool{}
	f := &flight{cred: cred, done: make(chan struct{})}
	for _, o := range oids {
		if other := m.mu.flights[o]; other == nil {
			f.oids = append(f.oids, o)
		} else if !seen[other] {
			seen[other] = true
			others = append(others, other)
		}
	}
	if len(f.oids) == 0 {
		return nil, others, nil
	}
	release := b.hold()
	err = m.s.spawn(func(ctx context.Context) {
		defer m.s.leave(m)
		defer release()
		m.fly(ctx, b, f)
	})
	if err != nil {
		release()
		return nil, nil, err
	}
	m.mu.users++
	if m.mu.flights == nil {
		m.mu.flights = map[string]*flight{}
	}
	for _, o := range f.oids {
		m.mu.flights[o] = f
	}
	return f, others, nil
}

func (m *mirror) fly(ctx context.Context, b *bare, f *flight) {
	f.missing, f.err = m.bringWants(ctx, b, f)
	if ctx.Err() != nil {
		f.err = context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range f.oids {
		delete(m.mu.flights, o)
	}
	close(f.done)
}

func (m *mirror) bringWants(ctx context.Context, b *bare, f *flight) (missing []string, err error) {
	from, err := b.refs()
	if err != nil {
		return nil, err
	}
	_, missing, err = tryWants(f.oids, func(oids []string) error {
		in, err := m.s.receive(ctx, m.id, f.cred, upstream.Fetch{Wants: oids, Haves: haves(from.refs, change{})})
		if err != nil {
			return err
		}
		defer in.discard()
		return m.landWants(ctx, b, in, oids)
	})
	return missing, err
}

// landWants puts what came apart from what refs reach: there it says nothing about who may have it.
func (m *mirror) landWants(ctx context.Context, b *bare, in *incoming, oids []string) error {
	p, err := m.s.patientPermit(ctx, m.id)
	if err != nil {
		return err
	}
	defer p.Release()
	if err := in.index(ctx, p, b, oids); err != nil {
		return err
	}
	landed, err := in.land(b, b.wantsDir())
	if err != nil {
		return err
	}
	if landed == nil {
		return errors.New("upstream sent an empty pack")
	}
	if err := linkWants(b.dir); err != nil {
		return err
	}
	b.mu.Lock()
	b.mu.wants = append([]*pack{landed}, b.mu.wants...)
	b.mu.gen = m.s.gen.Add(1)
	oldest := b.mu.wants[min(mostWants, len(b.mu.wants)):]
	b.mu.Unlock()
	b.weigh()
	if len(oldest) == 0 {
		return nil
	}
	return b.doom(oldest)
}

// mostWants is how many packs of such objects are kept. Each is whole but for what refs reach, so the oldest may go.
const mostWants = 32
