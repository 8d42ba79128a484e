// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// decidedRule returns a rule that may have predicates. The rest of it matches ports and protocols,
// or more.
func (w world) decidedRule(id string) dataplane.Rule {
	r := dataplane.Rule{ID: id, Action: pick(w, []policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Pass})}
	for _, m := range []*dataplane.Match{&r.Source, &r.Destination} {
		m.Sets = some(w, 0.15, 1, func() dataplane.IPSetID { return pick(w, []dataplane.IPSetID{"s:a", "s:b"}) })
		m.NotSets = some(w, 0.15, 1, func() dataplane.IPSetID { return pick(w, []dataplane.IPSetID{"s:a", "s:b"}) })
	}
	ports := func() policy.Port {
		a, b := w.port(), w.port()
		return policy.PortRange(min(a, b), max(a, b))
	}
	if w.IntN(2) == 0 {
		r.Protocol = pick(w, []policy.Protocol{1, 6, 17, 132, 58, 253})
	}
	if r.Protocol == 0 || r.Protocol.HasPorts() {
		r.Destination.Ports, r.Destination.NotPorts = some(w, 0.6, 3, ports), some(w, 0.2, 2, ports)
	}
	switch w.IntN(9) { // rules that are not plain
	case 0:
		r.Source.Ports, r.Protocol = some(w, 1, 1, ports), 6
	case 1:
		r.Action = policy.Log
	case 2:
		r.NotICMP = w.icmp()
	case 3:
		r.Destination.PortSets, r.Protocol = []dataplane.IPSetID{"p:a"}, 17
	case 4:
		r.DSCP, r.NotDSCP = some(w, 0.7, 2, w.dscp), some(w, 0.7, 2, w.dscp)
	}
	return r
}

func (w world) decidedState() dptest.State {
	s := dptest.NewState()
	s.InSync = true
	s.Sets["s:a"] = w.set(dataplane.IPSetNets, func() dataplane.Member { return dataplane.Member{Prefix: w.prefix()} })
	s.Sets["s:b"] = dptest.Set{Members: []dataplane.Member{
		{Prefix: netip.MustParsePrefix("10.0.0.1/32")}, {Prefix: netip.MustParsePrefix("fd00::1/128")},
	}}
	s.Sets["p:a"] = w.set(dataplane.IPSetPorts, func() dataplane.Member {
		a := pick(w, addrPool())
		return dataplane.Member{Prefix: netip.PrefixFrom(a, a.BitLen()), Protocol: 17, Port: w.port()}
	})
	rules := func(id string) (out []dataplane.Rule) {
		for i := range w.IntN(4) {
			out = append(out, w.decidedRule(fmt.Sprint(id, "-", i)))
		}
		return out
	}
	e := &dataplane.Endpoint{Interface: "way0", Addresses: addrPool(), Profiles: pick(w, [][]string{
		nil, {"a"}, {"a", "a"},
	})}
	for i := range 1 + w.IntN(3) {
		tier := dataplane.TierPolicies{
			Tier: fmt.Sprint("t", i), DefaultAction: pick(w, []policy.Action{policy.Deny, policy.Pass}),
		}
		for j := range 1 + w.IntN(2) {
			key := policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprintf("p%d%d", i, j)}
			s.Policies[key] = &dataplane.Policy{
				Tier: tier.Tier, Ingress: rules(key.Name), Egress: rules(key.Name), Staged: w.IntN(8) == 0,
			}
			tier.Policies = append(tier.Policies, key)
			if w.IntN(6) == 0 {
				tier.Policies = append(tier.Policies, key) // a duplicate
			}
		}
		e.Ingress, e.Egress = append(e.Ingress, tier), append(e.Egress, tier)
	}
	s.Profiles["a"] = &dataplane.Profile{Ingress: rules("a"), Egress: rules("a")}
	s.Endpoints[endpoint("way0")] = e
	return s
}

// Every packet that could make a difference has the verdict of the state. The policies have tiers
// that pass some ports, and plain rules among others.
func TestClassOutcomes(t *testing.T) {
	for seed := range uint64(120) {
		w := world{rand.New(rand.NewPCG(seed, 21))}
		state := w.decidedState()
		table, errs := rendered(t, render.Config{LogRate: -1, Reject: w.IntN(3) == 0}, transition(state))
		require.Empty(t, errs)
		ready := newSimTable(t, table)
		try := func(p dptest.Packet, transport []byte) {
			p.Header = w.header()
			for _, out := range []bool{false, true} {
				p.From, p.To = policy.Key{}, endpoint("way0")
				sp := simPacket{
					iif: "eth0", oif: "way0", src: p.Src, dst: p.Dst, proto: uint8(p.Protocol), ct: ruleset.CtNew,
					transport: transport, header: p.Header,
				}
				if out {
					p.From, p.To = p.To, p.From
					sp.iif, sp.oif = "way0", "eth0"
				}
				want := state.Judge(p)
				require.Equal(
					t, want.Allowed(), sp.run(t, ready.after, ruleset.Forward).allowed,
					"seed %d packet %+v\nverdict %+v\n%s\n%s", seed, p, want, state, table,
				)
			}
		}
		for _, pair := range [][]netip.Addr{
			ips("10.0.0.1", "10.0.0.2"), ips("10.1.0.1", "10.0.0.1"), ips("fd00::1", "fd01::1"),
			ips("fd01::1", "fd00::2"),
		} {
			for _, proto := range []policy.Protocol{1, 6, 17, 132, 58, 253} {
				p := dptest.Packet{Src: pair[0], Dst: pair[1], Protocol: proto}
				if !proto.HasPorts() {
					p.ICMPType = uint8(w.IntN(3))
					try(p, icmpHeader(p.ICMPType, 0))
					continue
				}
				for _, port := range []uint16{1, 2, 78, 79, 80, 81, 82, 443, 8080, 8081, 65533, 65534, 65535} {
					p.SrcPort, p.DstPort = w.port(), port
					try(p, ports(p.SrcPort, p.DstPort))
				}
			}
		}
	}
}
