// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// A record is an address, followed either by a prefix length, or by a protocol and a port. These
// are the sizes of the parts in bytes.
const (
	ipv4Size, ipv6Size = 4, 16
	lengthSize         = 1
	portSize           = 3
)

// hasPort reports whether a member belongs to a set of type IPSetPorts.
func hasPort(m *dataplane.Member) bool { return m.Protocol != 0 || m.Port != 0 }

// CheckMembers returns an error if Encode or Decode would refuse a member of a set. It walks the
// members once, without allocating memory.
func CheckMembers(id dataplane.IPSetID, typ dataplane.IPSetType, members []dataplane.Member) error {
	c := newCursor()
	for i := range members {
		c.enterItem("members", i)
		checkType(c, typ, &members[i])
		checkMember(c, &members[i])
		c.leave()
	}
	if c.err != nil {
		set := &wirepb.Event_IpSetUpdate{IpSetUpdate: &wirepb.IPSetUpdate{Id: string(id)}}
		return fmt.Errorf("codec: %s: %w", object(&wirepb.Event{Event: set}), c.err)
	}
	return nil
}

// checkType records an error if a member does not fit the type of its set.
func checkType(c *cursor, typ dataplane.IPSetType, m *dataplane.Member) {
	if hasPort(m) != (typ == dataplane.IPSetPorts) {
		c.fail("member %s of a set of type %s", *m, typ)
	}
}

// checkMember records an error for a member that no set can have.
func checkMember(c *cursor, m *dataplane.Member) {
	switch {
	case !m.Prefix.IsValid():
		c.fail("no prefix")
	case m.Prefix.Addr().Is4In6():
		c.fail("address %s is IPv4 in IPv6 form", m.Prefix.Addr())
	case m.Prefix != m.Prefix.Masked():
		c.fail("prefix %s has host bits", m.Prefix)
	case !hasPort(m):
	case !m.Prefix.IsSingleIP():
		c.fail("prefix %s with a port", m.Prefix)
	case m.Protocol == 0:
		c.fail("port %d without a protocol", m.Port)
	case m.Port == 0:
		c.fail("protocol %s without a port", m.Protocol)
	}
}

// encodeMembers packs the members of a set. A member that does not fit the type of the set is an
// error.
func encodeMembers(c *cursor, name string, typ dataplane.IPSetType, members []dataplane.Member) *wirepb.Members {
	for i := range members {
		c.enterItem(name, i)
		checkType(c, typ, &members[i])
		c.leave()
	}
	return packMembers(c, name, members)
}

// packMembers packs members of any type. It first counts the records of each list, so that each
// list needs one allocation.
func packMembers(c *cursor, name string, members []dataplane.Member) *wirepb.Members {
	if len(members) == 0 {
		return nil
	}
	var nets4, nets6, ports4, ports6 int
	for i := range members {
		switch m := &members[i]; {
		case m.Prefix.Addr().Is4() && hasPort(m):
			ports4++
		case m.Prefix.Addr().Is4():
			nets4++
		case hasPort(m):
			ports6++
		default:
			nets6++
		}
	}
	out := &wirepb.Members{
		Ipv4Prefixes: buffer(nets4 * (ipv4Size + lengthSize)),
		Ipv6Prefixes: buffer(nets6 * (ipv6Size + lengthSize)),
		Ipv4Ports:    buffer(ports4 * (ipv4Size + portSize)),
		Ipv6Ports:    buffer(ports6 * (ipv6Size + portSize)),
	}
	for i := range members {
		c.enterItem(name, i)
		packMember(c, out, &members[i])
		c.leave()
	}
	return out
}

func buffer(size int) []byte {
	if size == 0 {
		return nil
	}
	return make([]byte, 0, size)
}

