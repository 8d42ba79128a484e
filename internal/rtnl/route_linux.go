// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// loopback is the index of the loopback interface, which IPv6 shows for routes of types such as
// blackhole.
const loopback = 1

// Routes calls the function begin(), and then the function each(route) for every matching route. If
// a change interrupts the dump, Routes starts again: it calls begin(), and then each(route) for all
// matching routes. The function each() must not keep the route.
func (c *Conn) Routes(f RouteFilter, begin func(), each func(*Route)) error {
	header := make([]byte, unix.SizeofRtMsg)
	header[0], header[5] = familyNumber(f.Family), f.Protocol
	c.link.Request(unix.RTM_GETROUTE, header...).Native32(unix.RTA_TABLE, f.Table)
	var r Route
	err := c.dump(begin, func(m netlink.Message) error {
		err := parseRoute(m.Data, &r)
		// The kernel filters routes as well, but Routes does not rely on that.
		if err == nil && !r.Cached && r.Table == f.Table && (f.Protocol == 0 || r.Protocol == f.Protocol) {
			each(&r)
		}
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return nil // the table does not exist
	}
	return err
}

// AddRoute adds a route. The kernel refuses the change with ErrExist if another route in the table,
// of any protocol, has the same destination and metric. It refuses the change with ErrDown if the
// route's interface is down, and with ErrNotFound if the interface does not exist.
func (b *Batch) AddRoute(r *Route) { b.newRoute(unix.NLM_F_CREATE|unix.NLM_F_EXCL, r) }

// ReplaceRoute adds a route. If the table has a route of any protocol with the same destination and
// metric, the new route replaces it. At any moment, packets find either the old or the new route.
func (b *Batch) ReplaceRoute(r *Route) { b.newRoute(unix.NLM_F_CREATE|unix.NLM_F_REPLACE, r) }

func (b *Batch) newRoute(flags uint16, r *Route) {
	b.route(unix.RTM_NEWROUTE, flags, r)
	if r.Source.IsValid() {
		b.Addr(unix.RTA_PREFSRC, r.Source)
	}
	if r.MTU != 0 {
		mark := b.Begin(unix.RTA_METRICS)
		b.Native32(unix.RTAX_MTU, r.MTU)
		b.End(mark)
	}
}

// DeleteRoute deletes the route that has the destination, table, metric, type, protocol, interface
// and gateway of r. If no route has all of these, the kernel refuses the change with ErrNotFound. A
// route with several next hops is deleted as a whole.
func (b *Batch) DeleteRoute(r *Route) {
	b.route(unix.RTM_DELROUTE, 0, r)
}

// route begins a message with the attributes that are needed to add and to delete.
func (b *Batch) route(typ, flags uint16, r *Route) {
	header := [unix.SizeofRtMsg]byte{
		familyOf(r.Dst.Addr()), uint8(r.Dst.Bits()), 0, r.TOS, unix.RT_TABLE_UNSPEC, r.Protocol, r.Scope, r.Type,
	}
	if r.Table < 256 {
		header[4] = uint8(r.Table)
	}
	if r.OnLink && typ == unix.RTM_NEWROUTE {
		binary.NativeEndian.PutUint32(header[8:], unix.RTNH_F_ONLINK)
	}
	b.Message(typ, flags, header[:]...)
	b.Addr(unix.RTA_DST, r.Dst.Addr())
	b.Native32(unix.RTA_TABLE, r.Table)
	if r.Index != 0 {
		b.Native32(unix.RTA_OIF, uint32(r.Index))
	}
	if r.Metric != 0 {
		b.Native32(unix.RTA_PRIORITY, r.Metric)
	}
	if r.Gateway.IsValid() {
		b.Addr(unix.RTA_GATEWAY, r.Gateway)
	}
}

// parseRoute parses a route into r, of which it sets all fields.
func parseRoute(data []byte, r *Route) error {
	var a netlink.Decoder
	header := a.Begin(data, unix.SizeofRtMsg)
	flags := binary.NativeEndian.Uint32(header[8:])
	*r = Route{
		TOS: header[3], Table: uint32(header[4]), Protocol: header[5], Scope: header[6], Type: header[7],
		Extra:  header[2] != 0,
		Cached: flags&unix.RTM_F_CLONED != 0, OnLink: flags&unix.RTNH_F_ONLINK != 0,
	}
	dst := netip.IPv4Unspecified()
	if header[0] == unix.AF_INET6 {
		dst = netip.IPv6Unspecified()
	}
	for a.Next() {
		switch a.Type {
		case unix.RTA_DST:
			dst = a.Addr()
		case unix.RTA_TABLE:
			r.Table = a.Native32()
		case unix.RTA_OIF:
			r.Index = int(a.Native32())
		case unix.RTA_PRIORITY:
			r.Metric = a.Native32()
		case unix.RTA_GATEWAY:
			r.Gateway = a.Addr()
		case unix.RTA_PREFSRC:
			r.Source = a.Addr()
		case unix.RTA_METRICS:
			r.parseMetrics(&a)
		case unix.RTA_MULTIPATH:
			r.Multipath = true
		case unix.RTA_CACHEINFO:
		case unix.RTA_PREF:
			r.Extra = r.Extra || a.Uint8() != 0
		default:
			r.Extra = true
		}
	}
	if r.Type != TypeUnicast && r.Index == loopback && dst.Is6() {
		r.Index = 0
	}
	r.Dst = netip.PrefixFrom(dst, int(header[1]))
	if !r.Dst.IsValid() && a.Err == nil {
		return netlink.ErrMalformed
	}
	return a.Err
}

func (r *Route) parseMetrics(outer *netlink.Decoder) {
	a := outer.Nested()
	for a.Next() {
		if a.Type == unix.RTAX_MTU {
			r.MTU = a.Native32()
		} else {
			r.Extra = true
		}
	}
	outer.Join(a.Err)
}
