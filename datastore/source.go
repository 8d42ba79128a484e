// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"errors"

	"github.com/wayleave/wayleave/policy"
)

// Source is something that knows the desired state and how it changes.
//
// Whether a Source may run more than once at a time is for it to say.
type Source interface {
	// Run tells the receiver the whole state there is, then InSync, once, then every change.
	// It blocks until ctx is done, and then returns the error of ctx, or until
	// it or the receiver fails. The receiver is not called any more once Run has returned.
	Run(ctx context.Context, r Receiver) error
}

// Receiver is told the desired state by a Source.
//
// A Source calls it from one goroutine at a time; it need not be safe for concurrent use.
type Receiver interface {
	// Update takes changes that belong together: at most one a key, to be applied in one go.
	// It may block until there is room for more; the source coalesces meanwhile. The receiver
	// may keep the slice, and must not change the resources in it. An error ends the run.
	Update(ctx context.Context, updates []policy.Update) error
	// InSync says that the state told so far is complete. An error ends the run.
	InSync(ctx context.Context) error
}

// Sink is something that desired state can be written to.
//
// Whether a Sink is safe for concurrent use is for it to say.
type Sink interface {
	// Update makes the changes, all or none where it returns an error. A nil Resource deletes. The
	// resources must not be changed by anybody afterwards.
	Update(ctx context.Context, updates []policy.Update) error
}

// ErrKeyMismatch is returned for an update whose key is not that of its resource.
var ErrKeyMismatch = errors.New("key does not belong to the resource")