// packMember appends the record of a member to its list.
func packMember(c *cursor, out *wirepb.Members, m *dataplane.Member) {
	list, a := &out.Ipv6Prefixes, m.Prefix.Addr()
	switch {
	case a.Is4() && hasPort(m):
		list = &out.Ipv4Ports
	case a.Is4():
		list = &out.Ipv4Prefixes
	case hasPort(m):
		list = &out.Ipv6Ports
	}
	checkMember(c, m)
	if !m.Prefix.IsValid() {
		return
	}
	*list = appendAddress(c, *list, a)
	if hasPort(m) {
		*list = binary.BigEndian.AppendUint16(append(*list, byte(m.Protocol)), m.Port)
	} else {
		*list = append(*list, byte(m.Prefix.Bits()))
	}
}

// decodeMembers unpacks the members of a set. A member that does not fit the type of the set is an
// error.
func decodeMembers(c *cursor, name string, typ dataplane.IPSetType, m *wirepb.Members) []dataplane.Member {
	other, bytes := "ports", len(m.GetIpv4Ports())+len(m.GetIpv6Ports())
	if typ == dataplane.IPSetPorts {
		other, bytes = "prefixes", len(m.GetIpv4Prefixes())+len(m.GetIpv6Prefixes())
	}
	if bytes > 0 {
		c.failIn(name, "%s in a set of type %s", other, typ)
	}
	return unpackMembers(c, name, m)
}

// unpackMembers unpacks members of any type. IPv4 comes first, as in Member.Compare. So the members
// of a set are sorted if each list of the message is sorted.
func unpackMembers(c *cursor, name string, m *wirepb.Members) []dataplane.Member {
	count := len(m.GetIpv4Prefixes())/(ipv4Size+lengthSize) + len(m.GetIpv6Prefixes())/(ipv6Size+lengthSize) +
		len(m.GetIpv4Ports())/(ipv4Size+portSize) + len(m.GetIpv6Ports())/(ipv6Size+portSize)
	var out []dataplane.Member
	if count > 0 {
		out = make([]dataplane.Member, 0, count)
	}
	c.enter(name)
	out = unpackList(c, out, "ipv4_prefixes", m.GetIpv4Prefixes(), ipv4Size, lengthSize)
	out = unpackList(c, out, "ipv6_prefixes", m.GetIpv6Prefixes(), ipv6Size, lengthSize)
	out = unpackList(c, out, "ipv4_ports", m.GetIpv4Ports(), ipv4Size, portSize)
	out = unpackList(c, out, "ipv6_ports", m.GetIpv6Ports(), ipv6Size, portSize)
	c.leave()
	return out
}

// unpackList appends the members of a list. A record has an address of addressSize bytes, and
// restSize more bytes.
func unpackList(
	c *cursor, out []dataplane.Member, name string, data []byte, addressSize, restSize int,
) []dataplane.Member {
	size := addressSize + restSize
	if len(data)%size != 0 {
		c.failIn(name, "%d bytes, want a multiple of %d", len(data), size)
		return out
	}
	for i := 0; len(data) > 0; i++ {
		c.enterItem(name, i)
		out = append(out, unpackMember(c, data[:addressSize], data[addressSize:size]))
		c.leave()
		data = data[size:]
	}
	return out
}

func unpackMember(c *cursor, address, rest []byte) (m dataplane.Member) {
	var a netip.Addr
	decodeAddress(c, address, &a)
	if len(rest) == portSize {
		m.Prefix = netip.PrefixFrom(a, a.BitLen())
		m.Protocol = number[policy.Protocol](c, "protocol", uint32(rest[0]), 1, maxProtocol)
		m.Port = number[uint16](c, "port", uint32(binary.BigEndian.Uint16(rest[1:])), 1, maxPort)
		return m
	}
	switch length := int(rest[0]); {
	case !a.IsValid():
	case length > a.BitLen():
		c.fail("prefix length %d of an %s address", length, family(a))
	default:
		if m.Prefix = netip.PrefixFrom(a, length); m.Prefix != m.Prefix.Masked() {
			c.fail("prefix %s has host bits", m.Prefix)
		}
	}
	return m
}
