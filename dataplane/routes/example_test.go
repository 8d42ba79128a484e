// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"log"
	"net/netip"
	"os"
	"os/signal"

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
		&dataplane.InSync{}, // the state is complete: all other objects with protocol 230 are removed
	}}
	if err := d.Apply(context.Background(), batch); err != nil {
		log.Print(err) // one error for each endpoint; the others are programmed
	}
}

// Routes and a rule of a program without events. The Keeper repairs them until the context is done,
// and removes them at the end. It needs CAP_NET_ADMIN, so it does not run as a test.
func ExampleKeeper() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	keeper, err := routes.NewKeeper(routes.KeeperConfig{Protocol: 230, Tables: []uint32{100}})
	if err != nil {
		log.Fatal(err)
	}
	defer keeper.Close()

	site := netip.MustParsePrefix("10.20.0.0/16")
	keeper.Set(
		routes.Route{Dst: site, Gateway: netip.MustParseAddr("192.0.2.1")},
		routes.Route{Dst: site, Class: routes.ClassDrop, Type: routes.Unreachable}, // after the deletion of the other
		routes.Rule{Family: 4, Priority: 100, To: site, Table: 100},
	)
	plan, err := keeper.Plan(ctx)
	if err != nil {
		log.Fatal(err)
	}
	log.Print(plan) // commands of ip, one in each line
	if err := keeper.Apply(ctx); err != nil {
		log.Print(err) // one error for each object; the others are in the kernel
	}
	_ = keeper.Watch(ctx, func(repaired []routes.Object, _ bool) {
		log.Printf("repaired: %v; %d objects at fault", repaired, keeper.Stats().Failing)
	})
	if err := keeper.Teardown(context.Background()); err != nil {
		log.Print(err)
	}
}
