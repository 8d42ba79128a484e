// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"errors"
	"fmt"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/nsthread"
)

// node queries the network namespace with the endpoints' interfaces. Its methods may be called from
// any goroutine.
type node struct {
	// fd is ServerConfig.NetNS.
	fd int

	mu     sync.Mutex
	handle *netlink.Handle // nil until needed
	id     unix.Stat_t     // identifies the namespace
	closed bool
}

// query calls a function with a netlink connection to the namespace.
func (n *node) query(do func(*netlink.Handle) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return errors.New("the server is closed")
	}
	if n.handle == nil {
		if err := n.openLocked(); err != nil {
			return err
		}
	}
	return do(n.handle)
}

// openLocked opens the netlink connection.
func (n *node) openLocked() error {
	open := func() error {
		if err := unix.Stat("/proc/thread-self/ns/net", &n.id); err != nil {
			return err
		}
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err == nil {
			n.handle = h
		}
		return err
	}
	if n.fd == 0 {
		return nsthread.Throwaway(open)
	}
	return nsthread.In(n.fd, open)
}

// close closes the netlink connection.
func (n *node) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.handle != nil {
		n.handle.Close()
	}
}

// checkNotNode checks that another namespace is not that of the node.
func (n *node) checkNotNode(namespace int) error {
	return n.query(func(*netlink.Handle) error {
		var other unix.Stat_t
		if err := unix.Fstat(namespace, &other); err != nil {
			return err
		}
		if n.id.Dev == other.Dev && n.id.Ino == other.Ino {
			return errors.New("it is in the network namespace of the node")
		}
		return nil
	})
}

// checkOtherEnd checks that the other end of an interface is in a namespace.
func (n *node) checkOtherEnd(name string, namespace int) error {
	return n.query(func(h *netlink.Handle) error {
		link, err := h.LinkByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		if !isPair(link.Type()) {
			return fmt.Errorf("interface %s of type %s does not identify a network namespace", name, link.Type())
		}
		id, err := h.GetNetNsIdByFd(namespace)
		if err != nil {
			return fmt.Errorf("id of the network namespace: %w", err)
		}
		if end := link.Attrs().NetNsID; end < 0 || end != id {
			return fmt.Errorf("its network namespace does not have the other end of %s", name)
		}
		return nil
	})
}

// isPair reports whether IFLA_LINK_NETNSID of a device of the type is the namespace of the device's
// other end. Other types do not have the attribute (tap), or it is the namespace of a lower device
// or of outer packets (macvlan, ipvlan, vlan, tunnels). Such a namespace says nothing about the
// workload.
func isPair(kind string) bool { return kind == "veth" || kind == "netkit" }
