// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// S173: like TestWireOneMomentOfSharedSet, in two other cases. In the first case, the source gets a
// class that no address had before. So the change also adds this class to the maps of the first
// stage. In the second case, the source is removed from a set of addresses that normal policy
// denies. The same change adds a prefix around the source to a set that the first stage denies.
func TestWireOneMomentOfClassesInStages(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentOfClassesInStages)
}

func testWireOneMomentOfClassesInStages(t *testing.T, classes render.ClassesConfig) {
	for name, state := range map[string]func(hostMoment, int, bool) dptest.State{
		"new class": newClass, "becomes part of a prefix": deniedByPrefix,
	} {
		t.Run(name, func(t *testing.T) {
			eachStage(t, func(t *testing.T, n *floodNet, m hostMoment, family int) {
				n.delayBetweenStages(t)
				first, second := state(m, family, true), state(m, family, false)
				n.oneMoment(t, render.Config{Classes: classes}, first, second, false, wireRounds(8, 1250), nil)
			})
		})
	}
}

// newClass is sharedSet, where the source is in another set too, and no other address is in exactly
// these two sets. Outcomes and their port lists do not change, because they would need another
// transaction.
func newClass(m hostMoment, family int, member bool) dptest.State {
	s := sharedSet(m, family, member)
	s.Sets["s:own"] = members(m.from(family).String(), "192.0.2.9", "2001:db8::9")
	s.Sets["s:third"] = members("192.0.2.9", "2001:db8::9")
	allow := func(port uint16, from ...dataplane.IPSetID) dataplane.Rule {
		r := dataplane.Rule{ID: fmt.Sprint(port, from), Action: policy.Allow, Protocol: policy.ProtocolUDP}
		r.Source.Sets, r.Destination.Ports = from, nfttest.PortList(policy.PortNumber(port))
		return r
	}
	rules := []dataplane.Rule{
		allow(floodAllowed), allow(floodForbidden, "s:from"), allow(floodForbidden, "s:third"), allow(99, "s:own"),
	}
	s.Policies[nfttest.PolicyKey("normal")] = &dataplane.Policy{Tier: "default", Ingress: rules, Egress: rules}
	return s
}

// deniedByPrefix is withStage, where the policy of the hostMoment denies the forbidden port to a
// prefix, or normal policy denies it to the source.
func deniedByPrefix(m hostMoment, family int, prefix bool) dptest.State {
	s := withStage(m, family, floodForbidden, floodForbidden)
	delete(s.Sets, "s:other")
	from := m.from(family)
	s.Sets["s:from"], s.Sets["s:net"] = others(), netMembers(otherNets(20)...)
	if prefix {
		s.Sets["s:net"] = netMembers(append(otherNets(20), netip.PrefixFrom(from, from.BitLen()-4))...)
	} else {
		s.Sets["s:from"] = withMembers(others(), from.String())
	}
	for name, id := range map[string]dataplane.IPSetID{"stage": "s:net", "normal": "s:from"} {
		key := nfttest.PolicyKey(name)
		p := *s.Policies[key]
		deny := p.Ingress[0]
		deny.Source = set(id)
		if p.Ingress = []dataplane.Rule{deny}; name == "normal" {
			p.Ingress = append(p.Ingress, nfttest.AllowAll("rest"))
		}
		if p.Egress = p.Ingress; p.PreDNAT {
			p.Egress = nil
		}
		s.Policies[key] = &p
	}
	return s
}
