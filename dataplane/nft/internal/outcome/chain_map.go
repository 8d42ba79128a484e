// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// chainMap maps the numbers of outcomes to their chains. No packet has the number of an outcome
// without classes, so packets do not see how elements come and go. They see that one changes.
type chainMap struct {
	set *sets.ElementSet
	// to is the kind of the verdicts: Jump or Goto.
	to ruleset.VerdictKind
	// uses has the outcomes of the classes of all groups that use the map.
	uses map[*outcome]chainUse
}

// chainUse is the use of an outcome: by how many classes, and the chain that its element leads to.
type chainUse struct {
	classes int
	chain   string
}

func newChainMap(name string, to ruleset.VerdictKind) *chainMap {
	return &chainMap{
		set: sets.NewElementSet(ruleset.Set{
			Name: name, Key: []ruleset.Type{ruleset.TypeClassID}, Verdicts: true, DeleteAfterGrace: true,
		}),
		to: to, uses: map[*outcome]chainUse{},
	}
}

// element returns the element that maps the number of an outcome to its chain.
func (m *chainMap) element(o *outcome) ruleset.Element {
	v := ruleset.Verdict{Kind: m.to, Chain: o.chain}
	return sets.Element(&v, ruleset.Uint32(o.Number()))
}

// add counts more classes with the outcome, or fewer, and writes its element if its chain is another
// one than before.
func (m *chainMap) add(o *outcome, classes int) {
	use := m.uses[o]
	switch use.classes += classes; {
	case use.classes == 0:
		delete(m.uses, o)
		m.set.Remove(sets.ElementKey(m.element(o)))
		return
	case use.chain != o.chain:
		use.chain = o.chain
		m.set.Put(m.element(o))
	case classes == 0:
		return
	}
	m.uses[o] = use
}

// renumber writes all elements again: the numbers of outcomes changed.
func (m *chainMap) renumber() {
	elements := make([]ruleset.Element, 0, len(m.uses))
	for o := range m.uses {
		elements = append(elements, m.element(o))
	}
	m.set.Replace(elements)
}

// flush appends the changes to the delta.
func (m *chainMap) flush(d *ruleset.Delta) { m.set.FlushUnseen(d, func(string) bool { return true }) }

// sharedMaps has the maps from numbers of outcomes to chains that the groups of workloads share, one
// for each direction. If each group had its own, a new outcome of many groups would be an element in
// each of their maps; and the kernel would follow these maps for each endpoint whenever it checks
// the table.
type sharedMaps map[match.Direction]*chainMap

func newSharedMaps() sharedMaps {
	m := sharedMaps{}
	for _, dir := range directions() {
		m[dir] = newChainMap(sharedName(dir), ruleset.Jump)
		m[dir].set.Wanted = true
	}
	return m
}

func directions() []match.Direction { return []match.Direction{match.Ingress, match.Egress} }

func sharedName(dir match.Direction) string { return "outcomes-" + string(dir) }

// Dispatch returns the rule that jumps to the chain of a packet's outcome, after the chain of a
// group with Policy.Return. The outcome decides about the packet. A packet that is undecided after
// the rule is stale: on the previous generation, a new chain is empty.
func Dispatch(dir match.Direction) ruleset.Rule { return build.Dispatch(sharedName(dir), Register) }
