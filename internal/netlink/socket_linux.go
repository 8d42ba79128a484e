// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Config says which socket to open.
type Config struct {
	// Family of netlink, as unix.NETLINK_ROUTE.
	Family int
	// NetNS is a file descriptor of the network namespace, needed only during Open. Zero means that of
	// the calling thread.
	NetNS int
	// Strict has the kernel check requests for dumps, and filter by what is in them
	// (NETLINK_GET_STRICT_CHK, Linux 4.20).
	Strict bool
}

// Socket is a netlink socket.
type Socket struct {
	nl  *netlink.Conn
	raw syscall.RawConn
}

// Open opens a socket. Errors of the kernel come with an explanation (extended ack) and without a
// copy of the request.
func Open(cfg Config) (*Socket, error) {
	nl, err := netlink.Dial(cfg.Family, &netlink.Config{NetNS: cfg.NetNS, Strict: cfg.Strict})
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	raw, err := nl.SyscallConn()
	for _, option := range []netlink.ConnOption{netlink.ExtendedAcknowledge, netlink.CapAcknowledge} {
		if err == nil {
			err = nl.SetOption(option, true)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up netlink socket: %w", err), nl.Close())
	}
	return &Socket{nl: nl, raw: raw}, nil
}

// Close closes the socket, and ends a Wait.
func (s *Socket) Close() error { return s.nl.Close() }

// Port returns the number by which the kernel names the socket in notifications.
func (s *Socket) Port() (port uint32, err error) {
	err = s.Control(func(fd int) error {
		name, err := unix.Getsockname(fd)
		if own, ok := name.(*unix.SockaddrNetlink); ok {
			port = own.Pid
		}
		return err
	})
	return port, err
}

// Send sends one datagram to the kernel. The kernel has handled it, and queued all its answers,
// when Send returns.
func (s *Socket) Send(datagram []byte) error {
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	var failed error
	err := s.raw.Write(func(fd uintptr) bool {
		failed = restarted(func() error { return unix.Sendto(int(fd), datagram, 0, to) })
		return !errors.Is(failed, unix.EAGAIN)
	})
	return errors.Join(err, failed)
}

// Receive takes one datagram of the kernel off the queue. It never waits, and returns EAGAIN if the
// queue is empty. n is the datagram's length, of which no more than len(buf) was kept. It discards
// datagrams from other processes.
func (s *Socket) Receive(buf []byte) (n int, err error) {
	var failed error
	err = s.raw.Control(func(fd uintptr) {
		failed = restarted(func() error {
			for {
				var from unix.Sockaddr
				var err error
				n, from, err = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
				if sender, ok := from.(*unix.SockaddrNetlink); err != nil || ok && sender.Pid == 0 {
					return err
				}
			}
		})
	})
	if err == nil {
		return n, failed // which is EAGAIN most of the time: not joined, because that allocates
	}
	return n, errors.Join(err, failed)
}

// Wait returns once there is something to receive, an error of the queue included, or with
// os.ErrDeadlineExceeded after the deadline.
func (s *Socket) Wait() error {
	var failed error
	err := s.raw.Read(func(fd uintptr) bool {
		fds, n := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0
		failed = restarted(func() (err error) {
			n, err = unix.Poll(fds, 0)
			return err
		})
		return n > 0 || failed != nil
	})
	return errors.Join(err, failed)
}

// SetDeadline makes Wait return at that time. The zero Time means never.
func (s *Socket) SetDeadline(t time.Time) error { return s.nl.SetReadDeadline(t) }

// Join subscribes the socket to a multicast group, as unix.RTNLGRP_LINK.
func (s *Socket) Join(group uint32) error { return s.nl.JoinGroup(group) }

// Leave unsubscribes it.
func (s *Socket) Leave(group uint32) error { return s.nl.LeaveGroup(group) }

// GrowReceive sets the receive buffer and returns the size that the kernel gave. Without
// CAP_NET_ADMIN, net.core.rmem_max limits the size.
func (s *Socket) GrowReceive(size int) (got int, err error) {
	return s.grow(unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, size)
}

// GrowSend is GrowReceive for the send buffer and net.core.wmem_max.
func (s *Socket) GrowSend(size int) (got int, err error) {
	return s.grow(unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, size)
}

func (s *Socket) grow(force, option, size int) (got int, err error) {
	err = s.Control(func(fd int) error {
		err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size)
		if err != nil { // EPERM, or what a security module returns
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, size)
		}
		if err == nil {
			got, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		}
		return err
	})
	return got, err
}

// Control calls do with the file descriptor, for options that have no method.
func (s *Socket) Control(do func(fd int) error) error {
	var failed error
	err := s.raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// restarted makes a system call again as long as a signal interrupts it.
func restarted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
