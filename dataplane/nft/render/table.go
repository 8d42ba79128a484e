// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// table has the chains of the table, and the sets and maps that are not made from IP sets.
type table struct {
	chains *sets.Chains
	// elements has the sets and maps by name. names has their names, sorted.
	elements map[string]*sets.ElementSet
	names    []string
}

// newTable returns a table without chains.
func newTable(cfg *Config) *table {
	t := &table{chains: sets.NewChains(), elements: map[string]*sets.ElementSet{}}
	for _, s := range append(workloadSets(cfg), epochSet()) {
		s.Wanted = true
		t.elements[s.Name()] = s
	}
	for _, s := range slices.Concat(hostSets(cfg), nodeSets(cfg), natSets(), masterSets(), bridgeSets(cfg)) {
		t.elements[s.Name()] = s
	}
	t.names = slices.Sorted(maps.Keys(t.elements))
	return t
}

// setChains adds chains. It deletes the old chains whose names no new chain has.
func (t *table) setChains(chains []*ruleset.Chain, old ...*ruleset.Chain) {
	names := map[string]bool{}
	for _, c := range chains {
		t.chains.Set(c)
		names[c.Name] = true
	}
	for _, c := range old {
		if !names[c.Name] {
			t.chains.Drop(c.Name)
		}
	}
}

// flushElements appends the changes of the sets and maps to the delta.
func (t *table) flushElements(d *ruleset.Delta) {
	for _, name := range t.names {
		t.elements[name].Flush(d)
	}
}

// kernelSets returns the sets and maps that the kernel should have, in no particular order.
func (t *table) kernelSets() (out []*ruleset.Set) {
	for _, s := range t.elements {
		if s.Wanted {
			out = append(out, s.Kernel())
		}
	}
	return out
}

// elementRef identifies an element of one of the sets or maps.
type elementRef struct{ set, key string }

// replaceElements removes the elements of old that are not in now. It returns now.
func (t *table) replaceElements(old, now []elementRef) []elementRef {
	keep := make(map[elementRef]bool, len(now))
	for _, p := range now {
		keep[p] = true
	}
	for _, p := range old {
		if !keep[p] {
			t.elements[p.set].Remove(p.key)
		}
	}
	return now
}
