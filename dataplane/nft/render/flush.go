// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Flush returns the changes of the table since the last Flush. The first Flush returns the whole
// table. The cost of a Flush is proportional to the updates since the last Flush. The caller must
// not change the objects of the delta, because later deltas share them.
func (r *Renderer) Flush() *ruleset.Delta {
	r.renderDirty()
	d := &ruleset.Delta{}
	r.table.chains.FlushChains(d)
	r.sets.flush(d)
	r.table.flushElements(d)
	r.table.chains.Flush(d)
	r.lookups.Flush(d)
	d.Apart = !r.base.host.sharesAddresses() && r.lookups.Apart(d, r.endpoints.interfaces.local)
	return d
}

// Table returns the whole table for the current state. The table is valid, and sorted as by
// ruleset.Table.Normalize. The caller must not change it, because later tables share its parts. A
// call of Table does not affect what Flush returns. The errors are those that Errors returns.
func (r *Renderer) Table() (*ruleset.Table, []error) {
	r.renderDirty()
	t := &ruleset.Table{Family: ruleset.FamilyINet, Name: r.cfg.Table}
	t.Chains = r.table.chains.AllChains()
	t.Sets = append(r.table.chains.All(), r.lookups.Sets()...)
	t.Sets = slices.Concat(t.Sets, r.sets.kernelSets(), r.table.kernelSets())
	t.Normalize()
	return t, r.Errors()
}

// Errors returns a *dataplane.ApplyError for each object that could not be rendered. It also
// returns one for each endpoint that is at fault because of such an object. The errors are in the
// order of the objects' keys.
func (r *Renderer) Errors() []error {
	r.renderDirty()
	return r.faults.errors()
}

// Clone returns an independent Renderer in the same state. Its first Flush returns the whole table.
func (r *Renderer) Clone() *Renderer {
	c, err := New(*r.cfg)
	if err != nil {
		panic(err) // r has the same configuration
	}
	c.endpoints.hosts.known = r.endpoints.hosts.known
	c.endpoints.interfaces.masters = maps.Clone(r.endpoints.interfaces.masters)
	c.sets.copyFrom(r.sets)
	for key, o := range r.policies.byKey {
		if o.Exists() {
			c.policies.set(key, o.Policy, o.Profile)
		}
	}
	for key, s := range r.endpoints.byKey {
		c.endpoints.set(key, s.workload, s.host)
	}
	c.endpoints.nat.copyFrom(r.endpoints.nat)
	c.endpoints.nodes.copyFrom(r.endpoints.nodes)
	return c
}
