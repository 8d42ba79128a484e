// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/nsthread"
)

// peerOf returns the peer of a connection on a Unix socket.
func peerOf(conn net.Conn) (Peer, error) {
	accepted, ok := conn.(*connection)
	if !ok {
		return Peer{}, fmt.Errorf("a connection of type %T", conn)
	}
	p := Peer{conn: accepted.UnixConn}
	err := p.control(func(fd int) error {
		c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			p.PID, p.User, p.Group = int(c.Pid), c.Uid, c.Gid
		}
		return err
	})
	return p, err
}

// control calls a function with the file descriptor of the connection.
func (p Peer) control(do func(fd int) error) error {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) { failure = do(int(fd)) })
	return errors.Join(err, failure)
}

// process returns a file descriptor of the process.
func (p Peer) process() (*os.File, error) {
	pidfd := -1
	err := p.control(func(fd int) (err error) {
		pidfd, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		return err
	})
	if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 6.5
		pidfd, err = p.processByNumber()
	}
	if err != nil {
		return nil, fmt.Errorf("no file descriptor of the process: %w", err)
	}
	return os.NewFile(uintptr(pidfd), "pidfd"), nil
}

// processByNumber returns a file descriptor of the process that has the number now.
func (p Peer) processByNumber() (int, error) {
	if p.PID == 0 {
		return -1, errors.New("it is not in the PID namespace of the server, and the kernel has no SO_PEERPIDFD")
	}
	return unix.PidfdOpen(p.PID, 0)
}

// inWorkload checks the network namespace of the process.
func (p Peer) inWorkload() error {
	if len(p.Endpoint.Addresses) == 0 {
		return errors.New("the endpoint has no address by which to know its network namespace")
	}
	process, err := p.process()
	if err != nil {
		return err
	}
	defer func() { _ = process.Close() }()
	var namespace *os.File
	var found []netip.Addr
	err = nsthread.In(int(process.Fd()), func() (err error) {
		if namespace, err = os.Open("/proc/thread-self/ns/net"); err == nil {
			found, err = addresses()
		}
		return err
	})
	if namespace != nil {
		defer func() { _ = namespace.Close() }()
	}
	if err != nil {
		return err
	}
	if err := p.inNode(func() error { return otherEnd(p.Endpoint.Interface, namespace) }); err != nil {
		return err
	}
	for _, a := range p.Endpoint.Addresses {
		if !slices.Contains(found, a) {
			return fmt.Errorf("its network namespace does not have the address %s", a)
		}
	}
	return nil
}

// addresses returns the addresses of the interfaces of the network namespace.
func addresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, addr.Unmap())
			}
		}
	}
	return out, nil
}

// inNode calls a function in the network namespace of the node.
func (p Peer) inNode(do func() error) error {
	if p.netNS == 0 {
		return nsthread.Throwaway(do)
	}
	return nsthread.In(p.netNS, do)
}

// otherEnd checks that the namespace is not that of the thread, which has the interface, and that the other end of a
// veth device is in the namespace.
func otherEnd(name string, namespace *os.File) error {
	var own, other unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &own); err != nil {
		return err
	}
	if err := unix.Fstat(int(namespace.Fd()), &other); err != nil {
		return err
	}
	if own.Dev == other.Dev && own.Ino == other.Ino {
		return errors.New("it is in the network namespace of the node")
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if link.Type() != "veth" {
		return nil
	}
	id, err := netlink.GetNetNsIdByFd(int(namespace.Fd()))
	if err != nil {
		return fmt.Errorf("id of the network namespace: %w", err)
	}
	if end := link.Attrs().NetNsID; end < 0 || end != id {
		return fmt.Errorf("its network namespace does not have the other end of %s", name)
	}
	return nil
}
