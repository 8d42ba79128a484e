// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// The delta of one more peer, computed without a kernel.
func Example() {
	r, err := render.New(render.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	allow := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "allow-frontend"}
	const frontend = dataplane.IPSetID("frontend")
	peer := func(address string) []dataplane.Member {
		return []dataplane.Member{{Prefix: netip.MustParsePrefix(address)}}
	}
	r.Update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.IPSetUpdate{ID: frontend, Members: peer("10.0.0.2/32")},
		&dataplane.PolicyUpdate{Key: allow, Policy: &dataplane.Policy{Ingress: []dataplane.Rule{{
			ID: "r1", Action: policy.Allow, Protocol: policy.ProtocolTCP,
			Source:      dataplane.Match{Sets: []dataplane.IPSetID{frontend}},
			Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(80)}},
		}}}},
		&dataplane.EndpointUpdate{Key: web, Endpoint: &dataplane.Endpoint{
			Interface: "way0", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
			Ingress: []dataplane.TierPolicies{{
				Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{allow},
			}},
		}},
		&dataplane.InSync{},
	}})
	before, _ := r.Table()
	r.Update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.IPSetDelta{ID: frontend, Added: peer("10.0.0.3/32")},
	}})
	after, _ := r.Table()
	ops, err := ruleset.Diff(before, after)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(ruleset.Script(ops))
	// Output:
	// add element inet wayleave class4 { 10.0.0.3 : 398:41e }
}
