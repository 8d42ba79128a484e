// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// values are field values of packets: those in rules, and their neighbours, which differ by one.
type values struct {
	peers              []netip.Addr
	protocols          []policy.Protocol
	srcPorts, dstPorts []uint16
	icmps              [][2]uint8 // type and code
	headers            []policy.Header
}

// valuesOf returns the values in rules, with their neighbours.
func valuesOf(s dptest.State, rules []dataplane.Rule) values {
	var v values
	for i := range rules {
		r := &rules[i]
		for _, proto := range []policy.Protocol{r.Protocol, r.NotProtocol} {
			if proto != 0 {
				v.protocols = append(v.protocols, proto)
			}
		}
		for _, m := range []*policy.ICMP{r.ICMP, r.NotICMP} {
			v.addICMP(m)
		}
		v.headers = append(v.headers, headersOf(&r.HeaderMatch)...)
		v.srcPorts = append(v.srcPorts, v.addSide(s, &r.Source)...)
		v.dstPorts = append(v.dstPorts, v.addSide(s, &r.Destination)...)
	}
	return v
}

// addStandard adds values that packets also have without rules.
func (v *values) addStandard() {
	v.peers = append(v.peers, outside4(), outside6())
	v.protocols = append(v.protocols, policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolICMP, 253)
	v.srcPorts, v.dstPorts = append(v.srcPorts, 4000), append(v.dstPorts, 80, 4001)
	v.icmps = append(v.icmps, [2]uint8{8, 0}, [2]uint8{128, 0})
	v.headers = append(v.headers, policy.Header{}, policy.Header{DSCP: 46})
}

// addSide adds the addresses and protocols of a side of a rule, and returns its ports.
func (v *values) addSide(s dptest.State, m *dataplane.Match) (ports []uint16) {
	for _, n := range slices.Concat(m.Nets, m.NotNets) {
		v.addPrefix(n)
	}
	for _, p := range slices.Concat(m.Ports, m.NotPorts) {
		ports = append(ports, edges(p.First, p.Last)...)
	}
	for _, id := range slices.Concat(m.Sets, m.NotSets, m.PortSets, m.NotPortSets) {
		for _, member := range s.Sets[id].Members {
			v.addPrefix(member.Prefix)
			if member.Port != 0 {
				v.protocols = append(v.protocols, member.Protocol)
				ports = append(ports, edges(member.Port, member.Port)...)
			}
		}
	}
	return ports
}

// edges returns the first and the last port of a range, and the ports just outside.
func edges(first, last uint16) []uint16 {
	list := []uint16{first, last}
	if first > 1 {
		list = append(list, first-1)
	}
	if last < 65535 {
		list = append(list, last+1)
	}
	return list
}

// addICMP adds a type and code with neighbours.
func (v *values) addICMP(m *policy.ICMP) {
	if m == nil || m.Type == nil {
		return
	}
	typ, code := uint8(*m.Type), uint8(0)
	if m.Code != nil {
		code = uint8(*m.Code)
	}
	v.icmps = append(v.icmps, [2]uint8{typ, code}, [2]uint8{typ, code + 1}, [2]uint8{typ + 1, code})
}

// addPrefix adds the first and the last address of a prefix, and the addresses just outside.
func (v *values) addPrefix(p netip.Prefix) {
	last := lastOf(p)
	for _, a := range []netip.Addr{p.Addr(), last, p.Addr().Prev(), last.Next()} {
		if unicast(a) {
			v.peers = append(v.peers, a)
		}
	}
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// unicast reports whether a packet can have the address as its source and as its destination.
func unicast(a netip.Addr) bool {
	if a.Is4() {
		first := a.As4()[0]
		return first != 0 && first != 127 && first < 224
	}
	return a.IsGlobalUnicast() && !a.Is4In6()
}

// outside4 and outside6 are addresses outside of those in random worlds.
func outside4() netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, 7}) }

func outside6() netip.Addr { return netip.MustParseAddr("2001:db8::7") }
