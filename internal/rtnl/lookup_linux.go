// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Lookup returns the route that a packet of the node's own to the address would take: Type says
// whether the address is the node's own (TypeLocal), and Index which interface it would leave by.
// Errors: *Error if there is no route.
func (c *Conn) Lookup(to netip.Addr) (route Route, err error) {
	header := make([]byte, unix.SizeofRtMsg)
	header[0], header[1] = familyOf(to), uint8(to.BitLen())
	request := Batch{buf: header}
	request.attrAddr(unix.RTA_DST, to)
	found := false
	err = c.do(unix.RTM_GETROUTE, request.buf, func(data []byte) error {
		err := parseRoute(data, &route)
		found = err == nil
		return err
	})
	if err == nil && !found {
		err = errors.Join(errMalformed, ErrNotFound)
	}
	return route, err
}
