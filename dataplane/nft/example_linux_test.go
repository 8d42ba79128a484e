// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/policy"
)

// A program that uses only this package to program policy, in a temporary network namespace.
// Usually a dataplane.Driver calls the Dataplane with the batches of a graph.
func Example() {
	ns, err := netns.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ns.Close()
	d, err := nft.New(nft.Config{NetNS: ns.FD()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()

	web := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	isolate := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "isolate"}
	endpoint := &dataplane.Endpoint{
		Interface: "way0", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Ingress: []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{isolate},
		}},
	}
	first := dataplane.Batch{Events: []dataplane.Event{
		&dataplane.PolicyUpdate{Key: isolate, Policy: &dataplane.Policy{}}, // allows nothing
		&dataplane.EndpointUpdate{Key: web, Endpoint: endpoint},
		&dataplane.InSync{}, // nothing is programmed before the desired state is complete
	}}
	ctx := context.Background()
	fmt.Println("apply:", d.Apply(ctx, first))
	fmt.Println("transactions:", d.Stats().Transactions)

	more := *endpoint
	more.Addresses = append(more.Addresses, netip.MustParseAddr("2001:db8::1"))
	change := dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointUpdate{Key: web, Endpoint: &more}}}
	plan, err := d.Plan(ctx, change)
	fmt.Print(plan)
	fmt.Println("plan:", err)
	// Output:
	// apply: <nil>
	// transactions: 1
	// add element inet wayleave source6 { "way0" . 2001:db8::1 }
	// flush chain inet wayleave from/shop/web
	// add rule inet wayleave from/shop/web ip saddr != 10.0.0.1 drop comment "false source"
	// add rule inet wayleave from/shop/web ip6 saddr != 2001:db8::1 drop comment "false source"
	// add rule inet wayleave from/shop/web ct state != new ct state vmap @ct-state
	// add rule inet wayleave from/shop/web meta priority bfff:fffc return
	// add rule inet wayleave from/shop/web jump workload-sends
	// add rule inet wayleave from/shop/web goto group-egress/podi5ax4use5dxhizkxkb4g7qu
	// plan: <nil>
}
