// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"slices"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Load reads the manifests once. The errors say what in them does not count, but for objects that are in
// order and of which nothing is made, as a Service.
func Load(cfg Config) (verdict.World, []error) {
	world := verdict.World{}
	resources, rejected := cfg.reader().ReadDir(cfg.Manifests)
	world.Set(resources...)
	return world, slices.DeleteFunc(rejected, func(err error) bool { return errors.Is(err, convert.ErrIgnored) })
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
