// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

func encodeAddress(a netip.Addr) []byte {
	if !a.IsValid() {
		return nil
	}
	return a.AsSlice()
}

func encodeAddresses(list []netip.Addr) [][]byte {
	if len(list) == 0 {
		return nil
	}
	out := make([][]byte, len(list))
	for i, a := range list {
		out[i] = encodeAddress(a)
	}
	return out
}

func encodePrefix(p netip.Prefix) *wirepb.Prefix {
	return &wirepb.Prefix{Address: encodeAddress(p.Addr()), Length: uint32(max(p.Bits(), 0))}
}

func encodePrefixes(list []netip.Prefix) []*wirepb.Prefix {
	if len(list) == 0 {
		return nil
	}
	out := make([]*wirepb.Prefix, len(list))
	for i, p := range list {
		out[i] = encodePrefix(p)
	}
	return out
}

// address decodes an address.
func (d *decoder) address(name string, data []byte) (a netip.Addr) {
	d.in(name, func() { decodeAddress(d, data, &a) })
	return a
}

// optionalAddress decodes an address that may be absent.
func (d *decoder) optionalAddress(name string, data []byte) netip.Addr {
	if len(data) == 0 {
		return netip.Addr{}
	}
	return d.address(name, data)
}

func decodeAddress(d *decoder, data []byte, out *netip.Addr) {
	a, ok := netip.AddrFromSlice(data)
	if !ok || a.Is4In6() {
		d.fail("no IPv4 or IPv6 address: % x", data[:min(len(data), 20)])
		return
	}
	*out = a
}

func (d *decoder) prefix(name string, m *wirepb.Prefix) (p netip.Prefix) {
	d.in(name, func() { decodePrefix(d, m, &p) })
	return p
}

// decodePrefix decodes a prefix without host bits.
func decodePrefix(d *decoder, m *wirepb.Prefix, out *netip.Prefix) {
	decodeSubnet(d, m, out)
	if d.err == nil && *out != out.Masked() {
		d.fail("prefix %s has host bits", *out)
	}
}

// decodeSubnet decodes an address with the length of its subnet.
func decodeSubnet(d *decoder, m *wirepb.Prefix, out *netip.Prefix) {
	var a netip.Addr
	decodeAddress(d, m.GetAddress(), &a)
	if d.err == nil && m.GetLength() > uint32(a.BitLen()) {
		d.fail("length %d of a prefix of %s", m.GetLength(), a)
	}
	if d.err == nil {
		*out = netip.PrefixFrom(a, int(m.GetLength()))
	}
}

// The sizes of a member's record after its address.
const (
	lengthSize = 1 // of a prefix
	portSize   = 3 // protocol and port
)

// encodeMembers packs members, of sets of one type.
func encodeMembers(members []dataplane.Member) *wirepb.Members {
	m := &wirepb.Members{}
	for _, member := range members {
		a := member.Prefix.Addr()
		out := &m.Ipv6Prefixes
		switch ports := member.Protocol != 0 || member.Port != 0; {
		case a.Is4() && ports:
			out = &m.Ipv4Ports
		case a.Is4():
			out = &m.Ipv4Prefixes
		case ports:
			out = &m.Ipv6Ports
		}
		if *out == nil {
			*out = make([]byte, 0, len(members)*(a.BitLen()/8+portSize))
		}
		if a.Is4() {
			address := a.As4()
			*out = append(*out, address[:]...)
		} else {
			address := a.As16()
			*out = append(*out, address[:]...)
		}
		if out == &m.Ipv4Ports || out == &m.Ipv6Ports {
			*out = binary.BigEndian.AppendUint16(append(*out, byte(member.Protocol)), member.Port)
		} else {
			*out = append(*out, byte(member.Prefix.Bits()))
		}
	}
	return m
}

// members decodes members. They are in order if those of the message are: IPv4 comes first in Go's order, too.
func (d *decoder) members(name string, m *wirepb.Members) (out []dataplane.Member) {
	d.in(name, func() {
		const ipv4, ipv6 = 4, 16
		count := len(m.GetIpv4Prefixes())/(ipv4+lengthSize) + len(m.GetIpv6Prefixes())/(ipv6+lengthSize) +
			len(m.GetIpv4Ports())/(ipv4+portSize) + len(m.GetIpv6Ports())/(ipv6+portSize)
		if count > 0 {
			out = make([]dataplane.Member, 0, count)
		}
		out = d.records(out, "ipv4_prefixes", m.GetIpv4Prefixes(), ipv4, lengthSize)
		out = d.records(out, "ipv6_prefixes", m.GetIpv6Prefixes(), ipv6, lengthSize)
		out = d.records(out, "ipv4_ports", m.GetIpv4Ports(), ipv4, portSize)
		out = d.records(out, "ipv6_ports", m.GetIpv6Ports(), ipv6, portSize)
	})
	return out
}

// records appends the members of one list.
func (d *decoder) records(out []dataplane.Member, name string, data []byte, address, rest int) []dataplane.Member {
	size := address + rest
	if len(data)%size != 0 {
		d.in(name, func() { d.fail("%d bytes, which is no multiple of %d", len(data), size) })
		return nil
	}
	for i := 0; len(data) > 0; i++ {
		a, _ := netip.AddrFromSlice(data[:address])
		tail := data[address:size]
		m := dataplane.Member{Prefix: netip.PrefixFrom(a, int(tail[0]))}
		if rest == portSize {
			m.Prefix = netip.PrefixFrom(a, a.BitLen())
			m.Protocol, m.Port = protocolOf(tail[0]), binary.BigEndian.Uint16(tail[1:])
		}
		if a.Is4In6() || !m.Prefix.IsValid() || m.Prefix != m.Prefix.Masked() {
			d.at(segment{name, i}, func() { d.fail("not a member: % x", data[:size]) })
			return nil
		}
		out, data = append(out, m), data[size:]
	}
	return out
}
