// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	// readBuffer is the receive buffer size for the errors of a large failed transaction, and for notifications.
	readBuffer = 4 << 20
	// sendRoom is the kernel's overhead per message in the send buffer.
	sendRoom = 4 << 10
)

// kernelSocket is a Socket of the kernel's.
type kernelSocket struct {
	*netlink.Socket
	// room is the largest message that the send buffer takes, zero before the first.
	room int
}

// Open returns a netlink socket to netfilter. Errors: those of the system calls.
func Open(cfg Config) (Socket, error) { return open(cfg) }

func open(cfg Config) (*kernelSocket, error) {
	sock, err := netlink.Open(netlink.Config{Family: unix.NETLINK_NETFILTER, NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("nfnl: %w", err)
	}
	// A smaller one only loses details of errors and makes for more reading.
	_, _ = sock.GrowReceive(readBuffer)
	return &kernelSocket{Socket: sock}, nil
}

// Send sends one datagram; see Socket.
func (s *kernelSocket) Send(data []byte) error {
	if err := s.reserve(len(data)); err != nil {
		return err
	}
	return s.Socket.Send(data)
}

// reserve makes the send buffer large enough for one message of the given size.
func (s *kernelSocket) reserve(size int) error {
	if size <= s.room {
		return nil
	}
	got, err := s.GrowSend(size + sendRoom)
	if err != nil {
		return fmt.Errorf("nfnl: send buffer of %d bytes: %w", size, err)
	}
	s.room = got - sendRoom
	if size > s.room {
		return &SizeError{Size: size, Limit: s.room}
	}
	return nil
}
