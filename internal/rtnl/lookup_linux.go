// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Lookup returns the route of packets that the node sends to an address. The Type of the route is
// TypeLocal if the address is the node's own. The Index of the route is that of the outgoing
// interface. If there is no route, Lookup returns an *Error.
func (c *Conn) Lookup(to netip.Addr) (route Route, err error) {
	header := [unix.SizeofRtMsg]byte{familyOf(to), uint8(to.BitLen())}
	c.link.Request(unix.RTM_GETROUTE, header[:]...).Addr(unix.RTA_DST, to)
	found := false
	err = c.do(func(m netlink.Message) error {
		err := parseRoute(m.Data, &route)
		found = err == nil
		return err
	})
	if err == nil && !found {
		err = errors.Join(netlink.ErrMalformed, ErrNotFound)
	}
	return route, err
}
