// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
)

// filterPrefixes are the prefixes in the sets of the table. Each list is sorted, and its prefixes
// are disjoint.
type filterPrefixes struct {
	// own are the prefixes of this node to which other nodes encrypt. hosts are this node's
	// addresses to which other nodes send unencrypted packets; there are none with HostEncryption.
	// Both are for RequireEncryption.
	own, hosts []netip.Prefix
	// remote are the prefixes to which this node encrypts. exempt are Config.UnencryptedHosts. Both
	// are for HostEncryption.
	remote, exempt []netip.Prefix
}

// filterPrefixes returns the desired prefixes. The method desiredObjects must be called before it.
// With RequireEncryption, it also sets s.ownEncrypted.
func (s *state) filterPrefixes() (p filterPrefixes) {
	if s.cfg.RequireEncryption {
		p.own, p.hosts = s.findOwnPrefixes()
	}
	if s.cfg.HostEncryption {
		p.remote = includedParts(slices.Collect(maps.Keys(s.encrypted)), s.throws)
		p.exempt = includedParts(s.cfg.UnencryptedHosts, nil)
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
// if the longest prefix of both lists that contains it is in the list included, and not in the list
// excluded.
func includedParts(included, excluded []netip.Prefix) (list []netip.Prefix) {
	isIncluded := map[netip.Prefix]bool{}
	for _, p := range included {
		isIncluded[p.Masked()] = true
	}
	for _, p := range excluded {
		isIncluded[p.Masked()] = false
	}
	// add appends the included parts of p. The list inside has the prefixes in p, sorted. The
	// addresses of p that are in none of them are included if rest is set.
	var add func(p netip.Prefix, inside []netip.Prefix, rest bool)
	add = func(p netip.Prefix, inside []netip.Prefix, rest bool) {
		if len(inside) > 0 && inside[0] == p {
			inside, rest = inside[1:], isIncluded[p]
		}
		if slices.ContainsFunc(inside, func(q netip.Prefix) bool { return isIncluded[q] != rest }) {
			low, high := halves(p)
			middle := indexFrom(inside, high.Addr())
			add(low, inside[:middle], rest)
			add(high, inside[middle:], rest)
		} else if rest {
			list = append(list, p)
		}
	}
	all := slices.SortedFunc(maps.Keys(isIncluded), dataplane.ComparePrefixes)
	firstIPv6 := indexFrom(all, netip.IPv6Unspecified())
	add(netip.PrefixFrom(netip.IPv4Unspecified(), 0), all[:firstIPv6], false)
	add(netip.PrefixFrom(netip.IPv6Unspecified(), 0), all[firstIPv6:], false)
	return list
}

// indexFrom returns the index of the first prefix of a sorted list whose address is at least from,
// or the length of the list.
func indexFrom(list []netip.Prefix, from netip.Addr) int {
	i, _ := slices.BinarySearchFunc(list, from, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	return i
}

// union returns the prefixes of both lists, sorted. It omits each prefix that is inside another.
func union(a, b []netip.Prefix) (list []netip.Prefix) {
	if slices.Equal(a, b) {
		return a
	}
	all := append(slices.Clone(a), b...)
	slices.SortFunc(all, dataplane.ComparePrefixes)
	seen := map[netip.Prefix]struct{}{}
	for _, p := range slices.Compact(all) {
		if !hasShorterPrefix(seen, p) {
			seen[p] = struct{}{}
			list = append(list, p)
		}
	}
	return list
}

// intersection returns disjoint prefixes, sorted, of the addresses that are in both lists. The
// prefixes of each list are disjoint.
func intersection(a, b []netip.Prefix) (list []netip.Prefix) {
	if slices.Equal(a, b) {
		return a
	}
	inA, inB := map[netip.Prefix]struct{}{}, map[netip.Prefix]struct{}{}
	for _, p := range a {
		inA[p] = struct{}{}
	}
	for _, p := range b {
		inB[p] = struct{}{}
		if _, same := inA[p]; same || hasShorterPrefix(inA, p) {
			list = append(list, p)
		}
	}
	for _, p := range a {
		if hasShorterPrefix(inB, p) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, dataplane.ComparePrefixes)
	return list
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
