// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
)

var worldFlags = nfttest.NewWorldFlags()

// smallWorlds makes states of few objects. Most rules match the other side's address, by IP sets
// and lists of prefixes, also negated.
type smallWorlds struct{ nfttest.World }

func (w smallWorlds) prefix() netip.Prefix {
	return netip.MustParsePrefix(nfttest.Pick(w.World, []string{
		"10.0.0.1/32", "10.0.0.2/32", "10.0.0.0/30", "10.0.0.2/31", "10.0.0.0/24", "10.0.1.0/24", "10.0.0.0/16",
		"0.0.0.0/0", "128.0.0.0/1", "255.255.255.255/32",
		"fd00::1/128", "fd00::2/128", "fd00::/126", "fd00::/64", "fd00:0:0:1::/64", "::/0", "8000::/1",
	}))
}

// peers returns a match on the other side's address.
func (w smallWorlds) peers() (m dataplane.Match) {
	set := func() dataplane.IPSetID { return nfttest.Pick(w.World, []dataplane.IPSetID{"s:a", "s:b", "s:c"}) }
	m.Sets, m.NotSets = nfttest.Some(w.World, 0.5, 2, set), nfttest.Some(w.World, 0.2, 2, set)
	m.Nets, m.NotNets = nfttest.Some(w.World, 0.3, 3, w.prefix), nfttest.Some(w.World, 0.2, 2, w.prefix)
	return m
}

func (w smallWorlds) ports() policy.Port {
	return nfttest.Pick(w.World, []policy.Port{
		policy.PortNumber(80), policy.PortNumber(81), policy.PortNumber(443), policy.PortRange(80, 90),
		policy.PortRange(85, 443),
		policy.PortRange(1, 65535), policy.PortRange(0, 79), policy.PortNumber(65535),
	})
}

// rule returns a random rule for a direction. One rule in six matches a field that classes do not
// determine.
func (w smallWorlds) rule(id string, in bool) dataplane.Rule {
	r := dataplane.Rule{ID: id, Action: nfttest.Pick(w.World, []policy.Action{
		policy.Allow, policy.Allow, policy.Deny, policy.Pass,
	})}
	peer, own := &r.Source, &r.Destination
	if !in {
		peer, own = own, peer
	}
	*peer = w.peers()
	r.Protocol = nfttest.Pick(w.World, []policy.Protocol{
		0, 0, policy.ProtocolTCP, policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP, policy.ProtocolICMP,
		policy.ProtocolICMPv6, 253,
	})
	if r.Protocol == 0 || r.Protocol.HasPorts() {
		r.Destination.Ports, r.Destination.NotPorts = nfttest.Some(
			w.World, 0.5, 2, w.ports,
		), nfttest.Some(w.World, 0.1, 1, w.ports)
	}
	if w.IntN(10) == 0 {
		r.NotProtocol = nfttest.Pick(w.World, []policy.Protocol{policy.ProtocolTCP, policy.ProtocolUDP, 253})
	}
	if w.IntN(12) == 0 {
		r.IPVersion = nfttest.Pick(w.World, []int{4, 6})
	}
	named := []dataplane.IPSetID{"p:http"}
	switch w.IntN(6 * 8) {
	case 0, 1:
		r.Action = policy.Log
	case 2:
		r.Source.Ports = []policy.Port{policy.PortRange(1000, 2000)}
	case 3:
		r.ICMP = w.ICMP()
	case 4:
		r.NotICMP = w.ICMP()
	case 5:
		own.Nets = []netip.Prefix{netip.MustParsePrefix("10.0.0.8/32"), netip.MustParsePrefix("fd00::8/128")}
	case 6:
		r.Destination.PortSets = named
		if w.IntN(2) == 0 {
			r.Destination.PortSets, r.Destination.NotPortSets = nil, named
		}
	case 7:
		r.DSCP, r.NotDSCP = nfttest.Some(w.World, 0.7, 2, w.DSCP), nfttest.Some(w.World, 0.4, 1, w.DSCP)
	}
	return r
}

func (w smallWorlds) rules(id string, in bool) (out []dataplane.Rule) {
	for i := range w.IntN(4) {
		out = append(out, w.rule(fmt.Sprintf("%s-%d", id, i), in))
	}
	return out
}

// sets returns a state with only IP sets.
func (w smallWorlds) sets() dptest.State {
	s := nfttest.InSync()
	for _, id := range []dataplane.IPSetID{"s:a", "s:b", "s:c"} {
		s.Sets[id] = w.Set(dataplane.IPSetNets, func() dataplane.Member { return dataplane.Member{Prefix: w.prefix()} })
	}
	s.Sets["p:http"] = nfttest.PortSet(policy.ProtocolTCP, 80, "10.0.0.1", "10.0.0.8", "fd00::8")
	return s
}

