// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/testhook"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// S173: edits of ports and actions follow each other closely. Classes keep their outcomes. The
// elements of the outcomes lead to chains that other endpoints use too, so most of these edits
// begin no new epoch. The sender's policy denies the flow, or the receiver's, or both. Other
// changes come with some of the edits.
func TestWireOneMomentOfEdits(t *testing.T) {
	for form, classes := range map[string]render.ClassesConfig{
		"lookups": {}, "few numbers": {TestHook: testhook.FewNumbers()},
	} {
		for family, name := range []string{"IPv4", "IPv6"} {
			for _, where := range []string{"policy", "pass", "profile"} {
				t.Run(fmt.Sprintf("%s, %s, %s", form, name, where), func(t *testing.T) {
					n := newFloodNet(t, family)
					n.edits(t, render.Config{Classes: classes}, editState{family: family, where: where})
				})
			}
		}
	}
}

// edits applies random states to the node while the flood runs.
func (n *floodNet) edits(t *testing.T, cfg render.Config, at editState) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(at.family)))
	plane := open(t, n.node, cfg)
	at.sends = true
	require.NoError(t, plane.Apply(t.Context(), dptest.Transition(dptest.NewState(), at.state())))
	changes := wireRounds(20, 3000)
	sent := n.during(t, func() {
		for range changes {
			next := at.next(rng)
			batch := dptest.Transition(at.state(), next.state())
			if at = next; rng.IntN(2) == 0 {
				require.NoError(t, plane.ApplyVisible(t.Context(), batch))
			} else {
				require.NoError(t, plane.Apply(t.Context(), batch))
			}
			if rng.IntN(2) == 0 {
				time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
			}
		}
	})
	forbidden, allowed := n.arrived(t)
	t.Logf("%d changes, %d packets of each kind: %d forbidden ones passed, %d allowed ones were lost",
		changes, sent, forbidden, sent-allowed)
	require.Zero(t, forbidden, "forbidden packets that passed")
	require.Equal(t, sent, allowed, "allowed packets that arrived")
}

// editState is bothWays, where both ends are in the sets of the rules. The fields sends and
// receives are set for the ends whose policy denies the flow. The field more is set if both ends
// are in another set too, and so in another class. The field other is set if way3 has another
// policy.
type editState struct {
	family                       int
	where                        string
	sends, receives, more, other bool
}

// next returns a state that also denies the flow.
func (e editState) next(rng *rand.Rand) editState {
	for {
		next := e
		switch rng.IntN(6) {
		case 0, 1:
			next.sends = !e.sends
		case 2, 3:
			next.receives = !e.receives
		case 4:
			next.sends, next.receives = e.receives, e.sends
		}
		if rng.IntN(5) == 0 {
			next.more = !e.more
		}
		if rng.IntN(5) == 0 {
			next.other = !e.other
		}
		if next != e && (next.sends || next.receives) {
			return next
		}
	}
}

func (e editState) state() dptest.State {
	s := shop()
	ends := []string{floodSource(e.family).String(), floodTarget(e.family).String()}
	s.Sets["s:ends"], s.Sets["s:more"] = withMembers(others(), ends...), others()
	if e.more {
		s.Sets["s:more"] = s.Sets["s:ends"]
	}
	for i := range 3 { // way4 to way6 have no interface, and only keep chains in use
		s.Endpoints[endpointKey(fmt.Sprint("way", 4+i))] = &dataplane.Endpoint{
			Interface: fmt.Sprint("way", 4+i), Profiles: []string{"all"}, Addresses: addrs(fmt.Sprint("10.98.0.", 1+i)),
		}
	}
	other := "denies"
	if e.other {
		other = "leaves"
	}
	for name, has := range map[string]struct {
		name   string
		denies bool
	}{
		"way1": {"sends", e.sends}, "way2": {"receives", e.receives}, "way3": {other, !e.other},
		"way4": {"denies", true}, "way5": {"leaves", false}, "way6": {"sends", e.sends},
	} {
		s = e.with(s, name, has.name, has.denies)
	}
	return s
}

// with gives an endpoint the policy or profile of a name.
func (e editState) with(s dptest.State, endpoint, name string, denies bool) dptest.State {
	tier := func(tier, name string) dataplane.TierPolicies {
		return dataplane.TierPolicies{
			Tier: tier, DefaultAction: policy.Deny, Policies: []policy.Key{nfttest.PolicyKey(name)},
		}
	}
	ingress, egress := e.rules(denies, false), e.rules(denies, true)
	if e.where == "profile" {
		key := policy.Key{Kind: policy.KindProfile, Name: name}
		s.Profiles[key.Name] = &dataplane.Profile{Ingress: ingress, Egress: egress}
		return edit(s, endpoint, func(d *dataplane.Endpoint) { d.Profiles = []string{name} })
	}
	s.Policies[nfttest.PolicyKey(name)] = &dataplane.Policy{Tier: "first", Ingress: ingress, Egress: egress}
	rest := []dataplane.Rule{nfttest.AllowAll("rest")}
	s.Policies[nfttest.PolicyKey("rest")] = &dataplane.Policy{Tier: "default", Ingress: rest, Egress: rest}
	return edit(s, endpoint, func(d *dataplane.Endpoint) {
		list := []dataplane.TierPolicies{tier("first", name), tier("default", "rest")}
		if endpoint != "way2" {
			d.Egress = list
		}
		if endpoint != "way1" {
			d.Ingress = list
		}
	})
}

// rules denies the flow, or passes or allows it.
func (e editState) rules(denies, egress bool) []dataplane.Rule {
	rest := nfttest.AllowAll("rest")
	if e.where == "pass" {
		rest.Action = policy.Pass
	}
	rule := func(id dataplane.IPSetID, port uint16, action policy.Action) dataplane.Rule {
		r := dataplane.Rule{ID: string(id), Action: action, Protocol: policy.ProtocolUDP}
		r.Destination.Ports = nfttest.PortList(policy.PortNumber(port))
		if peer := &r.Source; !egress {
			peer.Sets = []dataplane.IPSetID{id}
		} else {
			r.Destination.Sets = []dataplane.IPSetID{id}
		}
		return r
	}
	first := rule("s:ends", floodForbidden, rest.Action)
	if denies {
		first.Action = policy.Deny
	}
	return []dataplane.Rule{first, rule("s:more", 99, policy.Deny), rest}
}
