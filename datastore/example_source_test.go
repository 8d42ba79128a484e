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

// Inventory is a source that polls an inventory.
type Inventory struct {
	// Fetch returns all objects, or an error; never a part of them.
	Fetch func(ctx context.Context) ([]policy.Resource, error)
	// Every is the time between two polls.
	Every time.Duration
	// Failed receives the error if the inventory could not be read.
	Failed func(err error)
}

var _ datastore.Source = Inventory{}

// Run sends the receiver the content of the inventory, and then its changes.
func (i Inventory) Run(ctx context.Context, r datastore.Receiver) error {
	sent := map[policy.Key]policy.Resource{}
	for inSync := false; ; {
		resources, err := i.Fetch(ctx)
		if err != nil {
			// Without an answer, the objects that were sent stay.
			i.Failed(err)
		} else {
			if err := i.send(ctx, r, sent, resources); err != nil {
				return err
			}
			if !inSync { // once, after all objects were sent
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

// send sends the differences in one call, which may block.
func (i Inventory) send(
	ctx context.Context, r datastore.Receiver, sent map[policy.Key]policy.Resource, now []policy.Resource,
) error {
	var updates []policy.Update
	exists := map[policy.Key]bool{}
	for _, resource := range now {
		resource = policy.Canonical(resource)
		key := resource.Key()
		exists[key] = true
		if !policy.Equal(sent[key], resource) {
			sent[key] = resource
			updates = append(updates, policy.Update{Key: key, Resource: resource})
		}
	}
	for key := range sent {
		if !exists[key] {
			delete(sent, key)
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