// state has two endpoints with two tiers and two profiles.
func (w smallWorlds) state() dptest.State {
	s := w.sets()
	var keys []policy.Key
	for i := range 4 {
		key := nfttest.PolicyKey(fmt.Sprint("p", i))
		keys = append(keys, key)
		s.Policies[key] = &dataplane.Policy{
			Tier: "t", Staged: w.IntN(8) == 0, Ingress: w.rules(key.Name+"-in", true),
			Egress: w.rules(key.Name+"-out", false),
		}
	}
	for _, name := range []string{"a", "b"} {
		p := &dataplane.Profile{Ingress: w.rules(name+"-in", true), Egress: w.rules(name+"-out", false)}
		if name == "a" { // it is the last, and often allows the rest
			rest := func(id string) []dataplane.Rule {
				return nfttest.Some(w.World, 0.7, 1, func() dataplane.Rule { return nfttest.AllowAll(id) })
			}
			p.Ingress = append(p.Ingress, rest("rest-in")...)
			p.Egress = append(p.Egress, rest("rest-out")...)
		}
		s.Profiles[name] = p
	}
	tiers := func() (out []dataplane.TierPolicies) {
		w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for i := range w.IntN(3) {
			out = append(out, dataplane.TierPolicies{
				Tier:          fmt.Sprint("t", i),
				DefaultAction: nfttest.Pick(w.World, []policy.Action{policy.Deny, policy.Pass, policy.Pass}),
				Policies:      slices.Clone(keys[2*i : 2*i+2]),
			})
		}
		return out
	}
	for _, name := range []string{"way1", "way2"} {
		s.Endpoints[nfttest.EndpointKey(name)] = &dataplane.Endpoint{
			Interface: name, Addresses: nfttest.Addresses("10.0.0.8", "10.0.0.9", "fd00::8", "fd00::9"),
			Ingress: tiers(), Egress: tiers(), Profiles: nfttest.Pick(
				w.World, [][]string{nil, {"a"}, {"b", "a"}, {"b", "a"}},
			),
		}
	}
	return s
}

// representatives has one packet for each set of packets that the rules of a state cannot
// distinguish.
type representatives struct {
	addrs          [2][]netip.Addr // of IPv4, of IPv6
	dports, sports []uint16
	dscps          []policy.DSCP
}

// representativesOf returns the representatives of a state. For each prefix and each range of
// ports, they have its first and last value, and the values just outside.
func representativesOf(s dptest.State) (r representatives) {
	addrs := map[netip.Addr]bool{netip.MustParseAddr("203.0.113.1"): true, netip.MustParseAddr("2001:db8::1"): true}
	dports, sports := map[uint16]bool{40000: true}, map[uint16]bool{40000: true}
	dscps := map[policy.DSCP]bool{20: true}
	addPrefix := func(p netip.Prefix) {
		last, _ := netip.AddrFromSlice(lastOf(p))
		for _, a := range []netip.Addr{p.Addr().Prev(), p.Addr(), last, last.Next()} {
			addrs[a] = addrs[a] || a.IsValid()
		}
	}
	addPorts := func(to map[uint16]bool, ports []policy.Port) {
		for _, p := range ports {
			to[max(p.First, 1)-1], to[p.First], to[p.Last], to[min(p.Last, 65534)+1] = true, true, true, true
		}
	}
	add := func(rules []dataplane.Rule) {
		for _, r := range rules {
			for _, m := range []dataplane.Match{r.Source, r.Destination} {
				for _, n := range slices.Concat(m.Nets, m.NotNets) {
					addPrefix(n)
				}
			}
			for _, d := range slices.Concat(r.DSCP, r.NotDSCP) {
				dscps[d] = true
			}
			addPorts(sports, slices.Concat(r.Source.Ports, r.Source.NotPorts))
			addPorts(dports, slices.Concat(r.Destination.Ports, r.Destination.NotPorts))
		}
	}
	for _, p := range s.Policies {
		add(slices.Concat(p.Ingress, p.Egress))
	}
	for _, p := range s.Profiles {
		add(slices.Concat(p.Ingress, p.Egress))
	}
	for _, set := range s.Sets {
		for _, m := range set.Members {
			addPrefix(m.Prefix)
			if m.Port != 0 {
				addPorts(dports, []policy.Port{policy.PortNumber(m.Port)})
			}
		}
	}
	delete(addrs, netip.Addr{})
	for _, a := range slices.SortedFunc(maps.Keys(addrs), netip.Addr.Compare) {
		fam := 0
		if a.Is6() {
			fam = 1
		}
		r.addrs[fam] = append(r.addrs[fam], a)
	}
	r.dports, r.sports = slices.Sorted(maps.Keys(dports)), slices.Sorted(maps.Keys(sports))
	r.dscps = slices.Sorted(maps.Keys(dscps))
	return r
}

// transports calls f with a packet of each kind between two addresses. The packets have every code
// point, protocol, port, and ICMP type and code that a rule can distinguish from others.
func (r representatives) transports(p dptest.Packet, f func(dptest.Packet)) {
	for _, p.DSCP = range r.dscps {
		r.transport(p, f)
	}
}

