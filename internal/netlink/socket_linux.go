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

const (
	// receiveQueue is the receive buffer for notifications, and for the errors of a large
	// transaction.
	receiveQueue = mostChunk * answerSize
	// sendRoom is the kernel's overhead for each message in the send buffer.
	sendRoom = 4 << 10
)

// Dial opens a socket and returns a connection over it. Errors: those of Open.
func Dial(cfg Config) (*Conn, error) {
	sock, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	return NewConn(sock), nil
}

// KernelSocket is a Socket of the kernel.
type KernelSocket struct {
	nl  *netlink.Conn
	raw syscall.RawConn
	// room is the size of the largest datagram that fits into the send buffer. It is zero before
	// the first datagram.
	room int
	// queue is the size of the receive buffer.
	queue int
}

// Open opens a socket with two options. With the first, the kernel sends an explanation when it
// refuses a request (extended ack). With the second, it does not send a copy of the refused request
// back. Errors: those of the system calls.
func Open(cfg Config) (*KernelSocket, error) {
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
	s := &KernelSocket{nl: nl, raw: raw}
	// If the buffer is smaller, details of errors may be lost and more system calls are needed, but
	// nothing else.
	s.queue, _ = s.GrowReceive(receiveQueue)
	return s, nil
}

// Close closes the socket, and ends a Wait.
func (s *KernelSocket) Close() error { return s.nl.Close() }

// Answers returns how many answers of the kernel fit into the receive queue if each has the maximum
// size.
func (s *KernelSocket) Answers() int { return s.queue / answerSize }

// Port returns the number of the socket in notifications.
func (s *KernelSocket) Port() (port uint32, err error) {
	err = s.Control(func(fd int) error {
		name, err := unix.Getsockname(fd)
		if own, ok := name.(*unix.SockaddrNetlink); ok {
			port = own.Pid
		}
		return err
	})
	return port, err
}

// Send sends one datagram to the kernel; see Socket. It makes the send buffer large enough.
func (s *KernelSocket) Send(datagram []byte) error {
	if err := s.reserve(len(datagram)); err != nil {
		return err
	}
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	var failed error
	err := s.raw.Write(func(fd uintptr) bool {
		failed = restarted(func() error { return unix.Sendto(int(fd), datagram, 0, to) })
		return !errors.Is(failed, unix.EAGAIN)
	})
	return errors.Join(err, failed)
}

func (s *KernelSocket) reserve(size int) error {
	if size <= s.room {
		return nil
	}
	got, err := s.GrowSend(max(size, sendBytes) + sendRoom)
	if err != nil {
		return fmt.Errorf("send buffer of %d bytes: %w", size, err)
	}
	if s.room = got - sendRoom; size > s.room {
		return &SizeError{Size: size, Limit: s.room}
	}
	return nil
}

// Receive reads one datagram from the kernel; see Socket. It discards datagrams from other
// processes.
func (s *KernelSocket) Receive(buf []byte) (n int, err error) {
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
		return n, failed // usually EAGAIN: not joined, because that allocates
	}
	return n, errors.Join(err, failed)
}

// Wait returns when the queue has a datagram or an error that can be read. After the deadline, it
// returns os.ErrDeadlineExceeded.
func (s *KernelSocket) Wait() error {
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
func (s *KernelSocket) SetDeadline(t time.Time) error { return s.nl.SetReadDeadline(t) }

// Join subscribes the socket to a multicast group, such as unix.RTNLGRP_LINK.
func (s *KernelSocket) Join(group uint32) error { return s.nl.JoinGroup(group) }

// Leave unsubscribes the socket from a multicast group.
func (s *KernelSocket) Leave(group uint32) error { return s.nl.LeaveGroup(group) }

// GrowReceive sets the size of the receive buffer, and returns the size that the kernel set.
// Without CAP_NET_ADMIN, net.core.rmem_max limits it.
func (s *KernelSocket) GrowReceive(size int) (got int, err error) {
	return s.grow(unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, size)
}

// GrowSend is GrowReceive for the send buffer and net.core.wmem_max.
func (s *KernelSocket) GrowSend(size int) (got int, err error) {
	return s.grow(unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, size)
}

func (s *KernelSocket) grow(force, option, size int) (got int, err error) {
	err = s.Control(func(fd int) error {
		err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size)
		if err != nil { // EPERM, or an error of a security module
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, size)
		}
		if err == nil {
			got, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		}
		return err
	})
	return got, err
}

// Control calls the function do with the file descriptor, for options that have no method.
func (s *KernelSocket) Control(do func(fd int) error) error {
	var failed error
	err := s.raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// restarted repeats a system call while signals interrupt it.
func restarted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
