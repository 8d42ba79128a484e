// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
)

// filterPrefixes are the prefixes in the sets of the table. Each list is sorted. The prefixes of
// own are disjoint, and so are those of remote.
type filterPrefixes struct {
	// own are the prefixes of this node to which other nodes encrypt. hosts are its addresses to
	// which they send unencrypted packets. Both are for RequireEncryption.
	own, hosts []netip.Prefix
	// remote are the prefixes to which this node encrypts, for HostEncryption.
	remote []netip.Prefix
}

// filterPrefixes returns the prefixes that follow from the last desired objects, and sets
// s.ownEncrypted.
func (s *state) filterPrefixes() (p filterPrefixes) {
	if s.cfg.RequireEncryption {
		p.own, p.hosts = s.findOwnPrefixes()
	}
	if s.cfg.HostEncryption {
		p.remote = parts(slices.Collect(maps.Keys(s.encrypted)), s.throws)
	}
	return p
}

// findOwnPrefixes returns the lists for RequireEncryption, and sets s.ownEncrypted.
func (s *state) findOwnPrefixes() (own, hosts []netip.Prefix) {
	s.ownEncrypted = map[netip.Prefix]struct{}{}
	for _, dst := range slices.SortedFunc(maps.Keys(s.routes), dataplane.ComparePrefixes) {
		r := s.routes[dst]
		switch {
		case r.Type == dataplane.RouteLocalHost && !s.cfg.HostEncryption:
			hosts = append(hosts, dst)
		case r.Type == dataplane.RouteBlackhole, r.Type == dataplane.RouteLocalWorkload,
			r.Type == dataplane.RouteLocalTunnel && s.isDeviceAddress(dst.Addr()), r.Type == dataplane.RouteLocalHost:
			if hasShorterPrefix(s.ownEncrypted, dst) {
				continue
			}
			s.ownEncrypted[dst] = struct{}{}
			own = append(own, dst)
		}
	}
	return own, hosts
}

// parts returns disjoint prefixes, sorted, that contain exactly the addresses whose longest prefix
// of both lists is one of included. No prefix may be in both lists.
func parts(included, excluded []netip.Prefix) (list []netip.Prefix) {
	isIncluded := map[netip.Prefix]bool{}
	for _, p := range excluded {
		isIncluded[p.Masked()] = false
	}
	for _, p := range included {
		isIncluded[p.Masked()] = true
	}
	// add appends those parts of p that are included. inside are the prefixes in p, sorted. outer
	// says whether the longest prefix around p is included.
	var add func(p netip.Prefix, inside []netip.Prefix, outer bool)
	add = func(p netip.Prefix, inside []netip.Prefix, outer bool) {
		if len(inside) > 0 && inside[0] == p {
			inside, outer = inside[1:], isIncluded[p]
		}
		if slices.ContainsFunc(inside, func(q netip.Prefix) bool { return isIncluded[q] != outer }) {
			low, high := halves(p)
			before, after := cut(inside, func(q netip.Prefix) bool { return high.Contains(q.Addr()) })
			add(low, before, outer)
			add(high, after, outer)
		} else if outer {
			list = append(list, p)
		}
	}
	all := slices.SortedFunc(maps.Keys(isIncluded), dataplane.ComparePrefixes)
	ipv4, ipv6 := cut(all, func(p netip.Prefix) bool { return p.Addr().Is6() })
	add(netip.PrefixFrom(netip.IPv4Unspecified(), 0), ipv4, false)
	add(netip.PrefixFrom(netip.IPv6Unspecified(), 0), ipv6, false)
	return list
}

// cut splits a list before the first prefix for which begins is true.
func cut(list []netip.Prefix, begins func(netip.Prefix) bool) (before, after []netip.Prefix) {
	if i := slices.IndexFunc(list, begins); i >= 0 {
		return list[:i], list[i:]
	}
	return list, nil
}

// halves returns the two halves of a prefix that is not a single address.
func halves(p netip.Prefix) (low, high netip.Prefix) {
	bytes := p.Addr().AsSlice()
	bytes[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	first, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(p.Addr(), p.Bits()+1), netip.PrefixFrom(first, p.Bits()+1)
}

// isDeviceAddress reports whether a is an address of this node's WireGuard devices.
func (s *state) isDeviceAddress(a netip.Addr) bool {
	n := s.nodes[s.cfg.Node]
	return n != nil && slices.Contains(n.WireguardAddresses, a)
}
