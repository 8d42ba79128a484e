// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// decidedRule returns a rule that may have predicates. It also matches ports and protocols, or
// more.
func decidedRule(w nfttest.World, id string) dataplane.Rule {
	r := dataplane.Rule{
		ID: id, Action: nfttest.Pick(w, []policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Pass}),
	}
	for _, m := range []*dataplane.Match{&r.Source, &r.Destination} {
		set := func() dataplane.IPSetID { return nfttest.Pick(w, []dataplane.IPSetID{"s:a", "s:b"}) }
		m.Sets = nfttest.Some(w, 0.15, 1, set)
		m.NotSets = nfttest.Some(w, 0.15, 1, set)
	}
	ports := func() policy.Port {
		a, b := w.Port(), w.Port()
		return policy.PortRange(min(a, b), max(a, b))
	}
	if w.IntN(2) == 0 {
		r.Protocol = nfttest.Pick(w, []policy.Protocol{1, 6, 17, 132, 58, 253})
	}
	if r.Protocol == 0 || r.Protocol.HasPorts() {
		r.Destination.Ports, r.Destination.NotPorts = nfttest.Some(w, 0.6, 3, ports), nfttest.Some(w, 0.2, 2, ports)
	}
	switch w.IntN(9) { // rules that are not plain
	case 0:
		r.Source.Ports, r.Protocol = nfttest.Some(w, 1, 1, ports), 6
	case 1:
		r.Action = policy.Log
	case 2:
		r.NotICMP = w.ICMP()
	case 3:
		r.Destination.PortSets, r.Protocol = []dataplane.IPSetID{"p:a"}, 17
	case 4:
		r.DSCP, r.NotDSCP = nfttest.Some(w, 0.7, 2, w.DSCP), nfttest.Some(w, 0.7, 2, w.DSCP)
	}
	return r
}

func decidedState(w nfttest.World) dptest.State {
	s := dptest.NewState()
	s.InSync = true
	s.Sets["s:a"] = w.Set(dataplane.IPSetNets, func() dataplane.Member { return dataplane.Member{Prefix: w.Prefix()} })
	s.Sets["s:b"] = dptest.Set{Members: []dataplane.Member{
		{Prefix: netip.MustParsePrefix("10.0.0.1/32")}, {Prefix: netip.MustParsePrefix("fd00::1/128")},
	}}
	s.Sets["p:a"] = w.Set(dataplane.IPSetPorts, func() dataplane.Member {
		a := nfttest.Pick(w, nfttest.AddrPool())
		return dataplane.Member{Prefix: netip.PrefixFrom(a, a.BitLen()), Protocol: 17, Port: w.Port()}
	})
	rules := func(id string) (out []dataplane.Rule) {
		for i := range w.IntN(4) {
			out = append(out, decidedRule(w, fmt.Sprint(id, "-", i)))
		}
		return out
	}
	e := &dataplane.Endpoint{Interface: "way0", Addresses: nfttest.AddrPool(), Profiles: nfttest.Pick(w, [][]string{
		nil, {"a"}, {"a", "a"},
	})}
	for i := range 1 + w.IntN(3) {
		tier := dataplane.TierPolicies{
			Tier: fmt.Sprint("t", i), DefaultAction: nfttest.Pick(w, []policy.Action{policy.Deny, policy.Pass}),
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
	s.Endpoints[nfttest.EndpointKey("way0")] = e
	return s
}

// Every packet that the rules distinguish has the verdict of the state. The policies have tiers
// that pass some ports, and plain rules among others.
func TestClassOutcomes(t *testing.T) {
	for seed := range uint64(120) {
		w := nfttest.NewWorld(seed, 21)
		state := decidedState(w)
		table, errs := nfttest.Rendered(
			t, render.Config{LogRate: -1, Reject: w.IntN(3) == 0}, nfttest.Transition(state),
		)
		require.Empty(t, errs)
		ready := newSimTable(t, table)
		try := func(p dptest.Packet, transport []byte) {
			p.Header = w.Header()
			for _, out := range []bool{false, true} {
				p.From, p.To = policy.Key{}, nfttest.EndpointKey("way0")
				sp := simPacket{
					IIF: "eth0", OIF: "way0", Src: p.Src, Dst: p.Dst, Proto: uint8(p.Protocol), CT: ruleset.CtNew,
					Transport: transport, Header: p.Header,
				}
				if out {
					p.From, p.To = p.To, p.From
					sp.IIF, sp.OIF = "way0", "eth0"
				}
				want := state.Judge(p)
				require.Equal(
					t, want.Allowed(), sp.Run(t, ready.after, ruleset.Forward).Allowed,
					"seed %d packet %+v\nverdict %+v\n%s\n%s", seed, p, want, state, table,
				)
			}
		}
		for _, pair := range [][]netip.Addr{
			nfttest.Addresses("10.0.0.1", "10.0.0.2"), nfttest.Addresses("10.1.0.1", "10.0.0.1"),
			nfttest.Addresses("fd00::1", "fd01::1"), nfttest.Addresses("fd01::1", "fd00::2"),
		} {
			for _, proto := range []policy.Protocol{1, 6, 17, 132, 58, 253} {
				p := dptest.Packet{Src: pair[0], Dst: pair[1], Protocol: proto}
				if !proto.HasPorts() {
					p.ICMPType = uint8(w.IntN(3))
					try(p, nfttest.ICMPHeader(p.ICMPType, 0))
					continue
				}
				for _, port := range []uint16{1, 2, 78, 79, 80, 81, 82, 443, 8080, 8081, 65533, 65534, 65535} {
					p.SrcPort, p.DstPort = w.Port(), port
					try(p, nfttest.Ports(p.SrcPort, p.DstPort))
				}
			}
		}
	}
}
