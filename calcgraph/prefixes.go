// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// prefixes maps prefixes of one family to values, and finds the prefixes around a prefix and inside
// it. It is a binary trie with compressed paths.
//
//	10.0.0.0/8 ──┬─ 10.0.0.0/29 ─── 10.0.0.2/32
//	             └─ 10.64.0.0/26
type prefixes[V any] struct {
	root *prefixNode[V]
}

// prefixNode has a value or two children, or both. Without a value it is a fork.
type prefixNode[V any] struct {
	bits     addrBits
	length   int
	value    *V
	children [2]*prefixNode[V]
}

// addrBits are the bits of an address, the first one most significant.
type addrBits struct{ high, low uint64 }

func bitsOf(a netip.Addr) addrBits {
	if a.Is4() {
		b := a.As4()
		return addrBits{high: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return addrBits{high: binary.BigEndian.Uint64(b[:8]), low: binary.BigEndian.Uint64(b[8:])}
}

// common returns the length of the common prefix of b and o.
func (b addrBits) common(o addrBits) int {
	if n := bits.LeadingZeros64(b.high ^ o.high); n < 64 {
		return n
	}
	return 64 + bits.LeadingZeros64(b.low^o.low)
}

// at returns the bit with this number, from 0.
func (b addrBits) at(i int) int {
	if i < 64 {
		return int(b.high >> (63 - i) & 1)
	}
	return int(b.low >> (127 - i) & 1)
}

// get returns the value of the prefix, or nil.
func (t *prefixes[V]) get(p netip.Prefix) *V {
	b, length := bitsOf(p.Addr()), p.Bits()
	n := t.root
	for n != nil && n.length < length && n.bits.common(b) >= n.length {
		n = n.children[b.at(n.length)]
	}
	if n == nil || n.length != length || n.bits.common(b) < length {
		return nil
	}
	return n.value
}

// set sets the value of the prefix. v must not be nil.
func (t *prefixes[V]) set(p netip.Prefix, v *V) {
	b, length := bitsOf(p.Addr()), p.Bits()
	link := &t.root
	for {
		n := *link
		if n == nil {
			*link = &prefixNode[V]{bits: b, length: length, value: v}
			return
		}
		same := min(n.bits.common(b), n.length, length)
		switch {
		case same == n.length && same == length:
			n.value = v
			return
		case same == n.length:
			link = &n.children[b.at(n.length)]
		default: // the path to n forks above n, or ends there
			fork := &prefixNode[V]{bits: b, length: same}
			fork.children[n.bits.at(same)] = n
			*link = fork
			if same == length {
				fork.value = v
				return
			}
			link = &fork.children[b.at(same)]
		}
	}
}

// delete removes the prefix, if it exists.
func (t *prefixes[V]) delete(p netip.Prefix) {
	b, length := bitsOf(p.Addr()), p.Bits()
	var above **prefixNode[V]
	link := &t.root
	for *link != nil && (*link).length < length && (*link).bits.common(b) >= (*link).length {
		above = link
		link = &(*link).children[b.at((*link).length)]
	}
	n := *link
	if n == nil || n.length != length || n.bits.common(b) < length {
		return
	}
	n.value = nil
	shorten(link)
	if above != nil {
		shorten(above)
	}
}

// shorten removes a node without a value that is no fork.
func shorten[V any](link **prefixNode[V]) {
	n := *link
	switch {
	case n.value != nil:
	case n.children[0] == nil:
		*link = n.children[1]
	case n.children[1] == nil:
		*link = n.children[0]
	}
}

// around calls yield for the values of the prefixes that contain p, including p, the broadest
// first.
func (t *prefixes[V]) around(p netip.Prefix, yield func(*V)) {
	b, length := bitsOf(p.Addr()), p.Bits()
	n := t.root
	for n != nil && n.length <= length && n.bits.common(b) >= n.length {
		if n.value != nil {
			yield(n.value)
		}
		if n.length == length {
			return
		}
		n = n.children[b.at(n.length)]
	}
}

// within calls yield for the values of the prefixes inside p, including p, in order.
func (t *prefixes[V]) within(p netip.Prefix, yield func(*V)) {
	b, length := bitsOf(p.Addr()), p.Bits()
	n := t.root
	for n != nil && n.length < length && n.bits.common(b) >= n.length {
		n = n.children[b.at(n.length)]
	}
	if n != nil && n.length >= length && n.bits.common(b) >= length {
		n.walk(yield)
	}
}

func (n *prefixNode[V]) walk(yield func(*V)) {
	if n == nil {
		return
	}
	if n.value != nil {
		yield(n.value)
	}
	n.children[0].walk(yield)
	n.children[1].walk(yield)
}
