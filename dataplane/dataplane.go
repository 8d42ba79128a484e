// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"

	"github.com/wayleave/wayleave/policy"
)

// Dataplane programs events into something that handles packets, usually a kernel.
//
// A Dataplane need not be safe for concurrent use: the Driver calls it from one goroutine.
type Dataplane interface {
	// Apply adds the batch to the desired state, and then brings the kernel to the desired state.
	// Only the second step can fail.
	//
	// Before the batch with InSync, the desired state is incomplete. Until then, Apply only
	// remembers the events and does not touch the kernel. With InSync, it reads the objects that an
	// earlier run of this dataplane left in the kernel. It keeps the objects that are as desired,
	// repairs the objects that differ, and removes the objects that are not desired.
	//
	// Apply is idempotent. After an error, the desired state stays as the batches made it. The next
	// call programs the missing objects, also if its batch is empty or the same again. If one
	// object cannot be programmed, Apply drops its traffic, reports it, and programs the others.
	//
	// Errors: a join of *ApplyError, one for each object at fault, down or pending. An *ApplyError
	// without an Object, or any other error, means that the state of all objects is unknown.
	Apply(ctx context.Context, b Batch) error

	// Resync compares the kernel with the desired state and repairs the differences. Before InSync
	// it does nothing. It returns the same errors as Apply.
	Resync(ctx context.Context) error

	// Teardown removes everything that this dataplane has programmed, also in earlier runs, and
	// clears the desired state.
	Teardown(ctx context.Context) error
}

// Planner is a Dataplane that can print the changes of a batch without making them.
type Planner interface {
	// Plan returns the changes that Apply would make for the batch. They are text in the language
	// of the usual tool (nft, ip), one change a line. Plan changes neither the kernel nor the
	// desired state.
	Plan(ctx context.Context, b Batch) (string, error)
}

// Finisher is a Dataplane that can defer deletions. Packets that are already in the kernel may
// still use an object when new packets do not use it any more. A Finisher returns once new packets
// see a change, and deletes such objects later. The Driver calls ApplyVisible instead of Apply, and
// Finish while it is idle, so these deletions do not delay the next batch.
type Finisher interface {
	// ApplyVisible does what Apply does, but may leave deletions for Finish.
	ApplyVisible(ctx context.Context, b Batch) error
	// Unfinished returns nil if no deletion is left for Finish. Otherwise it returns a channel that
	// is closed once Finish need not wait. A call of another method may change the result.
	Unfinished() <-chan struct{}
	// Finish makes the deletions that ApplyVisible left and that need no further wait. If other
	// deletions need a wait, Unfinished then returns another channel. Errors: as for Apply. After
	// an error, a Resync makes the remaining deletions.
	Finish(ctx context.Context) error
}

// Limited is a Dataplane that may program an endpoint although policy does not see all of its traffic, for
// example frames between two ports of a bridge.
type Limited interface {
	// Unjudged returns text for people about each such endpoint: which traffic policy does not see,
	// and why. The Driver calls Unjudged after each Apply and Resync, and copies the texts to
	// EndpointStatus. It does not change the map.
	Unjudged() map[policy.Key]string
}
