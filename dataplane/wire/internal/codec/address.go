// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// appendAddress appends the bytes of an address. An IPv4-mapped IPv6 address, or one with a zone,
// is an error.
func appendAddress(c *cursor, buf []byte, a netip.Addr) []byte {
	switch {
	case !a.IsValid():
		c.fail("no address")
	case a.Is4In6():
		c.fail("address %s is IPv4 in IPv6 form", a)
	case a.Zone() != "":
		c.fail("address %s has a zone", a)
	case a.Is4():
		data := a.As4()
		return append(buf, data[:]...)
	default:
		data := a.As16()
		return append(buf, data[:]...)
	}
	return buf
}

func encodeAddress(c *cursor, name string, a netip.Addr) []byte {
	c.enter(name)
	defer c.leave()
	return appendAddress(c, make([]byte, 0, a.BitLen()/8), a)
}

// encodeOptionalAddress encodes an address that may be absent.
func encodeOptionalAddress(c *cursor, name string, a netip.Addr) []byte {
	if !a.IsValid() {
		return nil
	}
	return encodeAddress(c, name, a)
}

// encodeAddresses encodes a list. It makes one allocation for all addresses.
func encodeAddresses(c *cursor, name string, list []netip.Addr) [][]byte {
	if len(list) == 0 {
		return nil
	}
	size := 0
	for _, a := range list {
		size += a.BitLen() / 8
	}
	out, buf := make([][]byte, len(list)), make([]byte, 0, size)
	for i, a := range list {
		c.enterItem(name, i)
		begin := len(buf)
		buf = appendAddress(c, buf, a)
		out[i] = buf[begin:len(buf):len(buf)]
		c.leave()
	}
	return out
}

func encodePrefix(c *cursor, name string, p netip.Prefix) *wirepb.Prefix {
	m := &wirepb.Prefix{}
	c.enter(name)
	fillPrefix(c, m, make([]byte, 0, p.Addr().BitLen()/8), p)
	c.leave()
	return m
}

// encodePrefixes encodes a list. It makes one allocation for all messages, and one for all
// addresses.
func encodePrefixes(c *cursor, name string, list []netip.Prefix) []*wirepb.Prefix {
	if len(list) == 0 {
		return nil
	}
	size := 0
	for _, p := range list {
		size += p.Addr().BitLen() / 8
	}
	messages, out := make([]wirepb.Prefix, len(list)), make([]*wirepb.Prefix, len(list))
	buf := make([]byte, 0, size)
	for i, p := range list {
		c.enterItem(name, i)
		buf = fillPrefix(c, &messages[i], buf, p)
		out[i] = &messages[i]
		c.leave()
	}
	return out
}

// fillPrefix sets the fields of a message. It appends the bytes of the address to buf.
func fillPrefix(c *cursor, m *wirepb.Prefix, buf []byte, p netip.Prefix) []byte {
	if !p.IsValid() {
		c.fail("no prefix")
		return buf
	}
	begin := len(buf)
	buf = appendAddress(c, buf, p.Addr())
	m.Address, m.Length = buf[begin:len(buf):len(buf)], uint32(p.Bits())
	return buf
}

// decodeAddress decodes an address of 4 or 16 bytes. An IPv4-mapped IPv6 address is an error.
func decodeAddress(c *cursor, data []byte, out *netip.Addr) {
	a, ok := netip.AddrFromSlice(data)
	switch {
	case !ok:
		c.fail("address of %d bytes, want 4 or 16", len(data))
	case a.Is4In6():
		c.fail("address %s is IPv4 in IPv6 form", a)
	default:
		*out = a
	}
}

func addressField(c *cursor, name string, data []byte) (a netip.Addr) {
	c.enter(name)
	decodeAddress(c, data, &a)
	c.leave()
	return a
}

// optionalAddressField decodes an address that may be absent.
func optionalAddressField(c *cursor, name string, data []byte) netip.Addr {
	if len(data) == 0 {
		return netip.Addr{}
	}
	return addressField(c, name, data)
}

// decodePrefix decodes a prefix. Host bits are an error.
func decodePrefix(c *cursor, m *wirepb.Prefix, out *netip.Prefix) {
	decodeSubnet(c, m, out)
	if *out != out.Masked() {
		c.fail("prefix %s has host bits", *out)
	}
}

// decodeSubnet decodes an address and the prefix length of its subnet. It may have host bits.
func decodeSubnet(c *cursor, m *wirepb.Prefix, out *netip.Prefix) {
	var a netip.Addr
	decodeAddress(c, m.GetAddress(), &a)
	switch {
	case !a.IsValid():
	case m.GetLength() > uint32(a.BitLen()):
		c.fail("prefix length %d of an %s address", m.GetLength(), family(a))
	default:
		*out = netip.PrefixFrom(a, int(m.GetLength()))
	}
}

func prefixField(c *cursor, name string, m *wirepb.Prefix) (p netip.Prefix) {
	c.enter(name)
	decodePrefix(c, m, &p)
	c.leave()
	return p
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
