// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// stateCases are states that the contract allows, although no resources give them.
func stateCases() []judgeCase {
	return []judgeCase{
		{name: "S44: several sets in one field", state: severalSets, text: `
pass TCP 10.1.0.1 10.0.0.1 port 9
drop TCP 10.1.0.2 10.0.0.1 port 9
drop TCP 10.1.0.3 10.0.0.1 port 9
drop TCP 10.1.0.4 10.0.0.1 port 9
drop TCP 10.1.0.5 10.0.0.1 port 9
pass UDP 10.1.0.9 10.0.0.1 port 80
pass UDP 10.1.0.9 10.0.0.1 port 81
drop UDP 10.1.0.9 10.0.0.1 port 82
`},
		{name: "S20: a tier with only staged policies does not decide", state: stagedTier, text: `
pass TCP 10.1.0.1 10.0.0.1 port 9
drop UDP 10.1.0.1 10.0.0.1 port 9
`},
	}
}

// oneEndpoint returns a state with one endpoint, which has only ingress tiers.
func oneEndpoint(interfaces [3]string, tiers ...dataplane.TierPolicies) dptest.State {
	s := emptyWorld()
	e := endpoint(interfaces[0], "10.0.0.1", "fd00::1", tiers)
	e.Egress, e.Profiles = nil, nil
	s.Endpoints[endpointKey("w1")] = e
	return s
}

func severalSets(interfaces [3]string) dptest.State {
	key := policy.Key{Kind: policy.KindPolicy, Name: "p"}
	s := oneEndpoint(interfaces, dataplane.TierPolicies{
		Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key},
	})
	s.Sets["s:a"] = nets("10.1.0.1/32", "10.1.0.2/32", "10.1.0.4/32", "10.1.0.5/32")
	s.Sets["s:b"] = nets("10.1.0.1/32", "10.1.0.3/32", "10.1.0.4/32", "10.1.0.5/32")
	s.Sets["s:c"], s.Sets["s:d"] = nets("10.1.0.4/32"), nets("10.1.0.5/32")
	for id, port := range map[dataplane.IPSetID]uint16{"p:a": 80, "p:b": 81} {
		s.Sets[id] = dptest.Set{
			Type: dataplane.IPSetPorts, Members: []dataplane.Member{portMember("10.0.0.1", policy.ProtocolUDP, port)},
		}
	}
	s.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "r1", Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: dataplane.Match{
			Sets: []dataplane.IPSetID{"s:a", "s:b"}, NotSets: []dataplane.IPSetID{"s:c", "s:d"},
		}},
		{ID: "r2", Action: policy.Allow, Protocol: policy.ProtocolUDP, Destination: dataplane.Match{
			PortSets: []dataplane.IPSetID{"p:a", "p:b"},
		}},
	}}
	return s
}

func stagedTier(interfaces [3]string) dptest.State {
	trial := policy.Key{Kind: policy.KindStagedPolicy, Name: "p"}
	key := policy.Key{Kind: policy.KindPolicy, Name: "p"}
	s := oneEndpoint(interfaces,
		dataplane.TierPolicies{Tier: "sec", DefaultAction: policy.Deny, Policies: []policy.Key{trial}},
		dataplane.TierPolicies{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}},
	)
	s.Policies[trial] = &dataplane.Policy{Tier: "sec", Staged: true, Ingress: []dataplane.Rule{{
		ID: "t1", Action: policy.Deny,
	}}}
	s.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{
		ID: "r1", Action: policy.Allow, Protocol: policy.ProtocolTCP,
	}}}
	return s
}
