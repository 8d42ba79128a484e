// SPDX-License-Identifier: Apache-2.0

package dptest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// A Mirror checks the batches of a graph, and evaluates packets by the policy in them.
func ExampleMirror() {
	web := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	allow := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "allow-http"}
	update := &dataplane.EndpointUpdate{Key: web, Endpoint: &dataplane.Endpoint{
		Interface: "way0",
		Ingress: []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{allow},
		}},
	}}

	mirror := dptest.NewMirror()
	fmt.Println(mirror.Play(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.PolicyUpdate{Key: allow, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{
			Action: policy.Allow, Protocol: policy.ProtocolTCP,
			Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(80)}},
		}}}},
		update,
		&dataplane.InSync{},
	}}))
	for _, port := range []uint16{80, 22} {
		verdict := mirror.Judge(dptest.Packet{
			Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("10.0.0.1"),
			Protocol: policy.ProtocolTCP, DstPort: port, To: web,
		})
		fmt.Println("port", port, "allowed:", verdict.Allowed())
	}

	// An endpoint that refers to a missing policy breaks a promise of Batch.
	err := dptest.NewMirror().Play(dataplane.Batch{Events: []dataplane.Event{update, &dataplane.InSync{}}})
	var broken *dptest.PlayError
	if errors.As(err, &broken) {
		fmt.Println("event", broken.Index, broken.Msg)
	}
	// Output:
	// <nil>
	// port 80 allowed: true
	// port 22 allowed: false
	// event 0 refers to the absent policy Policy/shop/allow-http
}

// A test injects a fault into the first call of a dataplane, and checks that a later call recovers.
func ExampleFaulty() {
	mirror := dptest.NewMirror()
	faulty := dptest.NewFaulty(mirror, func(c dptest.Call) error {
		if c.Op == "apply" && c.N == 1 {
			return errors.New("kernel is out of memory")
		}
		return nil
	})
	ctx := context.Background()
	fmt.Println(faulty.Apply(ctx, dataplane.Batch{Events: []dataplane.Event{&dataplane.InSync{}}}))
	fmt.Println("in sync:", mirror.State().InSync)
	fmt.Println(faulty.Apply(ctx, dataplane.Batch{}))
	fmt.Println("in sync:", mirror.State().InSync)
	// Output:
	// kernel is out of memory
	// in sync: false
	// <nil>
	// in sync: true
}

// Transition returns the events between two states, for tests of a dataplane without a graph.
func ExampleTransition() {
	from, to := dptest.NewState(), dptest.NewState()
	from.InSync, to.InSync = true, true
	from.Profiles["old"] = &dataplane.Profile{}
	to.Profiles["new"] = &dataplane.Profile{Egress: []dataplane.Rule{{Action: policy.Allow}}}
	for _, event := range dptest.Transition(from, to).Events {
		fmt.Println(event)
	}
	// Output:
	// profile new: egress allow
	// remove profile old
}
