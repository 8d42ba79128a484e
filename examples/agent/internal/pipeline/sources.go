// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// sources combines all sources into one. It leaves out an endpoint of a source with Yields while
// the endpoint's interface belongs to another endpoint.
//
// A sources is safe for concurrent use, and runs once.
type sources struct {
	*datastore.Union
	list       []datastore.NamedSource
	interfaces *interfaceIndex
	// conflict is called with an error when an endpoint becomes absent because its interface
	// belongs to another one. It is called with nil when the endpoint is no longer absent. The
	// union is locked during the call.
	conflict func(key policy.Key, err error)
}

// newSources returns the union of the sources of cfg. It sets the Exclude of cfg.
func newSources(
	cfg datastore.UnionConfig, index *interfaceIndex, conflict func(policy.Key, error),
) (s *sources, err error) {
	s = &sources{list: cfg.Sources, interfaces: index, conflict: conflict}
	cfg.Exclude = s.exclude
	s.Union, err = datastore.NewUnion(cfg)
	return s, err
}

// exclude records endpoints in the index of interfaces; see datastore.UnionConfig.
func (s *sources) exclude(declared, yielding []policy.Update) map[policy.Key]bool {
	excluded := map[policy.Key]bool{}
	for _, u := range yielding {
		before := s.interfaces.conflict(u.Key)
		s.interfaces.setYielding(u)
		now := s.interfaces.conflict(u.Key)
		if u.Resource != nil && (before == nil) != (now == nil) {
			s.conflict(u.Key, now)
		}
		excluded[u.Key] = now != nil
	}
	owners := verdict.World{}
	for _, u := range declared {
		if _, known := owners[u.Key]; known || s.interfaces.concerns(u) {
			owners[u.Key] = u.Resource
		}
	}
	for _, key := range s.interfaces.setOwners(owners) {
		now := s.interfaces.conflict(key)
		s.conflict(key, now)
		excluded[key] = now != nil
	}
	return excluded
}

// worldWith implements Pipeline.WorldWith.
func (s *sources) worldWith(first verdict.World, without ...string) verdict.World {
	all := make([]verdict.World, len(s.list))
	for i, source := range s.list {
		if !slices.Contains(without, source.Name) {
			all[i] = s.Objects(source.Name)
		}
	}
	declared, yielding := verdict.World{}, []policy.Update(nil)
	for i, objects := range slices.Backward(all) {
		for key, r := range objects {
			switch {
			case key.Kind != policy.KindWorkloadEndpoint && key.Kind != policy.KindHostEndpoint:
			case s.list[i].Yields:
				yielding = append(yielding, policy.Update{Key: key, Resource: r})
			default:
				declared[key] = r
			}
		}
	}
	maps.Copy(declared, first)
	index := newInterfaceIndex(s.interfaces.node, s.interfaces.logger, s.interfaces.read)
	index.setOwners(declared)
	index.setYielding(yielding...)
	world := verdict.World{}
	for i, objects := range slices.Backward(all) {
		for key, r := range objects {
			if !s.list[i].Yields || index.conflict(key) == nil {
				world[key] = r
			}
		}
	}
	maps.Copy(world, first)
	return world
}

// hasLocal reports whether a source has an endpoint with the key on this node. The sources named in
// without are not considered.
func (s *sources) hasLocal(key policy.Key, without ...string) bool {
	for name, r := range s.Versions(key) {
		e, ok := r.(*policy.WorkloadEndpoint)
		if ok && e.Node == s.interfaces.node && !slices.Contains(without, name) {
			return true
		}
	}
	return false
}
