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

// Config configures Run.
type Config struct {
	// Node is the node to play the recording for. A recording has all objects of the cluster, so it
	// can be played for another node. Empty means the recorded node.
	Node string
	// Hooks of the graph. Optional.
	Hooks calcgraph.Hooks
	// Out receives each batch that is not empty, in order. If it returns an error, Run ends with
	// it. Required.
	Out func(context.Context, dataplane.Batch) error
}

// Run plays a recording to a new graph with the recorded configuration, in the caller's goroutine.
// It returns nil at the end of the recording. For objects that were rejected when the recording was
// made, Run calls Hooks.Rejected with the recorded error.
//
// Run ends early and returns an error in these cases:
//
//   - cfg or the recorded configuration is invalid.
//   - A line cannot be read: a *LineError.
//   - Config.Out returns an error.
//   - The context is done before a flush.
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
