// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// backend is the name under which this package reports errors.
const backend = "nft"

// Renderer keeps what the events say and makes the table that enforces it. It is pure: no kernel, no
// clock, the same events give the same table.
//
// A Renderer is not safe for concurrent use.
type Renderer struct {
	cfg       RendererConfig
	sets      map[dataplane.IPSetID]*ipSet
	policies  map[policy.Key]*dataplane.Policy
	profiles  map[string]*dataplane.Profile
	endpoints map[policy.Key]*dataplane.Endpoint
}

// NewRenderer returns a Renderer that has seen no events. Errors: a join of every problem of the configuration.
func NewRenderer(cfg RendererConfig) (*Renderer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Renderer{
		cfg:       cfg,
		sets:      map[dataplane.IPSetID]*ipSet{},
		policies:  map[policy.Key]*dataplane.Policy{},
		profiles:  map[string]*dataplane.Profile{},
		endpoints: map[policy.Key]*dataplane.Endpoint{},
	}, nil
}

// Update takes the batch into the desired state. It cannot fail: what does not make sense comes to light in
// Table. The Renderer keeps the objects of the batch, which must not change any more.
func (r *Renderer) Update(b dataplane.Batch) {
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.IPSetUpdate:
			r.sets[e.ID] = newIPSet(e)
		case *dataplane.IPSetDelta:
			if s := r.sets[e.ID]; s != nil { // without the set, the rules that refer to it fail
				s.update(e)
			}
		case *dataplane.IPSetRemove:
			delete(r.sets, e.ID)
		case *dataplane.PolicyUpdate:
			r.policies[e.Key] = e.Policy
		case *dataplane.PolicyRemove:
			delete(r.policies, e.Key)
		case *dataplane.ProfileUpdate:
			r.profiles[e.Name] = e.Profile
		case *dataplane.ProfileRemove:
			delete(r.profiles, e.Name)
		case *dataplane.EndpointUpdate:
			r.endpoints[e.Key] = e.Endpoint
		case *dataplane.EndpointRemove:
			delete(r.endpoints, e.Key)
		}
	}
}

// Clone returns a Renderer in the same state that goes its own way from here.
func (r *Renderer) Clone() *Renderer {
	c := &Renderer{
		cfg:       r.cfg,
		sets:      make(map[dataplane.IPSetID]*ipSet, len(r.sets)),
		policies:  maps.Clone(r.policies),
		profiles:  maps.Clone(r.profiles),
		endpoints: maps.Clone(r.endpoints),
	}
	for id, s := range r.sets {
		c.sets[id] = s.clone()
	}
	return c
}

// Table returns the table for the current state, valid and normalized, which must not be
// changed: later tables share the parts that stay the same.
//
// Errors: a *dataplane.ApplyError for each object that could not be rendered and for each endpoint that drops
// all its traffic because of that, in the order of policies, profiles, endpoints, each by key.
func (r *Renderer) Table() (*ruleset.Table, []error) {
	run := &run{
		renderer: r,
		chains:   map[string]*ruleset.Chain{},
		lists:    map[listKey]ruleList{},
	}
	run.policies()
	run.profiles()
	run.endpoints()

	t := &ruleset.Table{Family: ruleset.FamilyINet, Name: r.cfg.Table}
	for _, s := range r.sets {
		sets, _ := s.render() // whoever refers to a set that fails has failed already
		t.Sets = append(t.Sets, sets...)
	}
	t.Sets = append(t.Sets, run.dispatch.sets(r.cfg)...)
	t.Chains = slices.AppendSeq(baseChains(r.cfg), maps.Values(run.chains))
	t.Normalize()
	return t, run.errs
}

// run is one rendering of a Renderer's state.
type run struct {
	renderer *Renderer
	chains   map[string]*ruleset.Chain
	lists    map[listKey]ruleList
	dispatch dispatch
	errs     []error
}

// fail reports that the object cannot be rendered.
func (r *run) fail(key policy.Key, err error) {
	r.errs = append(r.errs, &dataplane.ApplyError{Backend: backend, Op: "render", Object: key, Err: err})
}

// add puts a chain into the table and returns its name.
func (r *run) add(c *ruleset.Chain) string {
	r.chains[c.Name] = c
	return c.Name
}
