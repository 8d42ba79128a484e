// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

// The source of docs/datastore.md, "Writing another source".

// Inventory is a source that asks an inventory for everything there is, again and again.
type Inventory struct {
	// Fetch returns everything there is, or an error; never a part of it.
	Fetch func(ctx context.Context) ([]policy.Resource, error)
	// Every is how often to ask.
	Every time.Duration
	// Failed is told why the inventory could not be read.
	Failed func(err error)
}

var _ datastore.Source = Inventory{}

// Run tells the receiver what the inventory holds, and then what changes in it.
func (i Inventory) Run(ctx context.Context, r datastore.Receiver) error {
	told := map[policy.Key]policy.Resource{}
	for inSync := false; ; {
		resources, err := i.Fetch(ctx)
		if err != nil {
			// An inventory that does not answer says nothing: what was told stays.
			i.Failed(err)
		} else {
			if err := i.tell(ctx, r, told, resources); err != nil {
				return err
			}
			if !inSync { // once, and not before everything was told
				if err := r.InSync(ctx); err != nil {
					return err
				}
				inSync = true
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(i.Every):
		}
	}
}

// tell gives the receiver the differences, in one piece. It may block: then nothing is fetched
// meanwhile.
func (i Inventory) tell(
	ctx context.Context, r datastore.Receiver, told map[policy.Key]policy.Resource, now []policy.Resource,
) error {
	var updates []policy.Update
	there := map[policy.Key]bool{}
	for _, resource := range now {
		resource = policy.Canonical(resource)
		key := resource.Key()
		there[key] = true
		if !policy.Equal(told[key], resource) {
			told[key] = resource
			updates = append(updates, policy.Update{Key: key, Resource: resource})
		}
	}
	for key := range told {
		if !there[key] {
			delete(told, key)
			updates = append(updates, policy.Update{Key: key})
		}
	}
	if len(updates) == 0 {
		return nil
	}
	return r.Update(ctx, updates)
}

func ExampleSource() {
	ctx, stop := context.WithCancel(context.Background())
	inventory := Inventory{
		Fetch: func(context.Context) ([]policy.Resource, error) {
			return []policy.Resource{&policy.Tier{Name: "security"}}, nil
		},
		Every:  time.Second,
		Failed: func(err error) { fmt.Println(err) },
	}
	fmt.Println(inventory.Run(ctx, printer{stop}))
	// Output:
	// Tier/security true
	// in sync
	// context canceled
}