func (r representatives) transport(p dptest.Packet, f func(dptest.Packet)) {
	for _, proto := range []policy.Protocol{policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP} {
		p.Protocol = proto
		for _, p.DstPort = range r.dports {
			for _, p.SrcPort = range r.sports {
				f(p)
			}
		}
	}
	p.SrcPort, p.DstPort = 0, 0
	for _, p.Protocol = range []policy.Protocol{253, 254} {
		f(p)
	}
	for _, p.Protocol = range []policy.Protocol{policy.ProtocolICMP, policy.ProtocolICMPv6} {
		for typ := range uint8(4) { // rules match types up to 2 and codes up to 1
			for code := range uint8(3) {
				p.ICMPType, p.ICMPCode = typ, code
				f(p)
			}
		}
	}
}

// each calls f with every packet: between the outside and an endpoint, in both directions, and from
// one endpoint to the other.
func (r representatives) each(f func(dptest.Packet)) {
	way1, way2 := nfttest.EndpointKey("way1"), nfttest.EndpointKey("way2")
	for fam, own := range [][]netip.Addr{
		nfttest.Addresses("10.0.0.8", "10.0.0.9"), nfttest.Addresses("fd00::8", "fd00::9"),
	} {
		for i, peer := range r.addrs[fam] {
			r.transports(dptest.Packet{Src: peer, Dst: own[i%2], To: way1}, f)
			r.transports(dptest.Packet{Src: own[i%2], Dst: peer, From: way1}, f)
		}
		for i := range own {
			r.transports(dptest.Packet{Src: own[i], Dst: own[1-i], From: way1, To: way2}, f)
		}
	}
}

// TestRepresentatives compares the table's verdict with State.Judge, for one packet of each kind in
// small random worlds. The tables of all forms must have this verdict, and write the same log. An
// allowed packet keeps its mark and priority.
//
// In two worlds of three, one or both of the endpoints are bridged (S171).
func TestRepresentatives(t *testing.T) {
	counts := map[bool]int{}
	for _, seed := range worldFlags.Seeds(120, 12) {
		w := smallWorlds{nfttest.NewWorld(seed, 11)}
		s := w.state()
		cfg := render.Config{LogRate: -1, Counters: seed%5 == 4, Reject: seed%7 == 6}
		of := []map[string]string{nil, {"way1": "br0"}, {"way1": "br0", "way2": "br1"}}[seed%3]
		if of != nil {
			cfg.Bridges = nfttest.Bridges()
		}
		var forms []*simulate.Simulator
		for _, classes := range append(nfttest.Forms(), render.ClassesConfig{MaxPerGroup: 9, MaxTotal: 18}) {
			cfg.Classes = classes
			sc := scenario{Config: cfg, Batches: []dataplane.Batch{nfttest.Transition(s)}, Ports: of}
			table, errs := sc.rendered(t)
			require.Empty(t, errs)
			sim, err := simulate.New(simulate.Config{Table: table})
			require.NoError(t, err)
			forms = append(forms, sim)
		}
		representativesOf(s).each(func(p dptest.Packet) {
			want := s.Judge(p).Allowed()
			counts[want]++
			packet := forwardedPacket(p)
			packet.IIFName = cmp.Or(of[packet.IIFName], packet.IIFName)
			packet.OIFName = cmp.Or(of[packet.OIFName], packet.OIFName)
			packet.Mark = []uint32{0, 0x4000, 1337}[counts[want]%3]
			packet.Priority = []uint32{0, 1, 2, 4, 6}[counts[want]%5]
			var logs []string
			for i, sim := range forms {
				got, err := sim.Run(ruleset.Forward, packet, simulate.Conn{})
				require.NoError(t, err)
				if i == 0 {
					logs = prefixes(got.Logs)
				}
				kept := got.Packet.Mark == packet.Mark && got.Packet.Priority == packet.Priority
				if (got.Verdict == ruleset.Accept) != want || want && !kept || !slices.Equal(prefixes(got.Logs), logs) {
					require.Failf(
						t, "another verdict", "seed %d, form %d: %+v\n%+v\nwant %t, got %+v\n%s", seed, i, p, packet,
						want, got, s,
					)
				}
			}
		})
	}
	t.Logf("%d packets allowed, %d denied", counts[true], counts[false])
	require.Greater(t, min(counts[true], counts[false]), 10_000)
}

// forwardedPacket is the packet in the form of the simulator.
func forwardedPacket(p dptest.Packet) simulate.Packet {
	iface := func(k policy.Key) string { return cmp.Or(k.Name, "eth0") }
	header := simHeader(p.Header)
	header[ruleset.HeaderICMPType], header[ruleset.HeaderICMPCode] = uint16(p.ICMPType), uint16(p.ICMPCode)
	return simulate.Packet{
		IIFName: iface(p.From), OIFName: iface(p.To), Src: p.Src, Dst: p.Dst, Protocol: uint8(p.Protocol),
		SrcPort: p.SrcPort, DstPort: p.DstPort, Header: header,
	}
}

func prefixes(logs []ruleset.Log) (out []string) {
	for _, l := range logs {
		out = append(out, l.Prefix)
	}
	return out
}
