package rpc

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"bufio"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// benchServerEnv makes this test binary a server, so that benchmarks can tell its CPU from the client's.
const benchServerEnv = "RPC_BENCH_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(benchServerEnv); kind != "" {
		benchServe(kind)
		return
	}
	os.Exit(m.Run())
}

// benchServe serves until its standard input ends.
func benchServe(kind string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	if kind == "rpc" {
		s, err := New(Options{SocketReceive: 2 << 20})
		if err != nil {
			panic(err)
		}
		s.RegisterService(&echoDesc, &echo{})
		registerBulk(s)
		registerMem(s)
		go func() { _ = s.Serve(l) }()
	} else {
		s := grpc.NewServer(grpc.MaxRecvMsgSize(1<<30), grpc.InitialWindowSize(2<<20), grpc.InitialConnWindowSize(32<<20))
		s.RegisterService(&echoDesc, &echo{})
		s.RegisterService(&grpcBulkDesc, &echo{})
		go func() { _ = s.Serve(l) }()
	}
	fmt.Println(l.Addr())
	// A cache server's index is live heap, without which the collector would run hundreds of times a second.
	index := make([]byte, 32<<20)
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(index)
}

// grpcBulkDesc is what registerBulk registers, in grpc-go's terms.
var grpcBulkDesc = grpc.ServiceDesc{
	ServiceName: "test.Bulk",
	HandlerType: (*echoServer)(nil),
	Streams: []grpc.StreamDesc{{StreamName: "Upload", ClientStreams: true, ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		m := new(wrapperspb.BytesValue)
		for {
			if err := s.RecvMsg(m); err == io.EOF {
				return s.SendMsg(m)
			} else if err != nil {
				return err
			}
		}
	}}, {StreamName: "Download", ClientStreams: true, ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		msg := wrapperspb.Bytes(make([]byte, 64<<10))
		for range bulkSize / (64 << 10) {
			if err := s.SendMsg(msg); err != nil {
				return err
			}
		}
		return nil
	}}},
}

// serverProcess is a server in its own process.
type serverProcess struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

func startServer(t testing.TB, binary, kind string) *serverProcess {
	p := &serverProcess{t: t, cmd: exec.Command(binary)}
	p.cmd.Env = append(os.Environ(), benchServerEnv+"="+kind)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.addr = line[:len(line)-1]
	return p
}

// stop ends the server and returns the CPU time that it has used.
func (p *serverProcess) stop() time.Duration {
	_ = p.stdin.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}
