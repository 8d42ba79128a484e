// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"

	"github.com/wayleave/wayleave/dataplane"
)

// writer is a dataplane that gated wraps.
type writer interface {
	dataplane.Dataplane
	dataplane.Planner
	dataplane.Watcher
}

// gated is a dataplane that calls Config.BeforeWrite before each call that may write. If
// BeforeWrite fails, the batch is discarded, because no later call can write either. (The dataplane
// of the nftables table calls BeforeWrite itself.)
type gated struct {
	writer
	before func() error
	inSync bool
}

// Apply programs the batch if BeforeWrite allows it.
func (g *gated) Apply(ctx context.Context, b dataplane.Batch) error {
	return g.apply(ctx, b, g.writer.Apply)
}

func (g *gated) apply(
	ctx context.Context, b dataplane.Batch, write func(context.Context, dataplane.Batch) error,
) error {
	g.inSync = g.inSync || b.CarriesInSync()
	if err := g.checkWrite(); err != nil {
		return err
	}
	return write(ctx, b)
}

// Resync repairs the kernel if BeforeWrite allows it.
func (g *gated) Resync(ctx context.Context) error {
	if err := g.checkWrite(); err != nil {
		return err
	}
	return g.writer.Resync(ctx)
}

// checkWrite returns the error of BeforeWrite. Until the state is in sync, nothing is written, and
// checkWrite does not call BeforeWrite.
func (g *gated) checkWrite() error {
	if !g.inSync {
		return nil
	}
	return g.before()
}

// gatedFinisher is gated for a writer that is also a dataplane.Finisher.
type gatedFinisher struct {
	gated
	finisher dataplane.Finisher
}

func newGatedFinisher(w interface {
	writer
	dataplane.Finisher
}, before func() error,
) *gatedFinisher {
	return &gatedFinisher{gated: gated{writer: w, before: before}, finisher: w}
}

// ApplyVisible programs the batch if BeforeWrite allows it.
func (g *gatedFinisher) ApplyVisible(ctx context.Context, b dataplane.Batch) error {
	return g.apply(ctx, b, g.finisher.ApplyVisible)
}

// Unfinished implements dataplane.Finisher.
func (g *gatedFinisher) Unfinished() <-chan struct{} { return g.finisher.Unfinished() }

// Finish makes deletions if BeforeWrite allows it.
func (g *gatedFinisher) Finish(ctx context.Context) error {
	if err := g.checkWrite(); err != nil {
		return err
	}
	return g.finisher.Finish(ctx)
}
