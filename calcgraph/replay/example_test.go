// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/calcgraph/replay"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// A runner records the input of its graph. Replay returns the same batches.
func Example() {
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var recording bytes.Buffer // usually a file
	ctx, cancel := context.WithCancel(context.Background())
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph:  graph,
		Record: &recording,
		Out: func(context.Context, dataplane.Batch) error {
			cancel()
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := &policy.WorkloadEndpoint{Namespace: "shop", Name: "web", Node: "n1", Interface: "wl1"}
	if err := errors.Join(
		runner.Update(ctx, []policy.Update{{Key: web.Key(), Resource: web}}),
		runner.InSync(ctx),
	); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(runner.Run(ctx))
	fmt.Print(recording.String())

	err = replay.Run(context.Background(), &recording,
		replay.Config{Out: func(_ context.Context, b dataplane.Batch) error {
			fmt.Println(b)
			return nil
		}})
	fmt.Println(err)
	// Output:
	// context canceled
	// {"recording":"wayleave/calcgraph","version":1,"node":"n1"}
	// {"set":{"kind":"WorkloadEndpoint","namespace":"shop","name":"web","node":"n1","interface":"wl1"}}
	// {"inSync":true}
	// {"flush":true}
	// endpoint WorkloadEndpoint/shop/web wl1 [] ingress - egress - profiles []
	// in-sync
	// <nil>
}
