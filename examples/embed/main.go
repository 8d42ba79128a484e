// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

func main() {
	if err := embed(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// embed runs until the first complete batch has been printed.
func embed(ctx context.Context) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	if err != nil {
		return err
	}
	out := func(_ context.Context, b dataplane.Batch) error {
		fmt.Println(b) // usually a dataplane.Driver's Send
		if b.CarriesInSync() {
			done()
		}
		return nil
	}
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{Graph: graph, Out: out})
	if err != nil {
		return err
	}
	allow := policy.Rule{Action: policy.Allow, Source: policy.EntityRule{Selector: "app == 'cart'"}}
	var store datastore.Memory
	for _, r := range []policy.Resource{
		&policy.Policy{Namespace: "shop", Name: "web", Selector: "app == 'web'", Ingress: []policy.Rule{allow}},
		endpoint("web", "n1", "10.0.0.1"),
		endpoint("cart", "n2", "10.0.1.1"),
	} {
		if err := store.Update(ctx, []policy.Update{{Key: r.Key(), Resource: r}}); err != nil {
			return err
		}
	}
	go func() { _ = store.Run(ctx, runner) }() // ends with the context
	if err := runner.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

func endpoint(app, node, addr string) *policy.WorkloadEndpoint {
	addrs := []netip.Addr{netip.MustParseAddr(addr)}
	return &policy.WorkloadEndpoint{
		Namespace: "shop", Name: app, Node: node, Interface: "way-" + app, Addresses: addrs,
		Labels: map[string]string{"app": app},
	}
}
