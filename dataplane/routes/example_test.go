// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"log"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/policy"
)

// One workload, routed without a graph or a driver. It needs CAP_NET_ADMIN, so it does not run as a
// test.
func ExampleNew() {
	d, err := routes.New(routes.Config{Protocol: 230})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	web := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	batch := dataplane.Batch{Events: []dataplane.Event{
		&dataplane.EndpointUpdate{Key: web, Endpoint: &dataplane.Endpoint{
			Interface: "cali1",
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
			MAC:       "66:3e:ca:a4:db:65",
		}},
		&dataplane.InSync{}, // all that there is: whatever else has protocol 230 goes
	}}
	if err := d.Apply(context.Background(), batch); err != nil {
		log.Print(err) // one error an endpoint; the others are programmed
	}
}
