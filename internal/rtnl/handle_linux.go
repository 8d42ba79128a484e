// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/nsthread"
)

// handle is the connection of a Conn for single links and addresses.
type handle struct {
	namespace int
	opened    *netlink.Handle // nil until needed
}

// Handle returns a connection to the same namespace for changes of single links and addresses. The
// first call opens the connection, and c.Close closes it. The errors of a Handle are errnos without
// the kernel's explanation. The lists that a Handle returns may be incomplete, so use the methods
// of c that return lists.
func (c *Conn) Handle() (*netlink.Handle, error) {
	h := &c.handle
	if h.opened != nil {
		return h.opened, nil
	}
	open := func() (err error) {
		h.opened, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	}
	var err error
	if h.namespace == 0 {
		err = open()
	} else {
		err = nsthread.In(h.namespace, open) // NewHandleAt leaves the thread there if it cannot go back
	}
	if err != nil {
		return nil, fmt.Errorf("rtnl: dial: %w", err)
	}
	return h.opened, nil
}

func (h *handle) close() {
	if h.opened != nil {
		h.opened.Close()
		h.opened = nil
	}
}
