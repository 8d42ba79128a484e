// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// emptied returns a map with nothing in it: a new one where the old one may have grown, for to clear that takes time
// whatever is in it.
func emptied[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > 64 {
		return map[K]V{}
	}
	clear(m)
	return m
}

func sortedKeys[T any](m map[*T]struct{}, key func(*T) policy.Key) []*T {
	return slices.SortedFunc(maps.Keys(m), func(a, b *T) int { return key(a).Compare(key(b)) })
}

// Flush returns what has become different since the last Flush: after the first one, everything. It does work in proportion to the
// updates in between. The delta's objects must not be changed: later ones share them. The empty table is where the first delta starts.
func (r *Renderer) Flush() *ruleset.Delta {
	r.settle()
	d := &ruleset.Delta{}
	for _, name := range slices.Sorted(maps.Keys(r.changed)) {
		if c := r.chains[name]; c != nil {
			d.Chains = append(d.Chains, c)
		} else if r.changed[name] {
			d.DeleteChains = append(d.DeleteChains, name)
		}
	}
	r.changed = emptied(r.changed)
	maps.Copy(r.changedSets, r.lists.looked)
	r.lists.looked = emptied(r.lists.looked)
	for _, s := range slices.SortedFunc(maps.Keys(r.changedSets), compareSets) {
		s.flush(d)
		r.forgetSet(s)
	}
	r.changedSets = emptied(r.changedSets)
	for _, name := range r.elementNames {
		r.elements[name].flush(d)
	}
	r.lists.flush(d)
	r.flushClasses(d)
	return d
}

func compareSets(a, b *ipSet) int {
	if a.id < b.id {
		return -1
	}
	return 1
}

// Table returns the whole table for the current state, valid and normalized, which must not be
// changed: later tables share the parts that stay the same. What Flush returns does not depend on whether Table was called.
//
// Errors: those of Errors.
func (r *Renderer) Table() (*ruleset.Table, []error) {
	r.settle()
	t := &ruleset.Table{Family: ruleset.FamilyINet, Name: r.cfg.Table}
	t.Chains = slices.Collect(maps.Values(r.chains))
	t.Sets = append(r.lists.all(), r.classSets()...)
	for _, s := range r.sets {
		for _, f := range families() {
			for _, kind := range []partKind{partHosts, partNets, partPorts} {
				if s.wanted(partKey{kind, f}) {
					t.Sets = append(t.Sets, s.kernelSet(partKey{kind, f}))
				}
			}
		}
	}
	for _, s := range r.elements {
		if s.wanted {
			t.Sets = append(t.Sets, s.kernelSet())
		}
	}
	t.Normalize()
	return t, r.Errors()
}

// Errors returns a *dataplane.ApplyError for each object that could not be rendered and for each endpoint that drops
// all its traffic because of that, in the order of their keys.
func (r *Renderer) Errors() []error {
	r.settle()
	var out []error
	for _, key := range slices.SortedFunc(maps.Keys(r.faults), policy.Key.Compare) {
		out = append(out, &dataplane.ApplyError{Backend: backend, Op: "render", Object: key, Err: r.faults[key]})
	}
	return out
}

// Clone returns a Renderer in the same state that goes its own way from here, and whose first Flush returns everything.
func (r *Renderer) Clone() *Renderer {
	c, err := NewRenderer(r.cfg)
	if err != nil {
		panic(err) // r has the same configuration
	}
	c.hosts.known = r.hosts.known
	for id, s := range r.sets {
		if s.exists {
			c.sets[id] = s.clone()
			c.sets[id].lookups = &c.lists
			c.dirtySets[c.sets[id]] = struct{}{}
		}
	}
	for key, o := range r.owners {
		if o.exists() {
			c.setOwner(key, o.policy, o.profile)
		}
	}
	for key, s := range r.subjects {
		c.setSubject(key, s.workload, s.host)
	}
	c.nat.pools, c.nat.nodes = maps.Clone(r.nat.pools), maps.Clone(r.nat.nodes)
	c.dirtyPools, c.dirtyNAT = !r.cfg.NAT.Disabled, !r.cfg.NAT.Disabled
	return c
}
