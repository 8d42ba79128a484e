// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Chains has the chains of the table, and the named sets for the lists in their rules (see Lists).
type Chains struct {
	Lists
	byName map[string]*ruleset.Chain
	// changed has the chains that have changed since the last FlushChains. The value is true if the
	// chain existed then.
	changed map[string]bool
}

// NewChains returns Chains without a chain.
func NewChains() *Chains {
	return &Chains{Lists: NewLists(), byName: map[string]*ruleset.Chain{}, changed: map[string]bool{}}
}

// Set adds a chain. If there is a chain with the same name, it replaces that chain.
func (t *Chains) Set(c *ruleset.Chain) {
	old, c := t.byName[c.Name], t.Named(c)
	if old.Equal(c) {
		return
	}
	t.Replace(old, c)
	if _, ok := t.changed[c.Name]; !ok {
		t.changed[c.Name] = old != nil
	}
	t.byName[c.Name] = c
}

// Drop removes the chain with the name, if there is one.
func (t *Chains) Drop(name string) {
	if t.byName[name] == nil {
		return
	}
	if _, ok := t.changed[name]; !ok {
		t.changed[name] = true
	}
	t.Replace(t.byName[name], nil)
	delete(t.byName, name)
}

// Keep adds the chain c if keep is set. Otherwise it removes the chain with the name of c, if there
// is one.
func (t *Chains) Keep(c *ruleset.Chain, keep bool) {
	if keep {
		t.Set(c)
	} else {
		t.Drop(c.Name)
	}
}

// Pending reports whether a chain has changed since the last FlushChains.
func (t *Chains) Pending() bool { return len(t.changed) > 0 }

// FlushChains appends to the delta the chains that have changed since its last call. The method
// Flush appends the sets.
func (t *Chains) FlushChains(d *ruleset.Delta) {
	for _, name := range slices.Sorted(maps.Keys(t.changed)) {
		if c := t.byName[name]; c != nil {
			d.Chains = append(d.Chains, c)
		} else if t.changed[name] {
			d.DeleteChains = append(d.DeleteChains, name)
		}
	}
	t.changed = reuse.Map(t.changed)
}

// AllChains returns the chains in no particular order.
func (t *Chains) AllChains() []*ruleset.Chain { return slices.Collect(maps.Values(t.byName)) }
