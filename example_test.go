// SPDX-License-Identifier: Apache-2.0

package wayleave_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A source, the graph and a dataplane: here the one that lives in memory.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	store, mirror := &datastore.Memory{}, dptest.NewMirror()
	web := &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "web", Node: "node-1", Interface: "way0", Labels: map[string]string{"app": "web"},
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
	}
	allow := &policy.Policy{
		Namespace: "shop", Name: "allow-http", Selector: `app == "web"`,
		Ingress: []policy.Rule{{
			Action: policy.Allow, Protocol: policy.ProtocolTCP,
			Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80)}},
		}},
	}
	err := store.Update(ctx, []policy.Update{{Key: web.Key(), Resource: web}, {Key: allow.Key(), Resource: allow}})
	must(err)

	graph, err := calcgraph.New(calcgraph.Config{Node: "node-1"})
	must(err)
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: graph,
		Out: func(ctx context.Context, batch dataplane.Batch) error {
			if batch.CarriesInSync() {
				defer cancel() // complete: enough for an example
			}
			return mirror.Apply(ctx, batch)
		},
	})
	must(err)
	go store.Run(ctx, runner)
	_ = runner.Run(ctx)
	fmt.Print(mirror.State())
	// Output:
	// policy Policy/shop/allow-http tier default: ingress allow tcp dst ports 80
	// endpoint WorkloadEndpoint/shop/web way0 [10.0.0.1] ingress default:deny[Policy/shop/allow-http] egress - profiles []
	// route 10.0.0.1/32 local-workload node node-1
	// in-sync
}

// The same with the kernel's nftables and routes. It needs CAP_NET_ADMIN, so it does not run as a
// test.
func Example_kernel() {
	ctx, store := context.Background(), &datastore.Memory{}
	graph, err := calcgraph.New(calcgraph.Config{Node: "node-1"})
	must(err)
	filter, err := nft.New(nft.Config{})
	must(err)
	table, err := routes.New(routes.Config{})
	must(err)
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{filter, table}})
	must(err)
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{Graph: graph, Out: driver.Send})
	must(err)
	go driver.Run(ctx) // also watches for new interfaces and for changes by other processes
	go store.Run(ctx, runner)
	must(runner.Run(ctx))
}
