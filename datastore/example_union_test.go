// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"fmt"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

// A policy of an administrator takes precedence over that of the cluster.
func ExampleUnion() {
	ctx, stop := context.WithCancel(context.Background())
	var local, cluster datastore.Memory
	for memory, selector := range map[*datastore.Memory]string{&local: "app == 'web'", &cluster: "all()"} {
		p := &policy.Policy{Name: "lockdown", Selector: selector}
		if err := memory.Update(ctx, []policy.Update{{Key: p.Key(), Resource: p}}); err != nil {
			panic(err)
		}
	}
	union, err := datastore.NewUnion(datastore.UnionConfig{
		Sources: []datastore.NamedSource{{Name: "local", Source: &local}, {Name: "cluster", Source: &cluster}},
	})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- union.Run(ctx, discard{}) }() // usually a calcgraph.Runner is the receiver
	<-union.Synced()
	for key, r := range union.World() {
		fmt.Println(key, r.(*policy.Policy).Selector)
	}
	for key, counts := range union.Overruled("cluster") {
		fmt.Println(key, "of cluster: overruled by", counts)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// Policy/lockdown app == 'web'
	// Policy/lockdown of cluster: overruled by local
	// context canceled
}

// discard is a receiver that discards all updates.
type discard struct{}

func (discard) Update(context.Context, []policy.Update) error { return nil }
func (discard) InSync(context.Context) error                  { return nil }
