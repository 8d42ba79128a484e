// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// world makes random states out of few names and addresses, so that much of it meets.
type world struct{ *rand.Rand }

func addrPool() []netip.Addr {
	var out []netip.Addr
	for _, a := range []string{
		"10.0.0.1", "10.0.0.2", "10.0.1.1", "10.1.0.1", "192.168.0.1", "255.255.255.255",
		"fd00::1", "fd00::2", "fd00:0:1::1", "fd01::1", "2001:db8::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	} {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func pick[T any](w world, items []T) T { return items[w.IntN(len(items))] }

// some returns up to n random items, distinct and in random order, often none.
func some[T any](w world, chance float64, n int, item func() T) []T {
	if w.Float64() >= chance {
		return nil
	}
	var out []T
	for range 1 + w.IntN(n) {
		out = append(out, item())
	}
	return out
}

func (w world) prefix() netip.Prefix {
	a := pick(w, addrPool())
	lengths := []int{0, 1, 7, 8, 16, 23, 24, 30, 31, 32}
	if a.Is6() {
		lengths = []int{0, 1, 8, 16, 47, 48, 64, 127, 128}
	}
	return netip.PrefixFrom(a, pick(w, lengths)).Masked()
}

func (w world) port() uint16 { return pick(w, []uint16{1, 79, 80, 81, 443, 8080, 65534, 65535}) }

func (w world) portRange() policy.Port {
	a, b := w.port(), w.port()
	switch w.IntN(8) {
	case 0:
		return policy.PortRange(0, 65535)
	case 1, 2, 3:
		return policy.PortRange(min(a, b), max(a, b))
	default:
		return policy.PortNumber(a)
	}
}

func (w world) icmp() *policy.ICMP {
	typ, code := w.IntN(3), w.IntN(2)
	if w.IntN(2) == 0 {
		return &policy.ICMP{Type: &typ}
	}
	return &policy.ICMP{Type: &typ, Code: &code}
}

func netSets() []dataplane.IPSetID  { return []dataplane.IPSetID{"s:a", "s:b", "s:c", "s:empty"} }
func portSets() []dataplane.IPSetID { return []dataplane.IPSetID{"p:a", "p:b", "p:empty"} }

func (w world) match() dataplane.Match {
	const chance = 0.08
	return dataplane.Match{
		Nets:        some(w, chance, 4, w.prefix),
		NotNets:     some(w, chance, 3, w.prefix),
		Sets:        some(w, chance, 2, func() dataplane.IPSetID { return pick(w, netSets()) }),
		NotSets:     some(w, chance, 2, func() dataplane.IPSetID { return pick(w, netSets()) }),
		Ports:       some(w, chance, 4, w.portRange),
		PortSets:    some(w, chance, 2, func() dataplane.IPSetID { return pick(w, portSets()) }),
		NotPorts:    some(w, chance, 3, w.portRange),
		NotPortSets: some(w, chance, 2, func() dataplane.IPSetID { return pick(w, portSets()) }),
	}
}

func protocols() []policy.Protocol { return []policy.Protocol{1, 6, 17, 58, 132, 136, 253} }

func (w world) rule(id string) dataplane.Rule {
	r := dataplane.Rule{
		ID:     id,
		Action: pick(w, []policy.Action{policy.Allow, policy.Allow, policy.Deny, policy.Pass, policy.Log}),
		Source: w.match(), Destination: w.match(),
	}
	if w.IntN(10) == 0 {
		r.IPVersion = pick(w, []int{4, 6})
	}
	if w.IntN(3) == 0 {
		r.Protocol = pick(w, protocols())
	}
	if w.IntN(8) == 0 {
		r.NotProtocol = pick(w, protocols())
	}
	if w.IntN(8) == 0 {
		r.ICMP = w.icmp()
	}
	if w.IntN(8) == 0 {
		r.NotICMP = w.icmp()
	}
	r.DSCP, r.NotDSCP = some(w, 0.1, 4, w.dscp), some(w, 0.1, 3, w.dscp)
	return r
}

// dscp returns one of a few code points: the ends, some neighbours and some that are alone.
func (w world) dscp() policy.DSCP { return pick(w, dscps()) }

func (w world) header() policy.Header { return policy.Header{DSCP: w.dscp()} }

func dscps() []policy.DSCP { return []policy.DSCP{0, 0, 0, 1, 10, 11, 46, 62, 63} }

// variant returns a rule that differs in one list, or in nothing.
func (w world) variant(r dataplane.Rule, id string) dataplane.Rule {
	r.ID = id
	nets, ports := some(w, 0.9, 3, w.prefix), some(w, 0.9, 3, w.portRange)
	switch w.IntN(5) {
	case 0:
		r.Source.Nets = nets
	case 1:
		r.Destination.Nets = nets
	case 2:
		r.Source.Ports = ports
	case 3:
		r.Destination.Ports = ports
	}
	return r
}

func (w world) rules(id string) (out []dataplane.Rule) {
	for i := range w.IntN(4) {
		next := w.rule(fmt.Sprintf("%s-%d", id, i))
		if i > 0 && w.IntN(3) == 0 { // what differs little from its neighbour may be merged with it
			next = w.variant(out[i-1], next.ID)
		}
		out = append(out, next)
	}
	return out
}

func (w world) state() dptest.State {
	s := dptest.NewState()
	s.InSync = true
	for _, id := range netSets() {
		s.Sets[id] = w.set(dataplane.IPSetNets, func() dataplane.Member {
			if p := w.prefix(); w.IntN(2) == 0 {
				return dataplane.Member{Prefix: p}
			}
			a := pick(w, addrPool())
			return dataplane.Member{Prefix: netip.PrefixFrom(a, a.BitLen())}
		})
	}
	for _, id := range portSets() {
		s.Sets[id] = w.set(dataplane.IPSetPorts, func() dataplane.Member {
			a := pick(w, addrPool())
			return dataplane.Member{
				Prefix: netip.PrefixFrom(a, a.BitLen()), Protocol: pick(w, []policy.Protocol{6, 17, 132}),
				Port: w.port(),
			}
		})
	}
	s.Sets["s:empty"], s.Sets["p:empty"] = dptest.Set{}, dptest.Set{Type: dataplane.IPSetPorts}
	for i := range 5 {
		key := policy.Key{
			Kind: policy.KindPolicy, Namespace: pick(w, []string{"", "shop"}), Name: fmt.Sprintf("p%d", i),
		}
		s.Policies[key] = &dataplane.Policy{
			Tier: "t", Staged: w.IntN(6) == 0,
			Ingress: w.rules(key.Name + "-in"), Egress: w.rules(key.Name + "-out"),
		}
	}
	for _, name := range []string{"a", "b"} {
		s.Profiles[name] = &dataplane.Profile{Ingress: w.rules(name + "-in"), Egress: w.rules(name + "-out")}
	}
	for i := range 3 {
		name := fmt.Sprintf("way%d", i)
		s.Endpoints[endpoint(name)] = &dataplane.Endpoint{
			Interface: name, Addresses: addrPool(), Down: w.IntN(10) == 0,
			Ingress: w.tiers(s), Egress: w.tiers(s),
			Profiles: pick(w, [][]string{nil, {"a"}, {"a", "b"}, {"b", "a"}}),
		}
	}
	return s
}

func (w world) set(typ dataplane.IPSetType, member func() dataplane.Member) dptest.Set {
	members := some(w, 0.9, 5, member)
	slices.SortFunc(members, dataplane.Member.Compare)
	return dptest.Set{Type: typ, Members: slices.Compact(members)}
}

func (w world) tiers(s dptest.State) (out []dataplane.TierPolicies) {
	keys := make([]policy.Key, 0, len(s.Policies))
	for k := range s.Policies {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, policy.Key.Compare)
	w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i := 0; i < len(keys) && w.IntN(4) > 0; {
		n := min(1+w.IntN(2), len(keys)-i)
		out = append(out, dataplane.TierPolicies{
			Tier:          fmt.Sprintf("t%d", i),
			DefaultAction: pick(w, []policy.Action{policy.Deny, policy.Pass}),
			Policies:      keys[i : i+n],
		})
		i += n
	}
	return out
}

// packet returns one packet in the form of each of the two judges.
func (w world) packet() (dptest.Packet, simPacket) {
	pool := addrPool()
	p := dptest.Packet{Src: pick(w, pool), Dst: pick(w, pool), Protocol: pick(w, protocols()), Header: w.header()}
	for p.Dst.Is4() != p.Src.Is4() {
		p.Dst = pick(w, pool)
	}
	sp := simPacket{
		iif: "eth0", oif: "eth1", src: p.Src, dst: p.Dst, proto: uint8(p.Protocol), header: p.Header, ct: ruleset.CtNew,
	}
	switch {
	case p.Protocol.HasPorts():
		p.SrcPort, p.DstPort = w.port(), w.port()
		sp.transport = ports(p.SrcPort, p.DstPort)
	case p.Protocol == policy.ProtocolICMP, p.Protocol == policy.ProtocolICMPv6:
		p.ICMPType, p.ICMPCode = uint8(w.IntN(3)), uint8(w.IntN(2))
		sp.transport = icmpHeader(p.ICMPType, p.ICMPCode)
	default: // what looks like ports and is none, often cut short
		sp.transport = ports(w.port(), w.port())[:w.IntN(6)]
	}
	if name := fmt.Sprintf("way%d", w.IntN(4)); name != "way3" {
		p.From, sp.iif = endpoint(name), name
	}
	if name := fmt.Sprintf("way%d", w.IntN(4)); name != "way3" {
		p.To, sp.oif = endpoint(name), name
	}
	return p, sp
}

// FuzzRenderer holds packets through the rendered table of a random state against the judgement
// on the state itself, and a state reached by steps against the same one from scratch.
func FuzzRenderer(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := world{rand.New(rand.NewPCG(seed, 0))}
		before, state := w.state(), w.state()
		for _, classes := range nfttest.Forms() {
			cfg := render.Config{LogRate: -1, Classes: classes}
			table, errs := rendered(t, cfg, transition(state))
			require.Empty(t, errs)
			again, _ := rendered(t, cfg, transition(before), dptest.Transition(before, state))
			require.Equal(t, table.String(), again.String(), "S100: the path must not matter")
			require.True(t, table.Equal(again))
			ready := newSimTable(t, table)
			for range 40 {
				p, sp := w.packet()
				want := state.Judge(p)
				result := sp.run(t, ready.after, ruleset.Forward)
				got, logs := result.allowed, result.logs
				require.Equal(
					t, want.Allowed(), got, "seed %d\npacket %+v\nverdict %+v\n%s\n%s", seed, p, want, state, table,
				)
				slices.Sort(logs)
				require.Len(
					t, slices.Compact(slices.Clone(logs)), len(logs), "S28: a rule logs a packet once: %v", logs,
				)
			}
		}
	})
}
