// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"context"
	"fmt"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Any goroutine can send updates. Out receives batches. Barrier waits until Out has received the
// effects of all earlier updates.
func ExampleRunner() {
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: graph,
		Out: func(_ context.Context, b dataplane.Batch) error { // or dataplane.Driver.Send
			fmt.Print(b)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- runner.Run(ctx) }()

	web := &policy.WorkloadEndpoint{Namespace: "shop", Name: "web", Node: "n1", Interface: "wl1"}
	_ = runner.Update(ctx, []policy.Update{{Key: web.Key(), Resource: web}})
	_ = runner.InSync(ctx)
	_ = runner.Barrier(ctx)
	cancel()
	<-ended
	// Output:
	// endpoint WorkloadEndpoint/shop/web wl1 [] ingress - egress - profiles []
	// in-sync
}
