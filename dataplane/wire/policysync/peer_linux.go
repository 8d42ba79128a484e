// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/wire/internal/sockets"
	"github.com/wayleave/wayleave/internal/nsthread"
)

// peerOf returns the peer of a connection on a Unix socket.
func peerOf(conn net.Conn) (Peer, error) {
	accepted, ok := conn.(*connection)
	if !ok {
		return Peer{}, fmt.Errorf("a connection of type %T", conn)
	}
	p := Peer{conn: accepted}
	err := sockets.Control(p.conn, func(fd int) error {
		c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			p.PID, p.User, p.Group = int(c.Pid), c.Uid, c.Gid
		}
		return err
	})
	return p, err
}

// process returns a file descriptor of the process.
func (p Peer) process() (*os.File, error) {
	pidfd := -1
	err := sockets.Control(p.conn, func(fd int) (err error) {
		pidfd, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		return err
	})
	if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 6.5
		pidfd, err = p.processByNumber()
	}
	if err != nil {
		return nil, fmt.Errorf("get a file descriptor of the process: %w", err)
	}
	return os.NewFile(uintptr(pidfd), "pidfd"), nil
}

// processByNumber returns a file descriptor of the process that currently has the PID.
func (p Peer) processByNumber() (int, error) {
	if p.PID == 0 {
		return -1, errors.New("it is not in the PID namespace of the server, and the kernel has no SO_PEERPIDFD")
	}
	return unix.PidfdOpen(p.PID, 0)
}

// openNamespace opens the network namespace of the process.
func (p Peer) openNamespace() (namespace *os.File, err error) {
	process, err := p.process()
	if err != nil {
		return nil, err
	}
	defer func() { _ = process.Close() }()
	err = nsthread.In(int(process.Fd()), func() (err error) {
		namespace, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return namespace, err
}

// inNamespace calls a function with the network namespace of the process. If that is the namespace
// of the node, it returns an error.
func (p Peer) inNamespace(do func(fd int) error) error {
	return p.conn.withNamespace(p.openNamespace, func(fd int) error {
		if err := p.node.checkNotNode(fd); err != nil {
			return err
		}
		return do(fd)
	})
}

// inWorkload checks that the other end of the endpoint's interface is in the network namespace of
// the process.
func (p Peer) inWorkload() error {
	return p.inNamespace(func(fd int) error { return p.node.checkOtherEnd(p.Endpoint.Interface, fd) })
}

// hasAddresses checks that the network namespace of the process has all addresses of the endpoint.
// It looks up one address at a time, because the list of all addresses of that namespace may be of
// any length.
func (p Peer) hasAddresses() error {
	if len(p.Endpoint.Addresses) == 0 {
		return errors.New("the endpoint has no address that identifies its network namespace")
	}
	return p.inNamespace(func(fd int) error {
		return nsthread.In(fd, func() error {
			for _, a := range p.Endpoint.Addresses {
				routes, err := netlink.RouteGet(a.AsSlice())
				if err != nil || len(routes) != 1 || routes[0].Type != unix.RTN_LOCAL {
					return fmt.Errorf("its network namespace does not have the address %s", a)
				}
			}
			return nil
		})
	})
}
