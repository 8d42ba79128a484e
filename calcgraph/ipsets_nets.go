// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
)

// netKey is a prefix without pointers: the length, plus wideBits for IPv6, and the address.
type netKey [1 + 16]byte

// wideBits is added to the length of IPv6 prefixes.
const wideBits = 64

const (
	narrow = 1 + 4  // bytes of an IPv4 prefix
	wide   = 1 + 16 // bytes of any prefix
)

func keyOf(p netip.Prefix) netKey {
	var k netKey
	if addr := p.Addr(); addr.Is4() {
		a := addr.As4()
		k[0] = byte(p.Bits())
		copy(k[1:], a[:])
	} else {
		a := addr.As16()
		k[0] = byte(p.Bits()) + wideBits
		copy(k[1:], a[:])
	}
	return k
}

func (k *netKey) prefix() netip.Prefix {
	if k[0] < wideBits {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(k[1:5])), int(k[0]))
	}
	return netip.PrefixFrom(netip.AddrFrom16([16]byte(k[1:17])), int(k[0]-wideBits))
}

// host returns a full-length IPv4 address.
func (k *netKey) host() (addr uint32, ok bool) { return binary.BigEndian.Uint32(k[1:5]), k[0] == 32 }

// netList is a list of prefixes in few bytes and without pointers, in the order of the caller. Each
// prefix has narrow bytes if all are IPv4, else wide. The zero list is empty.
type netList struct {
	data []byte
	wide bool
}

func (l netList) stride() int {
	if l.wide {
		return wide
	}
	return narrow
}

func (l netList) len() int { return len(l.data) / l.stride() }

func (l netList) at(i int) netKey {
	var k netKey
	n := l.stride()
	copy(k[:], l.data[i*n:(i+1)*n])
	return k
}

func (l netList) equal(o netList) bool { return l.wide == o.wide && bytes.Equal(l.data, o.data) }

// appendNets encodes prefixes as a list in buf.
func appendNets(buf []byte, nets []netip.Prefix) netList {
	// Most lists are IPv4 only. This path is inlined for speed.
	data := slices.Grow(buf[:0], narrow*len(nets))[:narrow*len(nets)]
	for i := range nets {
		addr := nets[i].Addr()
		if !addr.Is4() {
			return appendWide(data, nets)
		}
		a := addr.As4()
		entry := data[narrow*i:][:narrow]
		entry[0] = byte(nets[i].Bits())
		copy(entry[1:], a[:])
	}
	return netList{data: data}
}

func appendWide(buf []byte, nets []netip.Prefix) netList {
	l := netList{data: buf[:0], wide: true}
	for _, p := range nets {
		k := keyOf(p)
		l.data = append(l.data, k[:]...)
	}
	return l
}

// appendAddrs encodes addresses as a list in buf.
func appendAddrs(buf []byte, addrs []netip.Addr) netList {
	var room [4]netip.Prefix
	nets := room[:0]
	for _, a := range addrs {
		a = a.Unmap()
		nets = append(nets, netip.PrefixFrom(a, a.BitLen()))
	}
	return appendNets(buf, nets)
}

// keys returns the prefixes from index from to index to, sorted and without duplicates. It reports
// whether there were duplicates.
func (l netList) keys(from, to int) (keys []netKey, repeated bool) {
	keys = make([]netKey, 0, to-from)
	for i := from; i < to; i++ {
		keys = append(keys, l.at(i))
	}
	keys = sorted(keys, func(a, b netKey) int { return bytes.Compare(a[:], b[:]) })
	return keys, len(keys) < to-from
}

// has reports whether the list has a prefix.
func (l netList) has(k netKey) bool {
	for i := range l.len() {
		if l.at(i) == k {
			return true
		}
	}
	return false
}

// common returns the lengths of the common prefix of two lists, and of the common suffix of the
// rest. Lists with different encodings have none.
func (l netList) common(o netList) (head, tail int) {
	if l.wide != o.wide {
		return 0, 0
	}
	n, most := l.stride(), min(l.len(), o.len())
	head = commonPrefix(l.data, o.data) / n
	head = min(head, most)
	for tail < most-head {
		a, b := len(l.data)-(tail+1)*n, len(o.data)-(tail+1)*n
		if !bytes.Equal(l.data[a:a+n], o.data[b:b+n]) {
			break
		}
		tail++
	}
	return head, tail
}

// commonPrefix returns the length of the common prefix of a and b.
func commonPrefix(a, b []byte) int {
	const block = 256
	n, i := min(len(a), len(b)), 0
	for i+block <= n && bytes.Equal(a[i:i+block], b[i:i+block]) {
		i += block
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// onlyKeys calls visit for each key of the sorted list a that is not in the sorted list b.
func onlyKeys(a, b []netKey, visit func(k netKey)) {
	for _, k := range a {
		for len(b) > 0 && bytes.Compare(b[0][:], k[:]) < 0 {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != k {
			visit(k)
		}
	}
}
