// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// S173: as TestWireOneMomentOfSharedSet, but the source gets into a class that no address had before. So
// the change also adds this class to the maps of the first stage.
func TestWireOneMomentOfNewClassInStages(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentOfNewClassInStages)
}

func testWireOneMomentOfNewClassInStages(t *testing.T, classes render.ClassesConfig) {
	for _, m := range hostMoments()[5:] {
		for family, name := range []string{"IPv4", "IPv6"} {
			t.Run(m.name+" "+name, func(t *testing.T) {
				n := newFloodRouter(t)
				n.uplink(t)
				own(t, n.node, nodeAddr(family))
				n.flood(t, m.from(family), m.to(family), family)
				nstest.NFT(t, n.node, delayBetweenStages(), "-f", "-")
				first, second := newClass(m, family, true), newClass(m, family, false)
				n.oneMoment(t, render.Config{Classes: classes}, first, second, false, wireRounds(20, 2500), nil)
			})
		}
	}
}

// newClass is sharedSet, where the source is in another set as well, and no other address is in just these
// two sets. Outcomes and their port lists stay, because they would take another transaction.
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
