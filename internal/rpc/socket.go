package rpc

import (
	"net"
	"syscall"
)

// setBuffers bounds the kernel's buffers of a connection, which it would else let grow to tens of megabytes.
func (s *Server) setBuffers(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		setBuffer(int(fd), syscall.SO_RCVBUFFORCE, syscall.SO_RCVBUF, s.o.SocketReceive)
		setBuffer(int(fd), syscall.SO_SNDBUFFORCE, syscall.SO_SNDBUF, s.o.SocketSend)
	})
}

// setBuffer goes beyond net.core.rmem_max and wmem_max where the process may, as root may: their usual 208 KiB would
// hold a long line to a megabyte per second. The window, and so the memory, is what the options say in either case.
func setBuffer(fd, force, plain, n int) {
	if syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, force, n) != nil {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, plain, n)
	}
}
