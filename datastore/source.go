// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"errors"

	"github.com/wayleave/wayleave/policy"
)

// Source sends the desired state and its changes to a Receiver. Each implementation documents
// whether Run may be called more than once at a time.
type Source interface {
	// Run sends the receiver the complete state, calls InSync once, and then sends every change. It
	// blocks until ctx is done, or until the Source or the receiver fails, and returns the error.
	// It does not call the receiver after it has returned.
	Run(ctx context.Context, r Receiver) error
}

// Receiver receives the desired state from a Source. A Source calls it from one goroutine at a
// time, so it need not be safe for concurrent use.
type Receiver interface {
	// Update receives changes to apply together, at most one for each key. Update may block. Until
	// it returns, the source keeps only the latest change of each object. The receiver may keep the
	// slice, but must not change the resources in it. If Update returns an error, the source's Run
	// ends.
	Update(ctx context.Context, updates []policy.Update) error
	// InSync reports that the state received so far is complete. If InSync returns an error, the
	// source's Run ends.
	InSync(ctx context.Context) error
}

// Barrier waits until a receiver has processed all earlier updates. For this, it calls the
// receiver's own method Barrier, and returns its error. A calcgraph.Runner has this method. If a
// receiver does not have it, Barrier does not wait and returns nil. Sources call this function, and
// so do receivers that pass updates on to another receiver.
func Barrier(ctx context.Context, r Receiver) error {
	if b, ok := r.(interface {
		Barrier(ctx context.Context) error
	}); ok {
		return b.Barrier(ctx)
	}
	return nil
}

// Sink is a destination to which desired state is written. Each implementation documents whether it
// is safe for concurrent use.
type Sink interface {
	// Update makes all changes, or none if it returns an error. A nil Resource deletes the object.
	// Do not change the resources afterwards.
	Update(ctx context.Context, updates []policy.Update) error
}

// ErrKeyMismatch is returned for an update whose key is not the key of its resource.
var ErrKeyMismatch = errors.New("key does not belong to the resource")
