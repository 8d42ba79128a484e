// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// AssumedNode is the node of pods that have none, with Converter.AssumeNetwork.
const AssumedNode = "assumed"

// The prefixes that Assume takes addresses from. They are reserved for benchmarks (RFC 2544, RFC
// 5180), so that pods of a cluster have none of them. The documentation prefixes are not used, since
// policies in examples name them.
const (
	AssumedPrefixIPv4 = "198.18.0.0/15"
	AssumedPrefixIPv6 = "2001:2::/48"
)

// Assumed names a workload endpoint of which something is invented.
type Assumed struct {
	// Key of the endpoint.
	Key policy.Key
	// Node reports that the node is AssumedNode.
	Node bool
	// Addresses that are invented, an IPv4 and an IPv6 address. Empty where the endpoint has its own.
	Addresses []netip.Addr
}

// Assume gives each workload endpoint without an address an IPv4 and an IPv6 address, and returns all
// resources in the order given. It also returns the endpoints of which the node or the addresses are
// invented, sorted by key. It changes no resource of the caller: those that get addresses are copies.
//
// Addresses come from AssumedPrefixIPv4 and AssumedPrefixIPv6. They depend on the keys of the
// endpoints, so two versions of the manifests have the same ones. No two endpoints have the same, and
// none has one that another resource has as an endpoint, node, host endpoint or service backend. Where
// two keys lead to one IPv4 address, the endpoint with the larger key gets the next one, so a new
// endpoint can, rarely, move another. An endpoint stays without an address of a family if the prefix
// is full.
//
// Assume is a function over all resources and no part of the Converter: which addresses are free is
// known only when everything is converted. Networks in rules match the invented addresses, as they
// match others: a rule for 10.0.0.0/8 does not match an assumed pod.
func Assume(resources []policy.Resource) ([]policy.Resource, []Assumed) {
	taken := map[netip.Addr]bool{}
	var without []*policy.WorkloadEndpoint
	var assumed []Assumed
	for _, r := range resources {
		for _, addr := range addressesOf(r) {
			taken[addr] = true
		}
		w, ok := r.(*policy.WorkloadEndpoint)
		switch {
		case !ok || w == nil:
		case len(w.Addresses) == 0:
			without = append(without, w)
		case w.Node == AssumedNode:
			assumed = append(assumed, Assumed{Key: w.Key(), Node: true})
		}
	}
	slices.SortFunc(without, func(a, b *policy.WorkloadEndpoint) int { return a.Key().Compare(b.Key()) })
	byKey := map[policy.Key][]netip.Addr{}
	for _, w := range without {
		key := w.Key()
		if byKey[key] != nil {
			continue
		}
		addresses := []netip.Addr{}
		for _, prefix := range []string{AssumedPrefixIPv4, AssumedPrefixIPv6} {
			if addr, ok := freeAddress(prefix, key, taken); ok {
				taken[addr] = true
				addresses = append(addresses, addr)
			}
		}
		byKey[key] = addresses
		assumed = append(assumed, Assumed{Key: key, Node: w.Node == AssumedNode, Addresses: slices.Clone(addresses)})
	}
	out := slices.Clone(resources)
	for i, r := range out {
		if w, ok := r.(*policy.WorkloadEndpoint); ok && w != nil && len(w.Addresses) == 0 {
			endpoint := *w
			endpoint.Addresses = slices.Clone(byKey[w.Key()])
			out[i] = &endpoint
		}
	}
	slices.SortFunc(assumed, func(a, b Assumed) int { return a.Key.Compare(b.Key) })
	return out, assumed
}

// addressesOf returns the addresses that a resource has itself.
func addressesOf(r policy.Resource) []netip.Addr {
	switch r := r.(type) {
	case *policy.WorkloadEndpoint:
		if r != nil {
			addresses := slices.Clone(r.Addresses)
			for _, nat := range r.IPNATs {
				addresses = append(addresses, nat.InternalIP, nat.ExternalIP)
			}
			return addresses
		}
	case *policy.HostEndpoint:
		if r != nil {
			return r.ExpectedIPs
		}
	case *policy.ServiceBackends:
		if r != nil {
			return r.Addresses
		}
	case *policy.Node:
		if r != nil {
			var addresses []netip.Addr
			for _, p := range r.Addresses {
				addresses = append(addresses, p.Addr())
			}
			return addresses
		}
	}
	return nil
}

// freeAddress returns the address of a prefix that the hash of a key selects, or the next one that is
// free. It leaves out the network's first and, of IPv4, last address.
func freeAddress(text string, key policy.Key, taken map[netip.Addr]bool) (netip.Addr, bool) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Addr{}, false
	}
	sum := sha256.Sum256([]byte(key.Namespace + "/" + key.Name))
	if prefix.Addr().Is4() {
		base, hosts := binary.BigEndian.Uint32(prefix.Addr().AsSlice()), uint32(1)<<(32-prefix.Bits())-2
		first := uint32(binary.BigEndian.Uint64(sum[:8]) % uint64(hosts))
		for i := range hosts {
			var bytes [4]byte
			binary.BigEndian.PutUint32(bytes[:], base+1+(first+i)%hosts)
			if addr := netip.AddrFrom4(bytes); !taken[addr] {
				return addr, true
			}
		}
		return netip.Addr{}, false
	}
	bytes := prefix.Addr().As16()
	copy(bytes[prefix.Bits()/8:], sum[:])
	addr := netip.AddrFrom16(bytes)
	for addr.IsValid() && prefix.Contains(addr) {
		if addr != prefix.Addr() && !taken[addr] {
			return addr, true
		}
		addr = addr.Next()
	}
	return netip.Addr{}, false
}
