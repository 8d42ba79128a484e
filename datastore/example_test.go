// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"fmt"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

// printer is a receiver that prints updates, and ends the run after enough of them.
type printer struct{ stop context.CancelFunc }

func (p printer) Update(_ context.Context, updates []policy.Update) error {
	for _, u := range updates {
		fmt.Println(u.Key, u.Resource != nil)
	}
	return nil
}

func (p printer) InSync(context.Context) error {
	fmt.Println("in sync")
	p.stop()
	return nil
}

func ExampleMemory() {
	ctx, stop := context.WithCancel(context.Background())
	var memory datastore.Memory
	tier := &policy.Tier{Name: "security"}
	if err := memory.Update(ctx, []policy.Update{{Key: tier.Key(), Resource: tier}}); err != nil {
		panic(err)
	}
	fmt.Println(memory.Run(ctx, printer{stop}))
	// Output:
	// Tier/security true
	// in sync
	// context canceled
}
