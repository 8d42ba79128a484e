// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// loopback is the index of the loopback interface, which IPv6 lists with routes that lead nowhere.
const loopback = 1

// Routes hands the routes that match to each, which must not keep its argument. begin is called
// first, and again whenever the kernel's answer was interrupted and all of it comes anew.
func (c *Conn) Routes(f RouteFilter, begin func(), each func(*Route)) error {
	header := make([]byte, unix.SizeofRtMsg)
	header[0], header[5] = familyNumber(f.Family), f.Protocol
	request := Batch{buf: header}
	request.attr32(unix.RTA_TABLE, f.Table)
	var r Route
	err := c.dump(unix.RTM_GETROUTE, request.buf, func() func([]byte) error {
		begin()
		return func(data []byte) error {
			err := parseRoute(data, &r)
			// The kernel filters, but nothing depends on it.
			if err == nil && !r.Cached && r.Table == f.Table && (f.Protocol == 0 || r.Protocol == f.Protocol) {
				each(&r)
			}
			return err
		}
	})
	if errors.Is(err, ErrNotFound) {
		return nil // the table does not exist
	}
	return err
}

// AddRoute makes a route; the kernel refuses with ErrExist if another one, of anybody's, has the
// same destination and metric in the same table, and with ErrDown or ErrNotFound for its interface.
func (b *Batch) AddRoute(r *Route) { b.newRoute(unix.NLM_F_CREATE|unix.NLM_F_EXCL, r) }

// ReplaceRoute makes a route in the place of the one with the same destination and metric in the
// same table, whoever made that. No packet finds neither of the two.
func (b *Batch) ReplaceRoute(r *Route) { b.newRoute(unix.NLM_F_CREATE|unix.NLM_F_REPLACE, r) }

func (b *Batch) newRoute(flags uint16, r *Route) {
	b.begin(unix.RTM_NEWROUTE, flags)
	b.routeIdentity(r)
	b.onLink(r.OnLink)
	if r.Source.IsValid() {
		b.attrAddr(unix.RTA_PREFSRC, r.Source)
	}
	if r.MTU != 0 {
		mark := b.beginNested(unix.RTA_METRICS)
		b.attr32(unix.RTAX_MTU, r.MTU)
		b.endNested(mark)
	}
	b.end()
}

// DeleteRoute deletes a route by its destination, table, metric, type, protocol, interface and
// gateway. ErrNotFound: there is none that agrees in all of these. One with several next hops goes
// with all of them.
func (b *Batch) DeleteRoute(r *Route) {
	b.begin(unix.RTM_DELROUTE, 0)
	b.routeIdentity(r)
	b.end()
}

// routeIdentity appends the header of the open message and what both making and deleting need.
func (b *Batch) routeIdentity(r *Route) {
	table := uint8(unix.RT_TABLE_UNSPEC)
	if r.Table < 256 {
		table = uint8(r.Table)
	}
	b.buf = append(b.buf, familyOf(r.Dst.Addr()), uint8(r.Dst.Bits()), 0, r.TOS, table,
		r.Protocol, r.Scope, r.Type, 0, 0, 0, 0)
	b.attrAddr(unix.RTA_DST, r.Dst.Addr())
	b.attr32(unix.RTA_TABLE, r.Table)
	if r.Index != 0 {
		b.attr32(unix.RTA_OIF, uint32(r.Index))
	}
	if r.Metric != 0 {
		b.attr32(unix.RTA_PRIORITY, r.Metric)
	}
	if r.Gateway.IsValid() {
		b.attrAddr(unix.RTA_GATEWAY, r.Gateway)
	}
}

// onLink sets the flag in the header of the open message.
func (b *Batch) onLink(on bool) {
	if on {
		at := b.buf[b.starts[len(b.starts)-1]+headerLen+8:]
		binary.NativeEndian.PutUint32(at, unix.RTNH_F_ONLINK)
	}
}

// parseRoute reads a route into r, all of which it sets.
func parseRoute(data []byte, r *Route) error {
	if len(data) < unix.SizeofRtMsg {
		return errMalformed
	}
	flags := binary.NativeEndian.Uint32(data[8:])
	*r = Route{
		TOS: data[3], Table: uint32(data[4]), Protocol: data[5], Scope: data[6], Type: data[7], Extra: data[2] != 0,
		Cached: flags&unix.RTM_F_CLONED != 0, OnLink: flags&unix.RTNH_F_ONLINK != 0,
	}
	dst := netip.IPv4Unspecified()
	if data[0] == unix.AF_INET6 {
		dst = netip.IPv6Unspecified()
	}
	a := attrs{rest: data[unix.SizeofRtMsg:]}
	for a.next() {
		switch a.typ {
		case unix.RTA_DST:
			dst = a.addr()
		case unix.RTA_TABLE:
			r.Table = a.uint32()
		case unix.RTA_OIF:
			r.Index = int(a.uint32())
		case unix.RTA_PRIORITY:
			r.Metric = a.uint32()
		case unix.RTA_GATEWAY:
			r.Gateway = a.addr()
		case unix.RTA_PREFSRC:
			r.Source = a.addr()
		case unix.RTA_METRICS:
			r.parseMetrics(a.data, &a)
		case unix.RTA_MULTIPATH:
			r.Multipath = true
		case unix.RTA_CACHEINFO:
		case unix.RTA_PREF:
			r.Extra = r.Extra || a.uint8() != 0
		default:
			r.Extra = true
		}
	}
	if r.Type != TypeUnicast && r.Index == loopback && dst.Is6() {
		r.Index = 0
	}
	r.Dst = netip.PrefixFrom(dst, int(data[1]))
	if !r.Dst.IsValid() && a.err == nil {
		return errMalformed
	}
	return a.err
}

func (r *Route) parseMetrics(data []byte, outer *attrs) {
	a := attrs{rest: data}
	for a.next() {
		if a.typ == unix.RTAX_MTU {
			r.MTU = a.uint32()
		} else {
			r.Extra = true
		}
	}
	outer.err = errors.Join(outer.err, a.err)
}
