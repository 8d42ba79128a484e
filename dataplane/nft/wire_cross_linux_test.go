// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// manyClasses gives the policies of bothWays rules for overlapping sets of peers. The group of the
// sender or of the receiver is then over a limit. This group has many classes, each with another
// outcome.
func manyClasses(s dptest.State, sends bool) dptest.State {
	s = s.Clone()
	const bits = 4
	for _, side := range []string{"sends", "receives"} {
		p := *s.Policies[nfttest.PolicyKey(side)]
		var more []dataplane.Rule
		for bit := range bits {
			id := dataplane.IPSetID(fmt.Sprintf("s:%s-%d", side, bit))
			s.Sets[id] = members("192.0.2.200", "2001:db8::200")
			if sends == (side == "sends") {
				var some []string
				for i := range 1 << bits {
					if i>>bit&1 == 1 {
						some = append(some, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}).String(),
							fmt.Sprintf("2001:db8::%x", i))
					}
				}
				s.Sets[id] = members(some...)
			}
			r := dataplane.Rule{ID: string(id), Action: policy.Deny, Protocol: policy.ProtocolUDP}
			peer := &r.Source
			if r.Destination.Ports = nfttest.PortList(policy.PortNumber(uint16(1000 + bit))); side == "sends" {
				peer = &r.Destination
			}
			peer.Sets = []dataplane.IPSetID{id}
			more = append(more, r)
		}
		if side == "sends" {
			p.Egress = append(more, p.Egress...)
		} else {
			p.Ingress = append(more, p.Ingress...)
		}
		s.Policies[nfttest.PolicyKey(side)] = &p
	}
	return s
}

// S173: a denial moves between sender and receiver in the batch in which one group becomes chains
// and the other one lookups.
func TestWireOneMomentAcrossLimits(t *testing.T) {
	for limit, classes := range map[string]render.ClassesConfig{
		"per group": {MaxPerGroup: 40}, "total": {MaxTotal: 60},
	} {
		for family, name := range []string{"IPv4", "IPv6"} {
			for _, with := range []bool{true, false} { // which group becomes chains
				t.Run(fmt.Sprintf("%s, %s, %v", limit, name, with), func(t *testing.T) {
					source, target := members(floodSource(family).String()), members(floodTarget(family).String())
					first := manyClasses(bothWays(target, others()), with)
					second := manyClasses(bothWays(others(), source), !with)
					cfg := render.Config{Classes: classes}
					requireCrossing(t, cfg, first)
					requireCrossing(t, cfg, second)
					newFloodNet(t, family).oneMoment(t, cfg, first, second, false, wireRounds(10, 1000), nil)
				})
			}
		}
	}
}

// requireCrossing requires that one of the two groups of a state is chains.
func requireCrossing(t *testing.T, cfg render.Config, s dptest.State) {
	t.Helper()
	r, err := render.New(cfg)
	require.NoError(t, err)
	r.Update(nfttest.Transition(s))
	_, errs := r.Table()
	require.Empty(t, errs)
	require.Equal(t, 1, r.ClassStats().ChainGroups, "%+v", r.ClassStats())
}

// S173 holds with counters, the verdict log and rejected packets.
func TestWireOneMomentCounted(t *testing.T) { nfttest.EachForm(t, testWireOneMomentCounted) }

func testWireOneMomentCounted(t *testing.T, classes render.ClassesConfig) {
	for _, m := range append(moments(), countedMoments()...) {
		for family, name := range []string{"IPv4", "IPv6"} {
			t.Run(m.name+" "+name, func(t *testing.T) {
				first, second := m.states(family)
				cfg := render.Config{
					Classes: classes, Counters: true, VerdictLog: render.VerdictLog{Enabled: true, Group: 3},
				}
				n := newFloodNet(t, family)
				n.oneMoment(t, cfg, first, second, m.readded, wireRounds(4, 200), nil)
			})
		}
	}
}

