// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// S173: untracked or pre-DNAT policy denies the members of a set, and normal policy allows only
// these. If the source is not a member, normal policy denies it. If it is a member, the first stage
// denies it. The change is one element that both stages look up.
func TestWireOneMomentOfSharedSet(t *testing.T) { nfttest.EachForm(t, testWireOneMomentOfSharedSet) }

func testWireOneMomentOfSharedSet(t *testing.T, classes render.ClassesConfig) {
	eachStage(t, func(t *testing.T, n *floodNet, m hostMoment, family int) {
		n.delayBetweenStages(t)
		first, second := sharedSet(m, family, true), sharedSet(m, family, false)
		n.oneMoment(t, render.Config{Classes: classes}, first, second, false, wireRounds(8, 2500), nil)
	})
}

// sharedSet is withStage, where the policy of the hostMoment denies members of a set at the
// forbidden port, and normal policy denies all others there.
func sharedSet(m hostMoment, family int, member bool) dptest.State {
	s := withStage(m, family, 9, 9)
	s.Sets["s:from"] = others()
	if member {
		s.Sets["s:from"] = withMembers(others(), m.from(family).String())
	}
	port := func(action policy.Action, from ...dataplane.IPSetID) dataplane.Rule {
		r := dataplane.Rule{ID: "port " + string(action), Action: action, Protocol: policy.ProtocolUDP}
		r.Source.Sets = from
		r.Destination.Ports = nfttest.PortList(policy.PortNumber(floodForbidden))
		return r
	}
	setRules(s, "stage", port(policy.Deny, "s:from"))
	setRules(s, "normal", port(policy.Allow, "s:from"), port(policy.Deny), nfttest.AllowAll("rest"))
	delete(s.Sets, "s:other")
	return s
}
