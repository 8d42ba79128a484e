// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// AssumedNode is the node of each endpoint whose pod is not scheduled. Only Converter.AssumeNetwork
// makes such endpoints.
const AssumedNode = "assumed"

// The prefixes from which Assume takes addresses. They are reserved for benchmarks (RFC 2544, RFC
// 5180), so no pod of a cluster has such an address. Documentation prefixes are not used, because
// policies in examples contain them.
const (
	AssumedPrefixIPv4 = "198.18.0.0/15"
	AssumedPrefixIPv6 = "2001:2::/48"
)

// Assumed is a workload endpoint with assumed properties.
type Assumed struct {
	// Key of the endpoint.
	Key policy.Key
	// Node is set if the node is AssumedNode.
	Node bool
	// Addresses are the assumed addresses, IPv4 and IPv6. Empty if the endpoint has addresses of
	// its own.
	Addresses []netip.Addr
}

// Assume gives each workload endpoint without an address an IPv4 and an IPv6 address. It returns
// all resources in the given order. It does not change the caller's resources: it copies an
// endpoint before it adds addresses.
//
// Assume also returns a list of endpoints, sorted by key. The list has the endpoints to which
// Assume gave addresses. It also has the endpoints whose node is AssumedNode, because the pod had
// no node and Converter.AssumeNetwork is set.
//
// The addresses come from AssumedPrefixIPv4 and AssumedPrefixIPv6. An address is a hash of the
// endpoint's key, so an endpoint has the same address in two versions of the manifests. No two
// assumed addresses are equal. Assume never chooses an address that an endpoint, node, host
// endpoint or service backend in the given resources already has. If two keys have the same hash,
// which is rare, the endpoint with the larger key gets the next free address. In this case, a new
// endpoint can change the address of another one. If a prefix is full, an endpoint gets no address
// of that family.
//
// Assume is not a method of Converter, because it must see all resources to find free addresses. An
// assumed address matches a network in a rule only if the network contains the address. So a rule
// for 10.0.0.0/8 does not match a pod with an assumed address, even if the real pod will have an
// address in 10.0.0.0/8.
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

// addressesOf returns the addresses that a resource has.
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

// freeAddress returns the address of a prefix that the hash of a key selects, or the next free one.
// It skips the first address of the prefix and, for IPv4, the last.
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