// countedMoments returns changes that move a rule between policies, so that another outcome leads
// to its chain.
func countedMoments() []moment {
	return []moment{
		{name: "a rule moves between policies", states: func(family int) (dptest.State, dptest.State) {
			return movedRule(family, 0), movedRule(family, 1)
		}},
		{name: "a rule gets another position", states: func(family int) (dptest.State, dptest.State) {
			return movedRule(family, 0), movedRule(family, 2)
		}},
	}
}

// movedRule is the shop, where way2 has two policies. One of them has the rule that denies the
// flow.
func movedRule(family, order int) dptest.State {
	s := shop()
	s.Sets["s:source"] = members(floodSource(family).String(), "192.0.2.7", "2001:db8::7")
	rule := func(id string, action policy.Action, port uint16) dataplane.Rule {
		r := dataplane.Rule{ID: id, Action: action, Protocol: policy.ProtocolUDP, Source: set("s:source")}
		r.Destination.Ports = nfttest.PortList(policy.PortNumber(port))
		return r
	}
	deny, allow := rule("deny", policy.Deny, floodForbidden), rule("allow", policy.Allow, floodAllowed)
	one, two := []dataplane.Rule{deny, rule("one", policy.Deny, 99)}, []dataplane.Rule{allow}
	switch order {
	case 1:
		one, two = []dataplane.Rule{allow}, []dataplane.Rule{rule("two", policy.Deny, 98), deny}
	case 2:
		one = []dataplane.Rule{allow, rule("two", policy.Deny, 98), deny}
		two = []dataplane.Rule{rule("one", policy.Deny, 99)}
	}
	s.Policies[nfttest.PolicyKey("one")] = &dataplane.Policy{Tier: "default", Ingress: one}
	s.Policies[nfttest.PolicyKey("two")] = &dataplane.Policy{
		Tier: "default", Ingress: append(two, nfttest.AllowAll("rest")),
	}
	return edit(s, "way2", func(e *dataplane.Endpoint) {
		e.Ingress = []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny,
			Policies: []policy.Key{nfttest.PolicyKey("one"), nfttest.PolicyKey("two")},
		}}
	})
}

// S173: a batch moves a denial by many prefixes. They contain the flow and addresses of other sets,
// so that all ranges of classes are recomputed.
func TestWireOneMomentOfManyPrefixes(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentOfManyPrefixes)
}

func testWireOneMomentOfManyPrefixes(t *testing.T, classes render.ClassesConfig) {
	for family, name := range []string{"IPv4", "IPv6"} {
		t.Run(name, func(t *testing.T) {
			first, second := nestedPrefixes(family, true), nestedPrefixes(family, false)
			newFloodNet(t, family).oneMoment(
				t, render.Config{Classes: classes}, first, second, false, wireRounds(10, 600), nil,
			)
		})
	}
}

// nestedPrefixes is bothWays. Prefixes of most lengths contain the target, which the sender denies,
// or the source, which the receiver denies. The receiver also denies 500 addresses in these
// prefixes.
func nestedPrefixes(family int, sends bool) dptest.State {
	of := func(a netip.Addr) (list []netip.Prefix) {
		for bits := 4; bits < a.BitLen(); bits += 1 + a.BitLen()/64 {
			list = append(list, netip.PrefixFrom(a, bits).Masked())
		}
		slices.SortFunc(list, dataplane.ComparePrefixes)
		return list
	}
	to, from := netMembers(of(floodTarget(family))...), others()
	if !sends {
		to, from = others(), netMembers(of(floodSource(family))...)
	}
	s := bothWays(to, from)
	var hosts []string
	for i := range 500 {
		a := netip.AddrFrom4([4]byte{10, 97, byte(i / 200), byte(i % 200)})
		if family == 1 {
			a = netip.MustParseAddr(fmt.Sprintf("fd00:97::%x", i))
		}
		hosts = append(hosts, a.String())
	}
	s.Sets["s:hosts"] = members(hosts...)
	p := *s.Policies[nfttest.PolicyKey("receives")]
	p.Ingress = append([]dataplane.Rule{{
		ID: "hosts", Action: policy.Deny, Protocol: policy.ProtocolTCP, Source: set("s:hosts"),
	}}, p.Ingress...)
	s.Policies[nfttest.PolicyKey("receives")] = &p
	return s
}
