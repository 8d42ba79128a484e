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
	// own are the prefixes of this node to which other nodes encrypt. hosts are this node's
	// addresses to which other nodes send unencrypted packets; there are none with HostEncryption.
	// Both are for RequireEncryption.
	own, hosts []netip.Prefix
	// remote are the prefixes to which this node encrypts, for HostEncryption.
	remote []netip.Prefix
}

// filterPrefixes returns the desired prefixes. The method desiredObjects must be called before it.
// With RequireEncryption, it also sets s.ownEncrypted.
func (s *state) filterPrefixes() (p filterPrefixes) {
	if s.cfg.RequireEncryption {
		p.own, p.hosts = s.findOwnPrefixes()
	}
	if s.cfg.HostEncryption {
		p.remote = includedParts(slices.Collect(maps.Keys(s.encrypted)), s.throws)
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

// includedParts returns disjoint prefixes of all included addresses, sorted. An address is included
// if the longest prefix of both lists that contains it is in the list included. No prefix may be in
// both lists.
func includedParts(included, excluded []netip.Prefix) (list []netip.Prefix) {
	isIncluded := map[netip.Prefix]bool{}
	for _, p := range excluded {
		isIncluded[p.Masked()] = false
	}
	for _, p := range included {
		isIncluded[p.Masked()] = true
	}
	// add appends those parts of p that are included. inside are the prefixes in p, sorted.
	// included is the state of the addresses of p that are in none of them.
	var add func(p netip.Prefix, inside []netip.Prefix, included bool)
	add = func(p netip.Prefix, inside []netip.Prefix, included bool) {
		if len(inside) > 0 && inside[0] == p {
			inside, included = inside[1:], isIncluded[p]
		}
		if slices.ContainsFunc(inside, func(q netip.Prefix) bool { return isIncluded[q] != included }) {
			low, high := halves(p)
			before, after := cut(inside, func(q netip.Prefix) bool { return high.Contains(q.Addr()) })
			add(low, before, included)
			add(high, after, included)
		} else if included {
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
