// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/examples/agent/internal/flows"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Load reads the directories once. It returns an error for each part of a file that is not used
// because it is invalid or unknown. It returns no error for valid objects that have no effect on
// policy, such as a Service.
func Load(cfg Config) (verdict.World, []error) {
	cfg = cfg.withDefaults()
	world := verdict.World{}
	var rejected []error
	if cfg.Resources != "" {
		resources, errs := cfg.readResources()
		world.Set(resources...)
		rejected = append(rejected, errs...)
	}
	if cfg.Manifests != "" {
		resources, errs := cfg.reader().ReadDir(cfg.Manifests)
		world.Set(resources...)
		rejected = append(rejected, errs...)
	}
	return world, slices.DeleteFunc(rejected, func(err error) bool {
		return errors.Is(err, convert.ErrIgnored) || ofSettings(err)
	})
}

// Origins returns the place of each rule and each policy in the manifests. It reads the directory
// at each call. When a rule is changed, its ID changes.
func Origins(cfg Config) flows.Origins {
	origins := flows.Origins{
		Rules: map[string]manifest.RuleOrigin{}, Policies: map[policy.Key]manifest.PolicyOrigin{},
	}
	if cfg.Manifests == "" {
		return origins
	}
	reader := cfg.reader()
	reader.Rule = func(id string, at manifest.RuleOrigin) {
		if _, twice := origins.Rules[id]; !twice { // of two objects with one name, the first is used
			origins.Rules[id] = at
		}
	}
	reader.Policy = func(key policy.Key, at manifest.PolicyOrigin) {
		if _, twice := origins.Policies[key]; !twice {
			origins.Policies[key] = at
		}
	}
	_, _ = reader.ReadDir(cfg.Manifests) // the errors were reported when the objects were read
	return origins
}

// ofSettings reports whether the error is about settings of the agent, which the reader of
// manifests does not know.
func ofSettings(err error) bool {
	var e *manifest.Error
	return errors.As(err, &e) && e.Object.Kind == settings.Kind
}

// readResources reads the directory of resources.
func (c Config) readResources() (resources []policy.Resource, errs []error) {
	files, err := filepath.Glob(filepath.Join(c.Resources, "[^.]*.json"))
	errs = append(errs, err)
	for _, file := range files { // in order
		data, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r, err := policy.Decode(data)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
			continue
		}
		resources = append(resources, r)
		if p, ok := r.(*policy.Policy); ok && p.Doubts() != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, p.Doubts()))
		}
	}
	return resources, slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// Render returns the table that Run would program for the objects in world. It does not use the
// kernel.
//
// Errors: the Config is invalid. There is also an error for each object that is rejected or cannot
// be rendered. Then Render returns both the errors and the table of all other objects.
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
	renderer, err := render.New(cfg.renderer())
	if err != nil {
		return nil, err
	}
	renderer.Update(graph.Flush())
	table, failed := renderer.Table()
	return table, errors.Join(append(errs, failed...)...)
}
