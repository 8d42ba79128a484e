// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"

	"github.com/wayleave/wayleave/policy"
)

// Dataplane programs the policies, endpoints and routes of a node, which it gets as events, into
// something that handles packets, usually the kernel.
//
// A Dataplane need not be safe for concurrent use: the Driver calls it from one goroutine.
type Dataplane interface {
	// Apply adds the batch to the desired state, and then brings the kernel to the desired state.
	// Only the second step can fail.
	//
	// Before the batch with InSync, the desired state is incomplete. Until then, Apply only
	// remembers the events and does not touch the kernel. When the batch has InSync, Apply reads
	// the objects that an earlier run of this dataplane left in the kernel. It keeps the objects
	// that match the desired state, repairs objects that differ from it, and removes objects that
	// are not in it.
	//
	// Apply is idempotent. After an error, the desired state still includes the batch. The next
	// call programs the missing objects, even if its batch is empty or is the same batch again. If
	// one object cannot be programmed, Apply drops its traffic, reports the object, and programs
	// the others.
	//
	// Errors: a join of *ApplyError, one for each object that is at fault (cannot be programmed),
	// down or pending. An *ApplyError without an Object, or any other error, means that the state
	// of all objects is unknown.
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
	// Plan returns the changes that Apply would make for the batch. The result is text in the
	// language of the usual tool (nft, ip), with one change on each line. Plan changes neither the
	// kernel nor the desired state.
	Plan(ctx context.Context, b Batch) (string, error)
}

// Finisher is a Dataplane that can defer deletions. After a change, packets that are already in the
// kernel may still use objects that new packets do not use any more. Such objects can only be
// deleted after a wait. For a Finisher, the Driver calls ApplyVisible instead of Apply.
// ApplyVisible returns as soon as new packets see the change. While the Driver is idle, it calls
// Finish, which deletes these objects. So deletions do not delay the next batch.
type Finisher interface {
	// ApplyVisible does what Apply does, but may leave deletions for Finish.
	ApplyVisible(ctx context.Context, b Batch) error
	// Unfinished returns nil if no deletion is left for Finish. Otherwise it returns a channel that
	// is closed once Finish can be called without a wait. A call of another method may change the
	// result.
	Unfinished() <-chan struct{}
	// Finish makes the deletions that ApplyVisible has left, except deletions that need a further
	// wait. If such deletions remain, the next call of Unfinished returns another channel. Errors:
	// as for Apply. After an error, a Resync makes the remaining deletions.
	Finish(ctx context.Context) error
}

// Limited is a Dataplane that may program an endpoint although policy does not see all of the
// endpoint's traffic. Frames between two ports of a bridge are an example of such traffic.
type Limited interface {
	// Unjudged returns a text for each endpoint with traffic that policy does not see. The text is
	// for people: it describes this traffic, and why policy does not see it. The Driver calls
	// Unjudged after each Apply and Resync, and copies the texts to EndpointStatus. The Driver does
	// not change the map.
	Unjudged() map[policy.Key]string
}
