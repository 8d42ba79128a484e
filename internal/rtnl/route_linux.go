// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Routes lists the routes that match.
func (c *Conn) Routes(f RouteFilter) ([]Route, error) {
	header := make([]byte, unix.SizeofRtMsg)
	header[0], header[5] = familyNumber(f.Family), f.Protocol
	attrs := netlink.NewAttributeEncoder()
	attrs.Uint32(unix.RTA_TABLE, f.Table)
	body, err := encode(header, attrs)
	if err != nil {
		return nil, err
	}
	var routes []Route
	err = c.dump(unix.RTM_GETROUTE, body, func() func([]byte) error {
		routes = nil
		return func(data []byte) error {
			route, cached, err := parseRoute(data)
			// The kernel filters, but nothing depends on it.
			if err == nil && !cached && route.Table == f.Table && route.Protocol == f.Protocol {
				routes = append(routes, route)
			}
			return err
		}
	})
	if errors.Is(err, ErrNotFound) {
		return nil, nil // the table does not exist
	}
	return routes, err
}

// AddRoute makes a route. ErrExist: another one, of anybody's, has the same destination and
// metric in the same table. ErrDown, ErrNotFound: of the interface.
func (c *Conn) AddRoute(r Route) error {
	return c.changeRoute(unix.RTM_NEWROUTE, netlink.Create|netlink.Excl, r)
}

// DeleteRoute deletes exactly this route. ErrNotFound: there is none.
func (c *Conn) DeleteRoute(r Route) error {
	return c.changeRoute(unix.RTM_DELROUTE, 0, r)
}

func (c *Conn) changeRoute(typ netlink.HeaderType, flags netlink.HeaderFlags, r Route) error {
	table := uint8(unix.RT_TABLE_UNSPEC)
	if r.Table < 256 {
		table = uint8(r.Table)
	}
	header := []byte{familyOf(r.Dst.Addr()), uint8(r.Dst.Bits()), 0, r.TOS, table, r.Protocol, r.Scope, r.Type, 0, 0, 0, 0}
	attrs := netlink.NewAttributeEncoder()
	attrs.Bytes(unix.RTA_DST, r.Dst.Addr().AsSlice())
	attrs.Uint32(unix.RTA_TABLE, r.Table)
	if r.Index != 0 {
		attrs.Uint32(unix.RTA_OIF, uint32(r.Index))
	}
	if r.Metric != 0 {
		attrs.Uint32(unix.RTA_PRIORITY, r.Metric)
	}
	if r.Gateway.IsValid() {
		attrs.Bytes(unix.RTA_GATEWAY, r.Gateway.AsSlice())
	}
	body, err := encode(header, attrs)
	if err != nil {
		return err
	}
	return c.do(typ, flags, body, discard)
}

// parseRoute also reports whether the route is a cached one, which no table holds.
func parseRoute(data []byte) (r Route, cached bool, err error) {
	if len(data) < unix.SizeofRtMsg {
		return Route{}, false, errMalformed
	}
	r = Route{TOS: data[3], Table: uint32(data[4]), Protocol: data[5], Scope: data[6], Type: data[7], Extra: data[2] != 0}
	cached = binary.NativeEndian.Uint32(data[8:])&unix.RTM_F_CLONED != 0
	dst := netip.IPv4Unspecified()
	if data[0] == unix.AF_INET6 {
		dst = netip.IPv6Unspecified()
	}
	attrs, err := netlink.NewAttributeDecoder(data[unix.SizeofRtMsg:])
	if err != nil {
		return Route{}, false, err
	}
	for attrs.Next() {
		switch attrs.Type() {
		case unix.RTA_DST:
			dst, _ = netip.AddrFromSlice(attrs.Bytes())
		case unix.RTA_TABLE:
			r.Table = attrs.Uint32()
		case unix.RTA_OIF:
			r.Index = int(attrs.Uint32())
		case unix.RTA_PRIORITY:
			r.Metric = attrs.Uint32()
		case unix.RTA_GATEWAY:
			r.Gateway, _ = netip.AddrFromSlice(attrs.Bytes())
		case unix.RTA_CACHEINFO:
		case unix.RTA_PREF:
			r.Extra = r.Extra || attrs.Uint8() != 0
		default:
			r.Extra = true
		}
	}
	if r.Dst, err = dst.Prefix(int(data[1])); err != nil {
		return Route{}, false, errors.Join(errMalformed, err)
	}
	return r, cached, attrs.Err()
}

func discard([]byte) error { return nil }
