package privtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/e2e/cases"
	"github.com/leveehq/levee/internal/e2e/rig"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// pattern is a blob that nobody has to hold: zeros after its first byte.
type pattern struct {
	first byte
	size  int64
}

func (p pattern) reader() io.Reader { return io.LimitReader(&patternReader{first: p.first}, p.size) }

type patternReader struct {
	first byte
	begun bool
}

func (r *patternReader) Read(b []byte) (int, error) {
	clear(b)
	if !r.begun && len(b) > 0 {
		b[0], r.begun = r.first, true
	}
	return len(b), nil
}

func (p pattern) hash(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	if _, err := io.Copy(h, p.reader()); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// put stores it over HTTP.
func (p pattern) put(s *rig.Server, hash string) error {
	req, err := http.NewRequest(http.MethodPut, "http://"+s.HTTP+"/cas/"+hash, p.reader())
	if err != nil {
		return err
	}
	req.ContentLength = p.size
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("PUT: %s %s", resp.Status, text)
	}
	return nil
}

// write stores it by ByteStream in messages of 1 MiB.
func (p pattern) write(ctx context.Context, c *cases.Client, hash string) error {
	w, err := c.BS.Write(ctx)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("uploads/11111111-1111-4111-8111-111111111111/blobs/%s/%d", hash, p.size)
	buf, in := make([]byte, mib), p.reader()
	for off := int64(0); off < p.size; {
		n, err := io.ReadFull(in, buf)
		if err != nil && err != io.ErrUnexpectedEOF {
			return err
		}
		q := &bspb.WriteRequest{ResourceName: name, WriteOffset: off, Data: buf[:n]}
		off += int64(n)
		q.FinishWrite = off == p.size
		if w.Send(q) != nil {
			break // CloseAndRecv says why
		}
	}
	_, err = w.CloseAndRecv()
	return err
}

// paced is a reader of at most rate bytes a second.
type paced struct {
	r     io.Reader
	rate  float64
	began time.Time
	n     float64
}

func (p *paced) Read(b []byte) (int, error) {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	n, err := p.r.Read(b[:min(len(b), 64<<10)])
	p.n += float64(n)
	<-time.After(time.Until(p.began.Add(time.Duration(p.n / p.rate * float64(time.Second)))))
	return n, err
}

// B9: a blob of four times the group's memory goes in both ways and out at 5 MB/s, in less than 200 MiB.
func TestCaseB9ABlobLargerThanMemoryGoesInAndOut(t *testing.T) {
	const size, rate = 1 << 30, 5e6
	d := newDisk(t, 4<<30)
	s := rig.StartUnder(t, newGroup(t, 256*mib).by(), filepath.Join(d.dir, "data"), "--store-max-size", "3GiB", "--store-min-free", "1MiB")
	c := cases.Connect(t, s)
	zeros, other := pattern{0, size}, pattern{1, size}
	zerosHash, otherHash := zeros.hash(t), other.hash(t)
	if err := zeros.write(t.Context(), c, zerosHash); err != nil {
		t.Fatal(err)
	}
	if err := other.put(s, otherHash); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for name, open := range map[string]func() (io.Reader, error){
		otherHash: func() (io.Reader, error) {
			resp, err := http.Get("http://" + s.HTTP + "/cas/" + otherHash)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { resp.Body.Close() })
			return resp.Body, nil
		},
		zerosHash: func() (io.Reader, error) {
			st, err := c.BS.Read(t.Context(), &bspb.ReadRequest{ResourceName: fmt.Sprintf("blobs/%s/%d", zerosHash, int64(size))})
			return &messages{st: st}, err
		},
	} {
		wg.Go(func() {
			in, err := open()
			h := sha256.New()
			if err == nil {
				_, err = io.Copy(h, &paced{r: in, rate: rate})
			}
			if got := hex.EncodeToString(h.Sum(nil)); err != nil || got != name {
				t.Errorf("read back: %v, hash %s", err, got)
			}
		})
	}
	wg.Wait()
	peak := s.PeakRSS()
	t.Logf("peak RSS %d MiB", peak/mib)
	if peak == 0 || peak >= 200*mib {
		t.Errorf("the peak RSS was %d MiB", peak/mib)
	}
}

// messages reads the data of a stream.
type messages struct {
	st   bspb.ByteStream_ReadClient
	left []byte
}

func (m *messages) Read(p []byte) (int, error) {
	for len(m.left) == 0 {
		resp, err := m.st.Recv()
		if err != nil {
			return 0, err
		}
		m.left = resp.Data
	}
	n := copy(p, m.left)
	m.left = m.left[n:]
	return n, nil
}

