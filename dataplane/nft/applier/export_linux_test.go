// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"time"

	"github.com/wayleave/wayleave/internal/netlink"
)

// NewOver is New with a socket of the test, which Close closes.
func NewOver(cfg Config, sock netlink.Socket) (*Applier, error) { return newApplier(cfg, sock) }

// SetClock makes an Applier use another clock.
func SetClock(a *Applier, now func() time.Time) { a.reconciler.tx.now = now }

// SetSynchronize makes an Applier wait for grace periods by another function.
func SetSynchronize(a *Applier, synchronize func() error) {
	grace := a.epochs.grace
	grace.synchronize, grace.oneProcessor = synchronize, false
}

// SetNoGracePeriod makes an Applier behave as if the kernel refused membarrier.
func SetNoGracePeriod(a *Applier) { a.stats.NoGracePeriod = true }

// Seen returns a channel. It is closed when no packet from before the last change without a new
// epoch is in the kernel.
func Seen(a *Applier) <-chan struct{} { return a.epochs.seen }

// MixesIntervals reports whether an Applier replaces overlapping elements of interval sets by
// shadows.
func MixesIntervals(a *Applier) bool { return a.epochs.overlap }

// SetMixesIntervals makes an Applier do so.
func SetMixesIntervals(a *Applier) { a.epochs.overlap = true }
