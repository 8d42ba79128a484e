// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"

	"github.com/wayleave/wayleave/policy"
)

// Dataplane programs events into something that handles packets: a kernel, usually.
//
// A Dataplane need not be safe for concurrent use: the Driver calls it from one goroutine.
type Dataplane interface {
	// Apply takes the batch into the desired state, which cannot fail, then brings the
	// kernel to that state.
	//
	// Before the batch that carries InSync it touches nothing: the batches are only
	// remembered. The first complete state adopts what an earlier run left, repairs the
	// other objects of ours and removes unwanted ones.
	//
	// It is idempotent. After an error the desired state stands, and the next call,
	// with the same batch, a later one or an empty one, tries again what is missing.
	// One object that cannot be programmed does not hold up the others: it is left
	// failing closed and reported.
	//
	// Errors: a join of *ApplyError, one for each object at fault, down or pending; an *ApplyError
	// without an Object, or any other error, means that the state of all objects is unknown.
	Apply(ctx context.Context, b Batch) error

	// Resync compares the kernel with the desired state and repairs the difference. Before
	// InSync it does nothing. Errors as for Apply.
	Resync(ctx context.Context) error

	// Teardown removes everything that this dataplane ever programmed, also what an earlier run
	// left, and forgets the desired state.
	Teardown(ctx context.Context) error
}

// Planner is a Dataplane that can print its changes without making them.
type Planner interface {
	// Plan returns the changes that Apply would make for the batch, as text in the language of the
	// usual tool (nft, ip), one a line, and touches neither the kernel nor the desired state.
	Plan(ctx context.Context, b Batch) (string, error)
}

// Finisher is a Dataplane that can defer deletions. It returns once packets see a change, and deletes
// later the objects that only packets under way still use. The Driver calls ApplyVisible instead of
// Apply, so that such deletions do not delay the next batch.
type Finisher interface {
	// ApplyVisible is Apply, but may leave deletions for Finish.
	ApplyVisible(ctx context.Context, b Batch) error
	// Unfinished returns a channel that is closed once Finish need not wait, or nil if nothing is
	// left for it. A call of another method may change the result.
	Unfinished() <-chan struct{}
	// Finish makes deletions that ApplyVisible left. Others may need a longer wait: Unfinished then
	// returns another channel. Errors: as for Apply; a Resync then makes the remaining deletions.
	Finish(ctx context.Context) error
}

// Limited is a Dataplane that may program an endpoint although policy does not see all of its traffic, for
// example frames between two ports of a bridge.
type Limited interface {
	// Unjudged returns, for each such endpoint, which traffic policy does not see, and why, as text for people.
	// The Driver calls it after each Apply and Resync, and copies the texts to EndpointStatus. It does not
	// change the map.
	Unjudged() map[policy.Key]string
}
