package storm

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// The kernel's books of sockets, over netlink (sock_diag(7)): /proc/net/sockstat has one sum for the whole machine, in which
// the clients' sockets of a test on one machine are as many as the server's.
const (
	sockDiagByFamily = 20
	diagSKMemInfo    = 7 // INET_DIAG_SKMEMINFO
	diagHeader       = 56
	diagMessage      = 72 // struct inet_diag_msg
	tcpListen        = 10
)

// socketMemory is what the kernel holds for the established sockets of this machine with the given local ports, in bytes:
// received and not yet read, sent and not yet acknowledged, and set aside for more.
func socketMemory(ports ...int) (int64, error) {
	var sum int64
	for _, family := range []byte{syscall.AF_INET, syscall.AF_INET6} {
		n, err := socketMemoryOf(family, ports)
		if err != nil {
			return 0, fmt.Errorf("read the kernel's sockets: %w", err)
		}
		sum += n
	}
	return sum, nil
}

func socketMemoryOf(family byte, ports []int) (sum int64, err error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, syscall.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	request := make([]byte, syscall.NLMSG_HDRLEN+diagHeader)
	binary.NativeEndian.PutUint32(request, uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(request[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_DUMP)
	body := request[syscall.NLMSG_HDRLEN:]
	body[0], body[1], body[2] = family, syscall.IPPROTO_TCP, 1<<(diagSKMemInfo-1)
	binary.NativeEndian.PutUint32(body[4:], ^uint32(0)&^(1<<tcpListen))
	if err := syscall.Sendto(fd, request, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, err
	}
	for buf := make([]byte, 64<<10); ; {
		n, _, err := syscall.Recvfrom(fd, buf, 0)
		if err != nil {
			return 0, err
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return 0, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case syscall.NLMSG_DONE:
				return sum, nil
			case syscall.NLMSG_ERROR:
				return 0, fmt.Errorf("sock_diag is refused")
			}
			sum += memoryOf(m.Data, ports)
		}
	}
}

// memoryOf reads one inet_diag_msg and its attribute of SK_MEMINFO_* figures.
func memoryOf(b []byte, ports []int) int64 {
	if len(b) < diagMessage || !isPort(int(binary.BigEndian.Uint16(b[4:])), ports) {
		return 0
	}
	for b = b[diagMessage:]; len(b) >= 4; {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return 0
		}
		if binary.NativeEndian.Uint16(b[2:]) == diagSKMemInfo && n >= 4+4*6 {
			// What is set aside may be below zero for a moment.
			figure := func(i int) int64 { return int64(int32(binary.NativeEndian.Uint32(b[4+4*i:]))) }
			return figure(0) + figure(4) + figure(5) // rmem_alloc, fwd_alloc, wmem_queued
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return 0
}

func isPort(p int, ports []int) bool {
	for _, q := range ports {
		if p == q {
			return true
		}
	}
	return false
}

func portOf(address string) int {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(port)
	return n
}
