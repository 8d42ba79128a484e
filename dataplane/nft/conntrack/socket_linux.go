// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// netlinkSocket is a socket of the kernel's.
type netlinkSocket struct {
	nl  *netlink.Conn
	raw syscall.RawConn
}

// openSocket opens a socket in a network namespace, 0 being that of the calling thread.
func openSocket(netns int) (socket, error) {
	nl, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("conntrack: open netlink socket: %w", err)
	}
	raw, err := nl.SyscallConn()
	if err == nil {
		err = nl.SetOption(netlink.CapAcknowledge, true) // answers without a copy of the request
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("conntrack: set up netlink socket: %w", err), nl.Close())
	}
	return &netlinkSocket{nl: nl, raw: raw}, nil
}

func (s *netlinkSocket) Close() error { return s.nl.Close() }

func (s *netlinkSocket) send(request []byte) error {
	return s.control(func(fd int) error {
		return unix.Sendto(fd, request, unix.MSG_DONTWAIT, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
}

func (s *netlinkSocket) receive(buf []byte) (n int, err error) {
	err = s.control(func(fd int) error {
		for {
			var from unix.Sockaddr
			var err error
			n, from, err = unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
			if err != nil {
				return err
			}
			// Anyone may write to the socket; only the kernel counts.
			if sender, ok := from.(*unix.SockaddrNetlink); ok && sender.Pid == 0 {
				return nil
			}
		}
	})
	return n, err
}

// control runs a system call until no signal interrupts it.
func (s *netlinkSocket) control(call func(fd int) error) error {
	var failed error
	err := s.raw.Control(func(fd uintptr) {
		for {
			if failed = call(int(fd)); failed != unix.EINTR {
				return
			}
		}
	})
	return errors.Join(err, failed)
}
