// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Load reads the manifests once. The errors say what in them does not count.
func Load(cfg Config) (verdict.World, []error) {
	world := verdict.World{}
	resources, rejected := cfg.reader().ReadDir(cfg.Manifests)
	world.Set(resources...)
	return world, rejected
}

// Render returns the table that Run would program for a world, without touching the kernel.
//
// Errors: a config that is not valid, and a *dataplane.ApplyError for each object that cannot be
// rendered; the table is that of all others.
func Render(cfg Config, world verdict.World) (*ruleset.Table, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var errs []error
	graph, err := calcgraph.New(calcgraph.Config{
		Node:  cfg.Node,
		Hooks: calcgraph.Hooks{Rejected: func(_ policy.Key, err error) { errs = append(errs, err) }},
	})
	if err != nil {
		return nil, err
	}
	for key, resource := range world {
		graph.Update(policy.Update{Key: key, Resource: resource})
	}
	graph.InSync()
	renderer, err := nft.NewRenderer(cfg.renderer())
	if err != nil {
		return nil, err
	}
	renderer.Update(graph.Flush())
	table, failed := renderer.Table()
	return table, errors.Join(append(errs, failed...)...)
}

// recorder is a dataplane that remembers the table that another one was made to program. It belongs to
// the goroutine of the driver.
type recorder struct {
	dataplane.Dataplane
	renderer *nft.Renderer
	inSync   bool
	table    *ruleset.Table
}

func newRecorder(inner dataplane.Dataplane, cfg nft.RendererConfig) (*recorder, error) {
	renderer, err := nft.NewRenderer(cfg)
	return &recorder{Dataplane: inner, renderer: renderer}, err
}

// Apply applies the batch.
func (r *recorder) Apply(ctx context.Context, b dataplane.Batch) error {
	r.renderer.Update(b)
	r.inSync = r.inSync || b.CarriesInSync()
	return r.note(r.Dataplane.Apply(ctx, b))
}

// Resync makes the kernel right again.
func (r *recorder) Resync(ctx context.Context) error { return r.note(r.Dataplane.Resync(ctx)) }

// note keeps the table, unless the error is such that nothing can be said of it.
func (r *recorder) note(err error) error {
	if _, general := dataplane.ApplyErrors(err); !general && r.inSync {
		r.table, _ = r.renderer.Table()
	}
	return err
}
