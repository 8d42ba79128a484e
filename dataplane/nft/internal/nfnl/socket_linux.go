// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// readBuffer is asked of a socket for the errors of a large transaction that fails all over, and for notifications.
	readBuffer = 4 << 20
	// sendRoom is what the kernel wants of the send buffer besides the message.
	sendRoom = 4 << 10
)

// kernelSocket is a Socket of the kernel's.
type kernelSocket struct {
	nl  *netlink.Conn
	raw syscall.RawConn
	// room is the largest message that the send buffer takes, zero before the first.
	room int
}

// Open returns a netlink socket to netfilter. Errors: those of the system calls.
func Open(cfg Config) (Socket, error) { return open(cfg) }

func open(cfg Config) (*kernelSocket, error) {
	nl, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("nfnl: open netlink socket: %w", err)
	}
	raw, err := nl.SyscallConn()
	for _, option := range []netlink.ConnOption{netlink.ExtendedAcknowledge, netlink.CapAcknowledge} {
		if err == nil {
			err = nl.SetOption(option, true)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nfnl: set up netlink socket: %w", err), nl.Close())
	}
	s := &kernelSocket{nl: nl, raw: raw}
	// A smaller one only loses details of errors and makes for more reading.
	_ = s.setBuffer(unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, readBuffer)
	return s, nil
}

// Close closes it.
func (s *kernelSocket) Close() error { return s.nl.Close() }

// Send sends one datagram; see Socket.
func (s *kernelSocket) Send(data []byte) error {
	if err := s.reserve(len(data)); err != nil {
		return err
	}
	var failed error
	err := s.raw.Write(func(fd uintptr) bool {
		failed = ignoringEINTR(
			func() error { return unix.Sendto(int(fd), data, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) },
		)
		return !errors.Is(failed, unix.EAGAIN)
	})
	return errors.Join(err, failed)
}

// Receive receives one datagram; see Socket.
func (s *kernelSocket) Receive(buf []byte) (n int, err error) {
	var failed error
	err = s.raw.Control(func(fd uintptr) {
		failed = ignoringEINTR(func() (err error) {
			n, _, err = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
			return err
		})
	})
	if err == nil {
		return n, failed
	}
	return n, errors.Join(err, failed)
}

// wait returns once there is something to receive, an error of the queue included, or the deadline
// of the socket is over.
func (s *kernelSocket) wait() error {
	return s.raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}

// reserve makes the send buffer large enough for one message of the given size.
func (s *kernelSocket) reserve(size int) error {
	if size <= s.room {
		return nil
	}
	if err := s.setBuffer(unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, size+sendRoom); err != nil {
		return fmt.Errorf("nfnl: send buffer of %d bytes: %w", size, err)
	}
	var got int
	var failed error
	err := s.raw.Control(func(fd uintptr) {
		got, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("nfnl: size of send buffer: %w", err)
	}
	s.room = got - sendRoom
	if size > s.room {
		return &SizeError{Size: size, Limit: s.room}
	}
	return nil
}

// setBuffer sets a socket buffer beyond the system's limit, or up to it where we may not.
func (s *kernelSocket) setBuffer(force, option, size int) error {
	var failed error
	err := s.raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, force, size)
		if errors.Is(failed, unix.EPERM) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, size)
		}
	})
	return errors.Join(err, failed)
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
