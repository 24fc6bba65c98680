package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/packs"
	"github.com/leveehq/levee/internal/git/pkt"
)

// packfileHeader begins the one section of the answer to a tellable request (gitprotocol-v2(5), "fetch").
const packfileHeader = "000dpackfile\n"

// keepAlive is an empty packet of band 1, which git's own server sends, too, when it has nothing to say.
const keepAlive = "0005\x01"

// noticeEvery is how often a client that waits hears of it.
const noticeEvery = 10 * time.Second

// waiting keeps a client company while its mirror is made, which may take many minutes: proxies on the way end connections
// that are silent, and people take a silent terminal for a broken one. It begins the answer when the client has waited for
// long enough, and only if that can be told.
type waiting struct {
	*call
	q    *pkt.Request
	line struct {
		sync.Mutex
		last string // of what upstream and the mirror's children say
	}
}

// leaseTold is lease for a request that is told of the wait. Once it has begun the answer, errors go into it.
func (c *call) leaseTold(q *pkt.Request) (lease, *mirror.View, error) {
	if !q.Tellable() {
		return c.lease(nil)
	}
	w := &waiting{call: c, q: q}
	ctx, stop := context.WithCancel(c.r.Context())
	told := make(chan struct{})
	go func() {
		defer close(told)
		w.tell(ctx)
	}()
	le, v, err := c.lease(w.progress)
	stop()
	<-told // from here on the answer is this goroutine's again
	return le, v, err
}

func (w *waiting) progress(line string) {
	w.line.Lock()
	defer w.line.Unlock()
	w.line.last = line
}

func (w *waiting) tell(ctx context.Context) {
	pause := w.opt.QueueNoticeAfter
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if w.notice() != nil {
			return // the client has left, which ends the request in its own way
		}
		pause = noticeEvery
	}
}

func (w *waiting) notice() error {
	var b bytes.Buffer
	if !w.begun {
		b.WriteString(packfileHeader)
		w.prologue = true
	}
	if w.q.Progress() {
		w.line.Lock()
		text := fmt.Sprintf("waiting for the first copy of %v from upstream", w.repo)
		if w.line.last != "" {
			text += ": " + w.line.last
		}
		w.line.Unlock()
		_ = pkt.NewMuxer(&b, w.q.SidebandSize(), nil).Progress(text)
	} else {
		b.WriteString(keepAlive)
	}
	o := out{call: w.call}
	_, err := o.Write(b.Bytes())
	return errors.Join(err, o.Flush())
}

// failInBand ends an answer that has begun with nothing of a pack.
func (c *call) failInBand(q *pkt.Request, err error) error {
	text := ""
	switch {
	case isShed(err):
		c.outcome = packs.Shed
		text = shedCodes.Text(err)
	default:
		_, text = c.answer(err)
	}
	var b bytes.Buffer
	_ = pkt.NewMuxer(&b, q.SidebandSize(), nil).Fail(text)
	o := out{call: c}
	_, werr := o.Write(b.Bytes())
	return errors.Join(err, werr)
}
