package storm

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestAnAccountThatTakesMoreThanItsLineBreaksAPromise(t *testing.T) {
	rows := []Account{
		{Name: "read", Plan: 10 << 20, Charged: 10 << 20, Real: 8 << 20, Adversary: "unread downloads"},
		{Name: "write", Plan: 10 << 20, Charged: 9 << 20, Real: 11 << 20, Adversary: "stalled uploads"},
		{Name: "margin", Plan: 1 << 20},
	}
	r := Report{Accounts: rows, Broken: judgeAccounts(rows)}
	if len(r.Broken) != 1 || !strings.Contains(r.Broken[0], "account write really took 11MiB with stalled uploads") || r.ExitStatus() != ExitBroken {
		t.Errorf("%q", r.Broken)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"account", "plan/real", "1.25", "0.91", "unread downloads", "margin"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func TestFillingNeedsToSeeTheServer(t *testing.T) {
	o := small(startFake(t, &fakeCache{}), "fill")
	_, err := Bazel(t.Context(), o, nil)
	if usage := new(UsageError); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--pid") {
		t.Errorf("%v", err)
	}
}

func TestTheKernelSaysWhatAPortsSocketsHold(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := portOf(l.Addr().String())
	before, err := socketMemory(port)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dialFrom(t.Context(), l.Addr().String(), "127.0.0.2", true)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if host, _, _ := net.SplitHostPort(client.LocalAddr().String()); host != "127.0.0.2" {
		t.Errorf("connected from %s", host)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	const n = 32 << 10
	if _, err := client.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		held, err := socketMemory(port)
		if err != nil || time.Now().After(end) {
			t.Fatalf("the kernel holds %d bytes of the %d that nobody reads: %v", held-before, n, err)
		}
		if held-before >= n {
			return
		}
	}
}
