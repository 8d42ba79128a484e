// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
)

// Config is what Run needs to know.
type Config struct {
	// Node to play the recording for, instead of the recorded one: since a recording has the whole
	// world, it also shows what another node would have done. Empty means the recorded one.
	Node string
	// Hooks of the graph. Optional.
	Hooks calcgraph.Hooks
	// Out takes each batch that is not empty, in order. If it fails, Run ends with its error.
	// Required.
	Out func(context.Context, dataplane.Batch) error
}

// Run plays a recording to a new graph of the recorded configuration, in the caller's goroutine,
// and returns nil at its end. Hooks.Rejected is called for the rejected objects too, with an error
// of the recorded text.
//
// Errors: a *LineError if the recording cannot be read further, the context's error, which is
// looked at before each flush, Out's error, or an invalid configuration.
func Run(ctx context.Context, r io.Reader, cfg Config) error {
	if cfg.Out == nil {
		return errors.New("replay: Config.Out: required")
	}
	rec, err := Read(r)
	if err != nil {
		return err
	}
	graphConfig := rec.Config()
	graphConfig.Node = cmp.Or(cfg.Node, graphConfig.Node)
	graphConfig.Hooks = cfg.Hooks
	graph, err := calcgraph.New(graphConfig)
	if err != nil {
		return err
	}
	for step, err := range rec.Steps() {
		if err != nil {
			return err
		}
		switch step.Kind {
		case StepUpdate:
			if step.Rejected != "" && cfg.Hooks.Rejected != nil {
				cfg.Hooks.Rejected(step.Update.Key, errors.New(step.Rejected))
			}
			graph.Update(step.Update)
		case StepInSync:
			graph.InSync()
		case StepFlush:
			if err := ctx.Err(); err != nil {
				return err
			}
			if batch := graph.Flush(); !batch.Empty() {
				if err := cfg.Out(ctx, batch); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