// B1: a thousand slow readers of 64 MiB over twenty connections, in a group of 512 MiB.
func TestCaseB1AThousandSlowReadersDoNotFillMemory(t *testing.T) {
	const readers, conns, rate = 1000, 20, 100e3
	d := newDisk(t, 2<<30)
	s := rig.StartUnder(t, newGroup(t, 512*mib).by(), filepath.Join(d.dir, "data"), "--store-max-size", "1GiB", "--store-min-free", "1MiB")
	big := pattern{0, 64 * mib}
	hash := big.hash(t)
	if err := big.put(s, hash); err != nil {
		t.Fatal(err)
	}
	small := store(t, cases.Connect(t, s), 8)

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	hurry := make(chan struct{}) // closed when those who stay are to finish at full speed
	var done, started sync.WaitGroup
	var finished, shed, begun atomic.Int64
	for range conns {
		conn := slowConn(t, s)
		for i := range readers / conns {
			stays := i == 0
			started.Add(1)
			done.Go(func() {
				mine := ctx
				if stays {
					mine = t.Context()
				}
				st, err := bspb.NewByteStreamClient(conn).Read(mine, &bspb.ReadRequest{ResourceName: fmt.Sprintf("blobs/%s/%d", hash, big.size)})
				started.Done()
				n, err := readSlowly(st, err, rate, hurry, &begun)
				switch {
				case err == nil && n == big.size:
					finished.Add(1)
				case mine.Err() != nil:
				case retriable(err):
					shed.Add(1)
				default:
					t.Errorf("a slow reader ends after %d bytes with %v", n, err)
				}
			})
		}
	}
	started.Wait()
	eventually(t, time.Minute, "most readers have begun", func() bool { return begun.Load() > readers/2 })
	var slowest time.Duration
	for range 30 {
		began := time.Now()
		one, err := cases.New(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := one.ReadOnce(t.Context(), readOf(small))
		if took := time.Since(began); err != nil || len(got) != 8 {
			t.Errorf("a read of 8 bytes on a new connection: %d bytes, %v", len(got), err)
		} else {
			slowest = max(slowest, took)
		}
		one.Close()
		<-time.After(time.Second)
	}
	if slowest > time.Second {
		t.Errorf("a read of 8 bytes on a new connection took %s", slowest)
	}
	leave()
	close(hurry)
	done.Wait()
	t.Logf("%d finished, %d were shed, slowest small read %s, peak RSS %d MiB", finished.Load(), shed.Load(), slowest, s.PeakRSS()/mib)
	if finished.Load() == 0 || s.PeakRSS() > 512*mib {
		t.Error("want some to finish, within the group's limit")
	}
	eventually(t, 20*time.Second, "nothing is in use", func() bool {
		read, err1 := s.InUse("read")
		streams, err2 := s.InUse("streams")
		return err1 == nil && err2 == nil && read+streams == 0
	})
}

func slowConn(t *testing.T, s *rig.Server) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(mib), grpc.WithReadBufferSize(16<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// readSlowly takes rate bytes a second until hurry is closed.
func readSlowly(st bspb.ByteStream_ReadClient, err error, rate float64, hurry <-chan struct{}, begun *atomic.Int64) (n int64, _ error) {
	for err == nil {
		var resp *bspb.ReadResponse
		if resp, err = st.Recv(); err != nil {
			break
		}
		if n == 0 {
			begun.Add(1)
		}
		n += int64(len(resp.Data))
		select {
		case <-hurry:
		case <-st.Context().Done():
		case <-time.After(time.Duration(float64(len(resp.Data)) / rate * float64(time.Second))):
		}
	}
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// retriable tells an answer that says when to come again.
func retriable(err error) bool {
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted && st.Code() != codes.Unavailable {
		return false
	}
	for _, d := range st.Details() {
		if _, ok := d.(*errdetails.RetryInfo); ok {
			return true
		}
	}
	return false
}

// O1: reading twice as much as the group may use, through the cache, is no pressure.
func TestCaseO1ReadingMoreThanTheGroupHoldsIsNoPressure(t *testing.T) {
	const limit = 512 * mib
	d := newDisk(t, 3<<30)
	g := newGroup(t, limit)
	s := rig.StartUnder(t, g.by(), filepath.Join(d.dir, "data"), "--store-max-size", "2GiB", "--store-min-free", "1MiB")
	var found struct {
		Limit  int64             `json:"limit_bytes"`
		Source levee.LimitSource `json:"limit_source"`
	}
	if err := s.Status(&found); err != nil || found.Limit != limit || found.Source != levee.FromGroup {
		t.Fatalf("the limit is %d from %s, %v", found.Limit, found.Source, err)
	}
	var hashes []string
	for i := range 16 {
		p := pattern{byte(i + 1), 64 * mib}
		hashes = append(hashes, p.hash(t))
		if err := p.put(s, hashes[i]); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for _, h := range hashes {
			resp, err := http.Get("http://" + s.HTTP + "/cas/" + h)
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || n != 64*mib {
				t.Errorf("%s, %d bytes, %v", resp.Status, n, err)
			}
			if level, err := s.Metric("levee_pressure_level"); err != nil || level != 0 {
				t.Errorf("the level is %v, %v", level, err)
			}
		}
	}
	if used := g.usage(); used < limit*8/10 {
		t.Errorf("the group uses %d MiB of %d: page cache does not fill it here, so nothing is tested", used/mib, int64(limit)/mib)
	}
}
