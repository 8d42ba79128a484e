// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// S173: a denial of an ICMP type or of a named port moves between sender and receiver.
func TestWireOneMomentOfTypesAndNames(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentOfTypesAndNames)
}

func testWireOneMomentOfTypesAndNames(t *testing.T, classes render.ClassesConfig) {
	for family, name := range []string{"IPv4", "IPv6"} {
		t.Run("ICMP type "+name, func(t *testing.T) {
			n := newFloodRouter(t)
			n.countICMP(t)
			b := n.frames(t, 0, icmpFrames(family))
			n.send = func() error { return b.send(len(b.list)) }
			first, second := deniedType(family, true), deniedType(family, false)
			n.oneMoment(t, render.Config{Classes: classes}, first, second, false, wireRounds(10, 2500), nil)
		})
		t.Run("named port "+name, func(t *testing.T) {
			first, second := deniedName(family, true), deniedName(family, false)
			newFloodNet(t, family).oneMoment(
				t, render.Config{Classes: classes}, first, second, false, wireRounds(10, 2500), nil,
			)
		})
	}
}

// The ICMP and ICMPv6 types of the flood, both of which begin a connection: timestamp and node
// information requests, and echo requests.
func icmpTypes() (forbidden, allowed [2]int) { return [2]int{13, 139}, [2]int{8, 128} }

// countICMP creates the counters of the flood at way2, by ICMP type.
func (n *floodNet) countICMP(t *testing.T) {
	t.Helper()
	way2 := n.workloads[1]
	n.counters, n.family = way2.NS, "netdev"
	forbidden, allowed := icmpTypes()
	load(t, n.counters, fmt.Sprintf(`table netdev arrived {
		counter forbidden {}
		counter allowed {}
		chain in {
			type filter hook ingress device %q priority 100
			icmp type %d counter name forbidden drop
			icmpv6 type %d counter name forbidden drop
			icmp type %d counter name allowed drop
			icmpv6 type %d counter name allowed drop
		}
	}`, way2.Link.Name, forbidden[0], forbidden[1], allowed[0], allowed[1]))
}

func icmpFrames(family int) (frames []frame) {
	forbidden, allowed := icmpTypes()
	for i := range floodFlows {
		for _, typ := range []int{forbidden[family], allowed[family]} {
			frames = append(frames, frame{
				src: floodSource(family), dst: floodTarget(family), echo: uint16(i + 1), typ: uint8(typ),
				proto: [2]policy.Protocol{policy.ProtocolICMP, policy.ProtocolICMPv6}[family],
			})
		}
	}
	return frames
}

// deniedType is bothWays, where the sets of the sender or of the receiver deny the forbidden ICMP
// type.
func deniedType(family int, sends bool) dptest.State {
	to, from := withMembers(others(), floodTarget(family).String()), others()
	if !sends {
		to, from = others(), withMembers(others(), floodSource(family).String())
	}
	return withRules(bothWays(to, from), func(r *dataplane.Rule) {
		forbidden, _ := icmpTypes()
		r.Protocol = [2]policy.Protocol{policy.ProtocolICMP, policy.ProtocolICMPv6}[family]
		r.ICMP = &policy.ICMP{Type: &forbidden[family]}
		r.Destination.Ports = nil
	})
}

// deniedName is bothWays, where the sender or the receiver denies the named port of the target. The
// address sets contain the target and the source.
func deniedName(family int, sends bool) dptest.State {
	s := bothWays(withMembers(others(), floodTarget(family).String()),
		withMembers(others(), floodSource(family).String()))
	target := floodTarget(family)
	member := func(a netip.Addr) dataplane.Member {
		return dataplane.Member{
			Prefix: netip.PrefixFrom(a, a.BitLen()), Protocol: policy.ProtocolUDP, Port: floodForbidden,
		}
	}
	for id, has := range map[dataplane.IPSetID]bool{"p:egress": sends, "p:ingress": !sends} {
		set := dptest.Set{Type: dataplane.IPSetPorts}
		set.Members = append(set.Members, member(netip.MustParseAddr("10.98.0.1")))
		if has {
			set.Members = append(set.Members, member(target))
		}
		s.Sets[id] = set
	}
	return withRules(s, func(r *dataplane.Rule) {
		r.Destination.Ports = nil
		if r.Destination.PortSets = []dataplane.IPSetID{"p:ingress"}; r.ID == "to" {
			r.Destination.PortSets = []dataplane.IPSetID{"p:egress"}
		}
	})
}

// withRules returns the state of bothWays with a change to the rules that deny.
func withRules(s dptest.State, change func(r *dataplane.Rule)) dptest.State {
	for _, name := range []string{"sends", "receives"} {
		key := nfttest.PolicyKey(name)
		p := *s.Policies[key]
		p.Ingress, p.Egress = slices.Clone(p.Ingress), slices.Clone(p.Egress)
		for _, rules := range [][]dataplane.Rule{p.Ingress, p.Egress} {
			if len(rules) > 0 {
				change(&rules[0])
			}
		}
		s.Policies[key] = &p
	}
	return s
}

// S173: a denial moves between sender and receiver, and with it thousands of members of both sets.
func TestWireOneMomentOfLargeSets(t *testing.T) { nfttest.EachForm(t, testWireOneMomentOfLargeSets) }

func testWireOneMomentOfLargeSets(t *testing.T, classes render.ClassesConfig) {
	const size = 3000
	for family, name := range []string{"IPv4", "IPv6"} {
		t.Run(name, func(t *testing.T) {
			first := bothWays(manyMembers(size, 0, floodTarget(family)), manyMembers(size, size/2))
			second := bothWays(manyMembers(size, size/3), manyMembers(size, 2*size, floodSource(family)))
			newFloodNet(t, family).oneMoment(
				t, render.Config{Classes: classes}, first, second, false, wireRounds(3, 500), nil,
			)
		})
	}
}

// manyMembers returns a set with a number of addresses of each family, from the first one on, and
// with others before them.
func manyMembers(size, first int, more ...netip.Addr) dptest.Set {
	var list []netip.Addr
	for i := first; i < first+size; i++ {
		list = append(list, netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)}))
	}
	for i := first; i < first+size; i++ {
		list = append(list, netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 14: byte(i >> 8), 15: byte(i)}))
	}
	list = append(list, more...)
	slices.SortFunc(list, netip.Addr.Compare)
	set := dptest.Set{Type: dataplane.IPSetNets}
	for _, a := range list {
		set.Members = append(set.Members, dataplane.Member{Prefix: netip.PrefixFrom(a, a.BitLen())})
	}
	return set
}
