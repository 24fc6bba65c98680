package rig

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Ask is one fetch in protocol v2, sent by a client that does as the test says and not as git would.
type Ask struct {
	Wants, Haves []string
	Depth        int
	Filter       string
	Open         bool // without done
	Agent        string
	Quiet        bool     // no-progress
	Lines        []string // more arguments
	Gzip         bool

	User   *url.Userinfo
	From   string // local address; "" is any
	Window int    // of the socket; 0 is the system's
}

func packet(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// Body is what is posted.
func (a Ask) Body() []byte {
	agent := a.Agent
	if agent == "" {
		agent = "git/rig"
	}
	lines := []string{"thin-pack", "ofs-delta"}
	if a.Quiet {
		lines = append(lines, "no-progress")
	}
	if a.Depth > 0 {
		lines = append(lines, "deepen "+strconv.Itoa(a.Depth))
	}
	if a.Filter != "" {
		lines = append(lines, "filter "+a.Filter)
	}
	lines = append(lines, a.Lines...)
	for _, oid := range a.Wants {
		lines = append(lines, "want "+oid)
	}
	for _, oid := range a.Haves {
		lines = append(lines, "have "+oid)
	}
	if !a.Open {
		lines = append(lines, "done")
	}
	return Packets([]string{"command=fetch", "agent=" + agent, "object-format=sha1"}, lines)
}

// Packets writes a v2 request: a command with its capabilities, and arguments.
func Packets(command, arguments []string) []byte {
	var b bytes.Buffer
	for _, line := range command {
		b.WriteString(packet(line + "\n"))
	}
	b.WriteString("0001")
	for _, line := range arguments {
		b.WriteString(packet(line + "\n"))
	}
	b.WriteString("0000")
	return b.Bytes()
}

// Zip compresses a body as git does when it is above 1024 bytes.
func Zip(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(body)
	z.Close()
	return b.Bytes()
}

// NewPost makes a request to git-upload-pack.
func NewPost(ctx context.Context, repo string, body []byte, zipped bool) (*http.Request, error) {
	if zipped {
		body = Zip(body)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, repo+"/git-upload-pack", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if zipped {
		r.Header.Set("Content-Encoding", "gzip")
	}
	r.Header.Set("Content-Type", "application/x-git-upload-pack-request")
	r.Header.Set("Accept", "application/x-git-upload-pack-result")
	r.Header.Set("Git-Protocol", "version=2")
	return r, nil
}

// Send posts the ask and returns when the answer's header is there.
func (a Ask) Send(ctx context.Context, repo string) (*Pack, error) {
	r, err := NewPost(ctx, repo, a.Body(), a.Gzip)
	if err != nil {
		return nil, err
	}
	if a.User != nil {
		password, _ := a.User.Password()
		r.SetBasicAuth(a.User.Username(), password)
	}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true, DialContext: a.dial}
	sent := time.Now()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	p := &Pack{Status: resp.StatusCode, Header: resp.Header, Sent: sent, body: resp.Body, sum: sha1.New()}
	p.r = bufio.NewReaderSize(resp.Body, 4<<10)
	return p, nil
}

// Get sends the ask and reads the answer to its end.
func (a Ask) Get(ctx context.Context, repo string) (*Pack, error) {
	p, err := a.Send(ctx, repo)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p, p.Finish()
}

func (a Ask) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{}
	if a.From != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(a.From)}
	}
	c, err := d.DialContext(ctx, network, address)
	if err == nil && a.Window > 0 {
		err = c.(*net.TCPConn).SetReadBuffer(a.Window)
	}
	return c, err
}

// Pack is the answer to an Ask.
type Pack struct {
	Status   int
	Header   http.Header
	Sections []string
	Notices  []string // of band 2
	Fatal    string   // of band 3
	Refused  string   // of an ERR packet
	Text     string   // of an answer that is not 200
	Size     int64    // of the pack
	Sent     time.Time
	First    time.Time // when the pack's first byte came
	Sum      string    // the trailer: equal packs have equal ones

	body io.ReadCloser
	r    *bufio.Reader
	sum  hash.Hash
	last []byte // at most the size of a trailer
	got  bool   // the end of the packfile section
}

// Close ends the connection.
func (p *Pack) Close() error { return p.body.Close() }

// Whole is nil if the answer had a pack and all of it came.
func (p *Pack) Whole() error {
	switch {
	case p.Status != http.StatusOK:
		return fmt.Errorf("status %d: %s", p.Status, strings.TrimSpace(p.Text))
	case p.Refused != "":
		return fmt.Errorf("ERR %s", p.Refused)
	case p.Fatal != "":
		return fmt.Errorf("band 3: %s", p.Fatal)
	case p.Size == 0:
		return errors.New("no pack")
	case !p.got, len(p.last) != sha1.Size, !bytes.Equal(p.sum.Sum(nil), p.last):
		return fmt.Errorf("a pack of %d bytes that is not whole", p.Size)
	}
	return nil
}

// Finish reads the answer to its end. Its error is of the transfer; see Whole.
func (p *Pack) Finish() error {
	for {
		if _, err := p.Next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Drain reads at a rate until ctx ends or the answer does.
func (p *Pack) Drain(ctx context.Context, bytesPerSecond int) error {
	for ctx.Err() == nil {
		n, err := p.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		pause(ctx, time.Duration(n)*time.Second/time.Duration(bytesPerSecond))
	}
	return context.Cause(ctx)
}

// Next reads one packet and returns its length; io.EOF is the answer's orderly end.
func (p *Pack) Next() (int, error) {
	if p.Status != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(p.r, 64<<10))
		if p.Text += string(text); err == nil {
			err = io.EOF
		}
		return len(text), err
	}
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return 0, err
	}
	size, err := strconv.ParseUint(string(head[:]), 16, 16)
	if err != nil {
		return 0, fmt.Errorf("no packet: %q", head)
	}
	if size < 4 {
		p.got = p.got || size == 0 && len(p.Sections) > 0
		return 4, nil
	}
	text := make([]byte, size-4)
	if _, err := io.ReadFull(p.r, text); err != nil {
		return 0, fmt.Errorf("cut in a packet: %w", err)
	}
	p.take(text)
	return int(size), nil
}

// take sorts one packet.
func (p *Pack) take(text []byte) {
	packing := len(p.Sections) > 0 && p.Sections[len(p.Sections)-1] == "packfile"
	line := strings.TrimSuffix(string(text), "\n")
	switch {
	case packing && len(text) > 0 && text[0] == 1:
		p.data(text[1:])
	case packing && len(text) > 0 && text[0] == 2:
		p.Notices = append(p.Notices, string(text[1:]))
	case packing && len(text) > 0 && text[0] == 3:
		p.Fatal += string(text[1:])
	case strings.HasPrefix(line, "ERR "):
		p.Refused = line[len("ERR "):]
	case line == "acknowledgments", line == "shallow-info", line == "wanted-refs", line == "packfile", line == "packfile-uris":
		p.Sections = append(p.Sections, line)
	}
}

// data hashes all but the last 20 bytes.
func (p *Pack) data(b []byte) {
	if p.Size == 0 {
		p.First = time.Now()
	}
	p.Size += int64(len(b))
	all := append(p.last, b...)
	keep := min(len(all), sha1.Size)
	p.sum.Write(all[:len(all)-keep])
	p.last = bytes.Clone(all[len(all)-keep:])
	p.Sum = fmt.Sprintf("%x", p.last)
}
