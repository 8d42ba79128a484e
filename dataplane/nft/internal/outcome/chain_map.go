// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// chainMap maps the numbers of outcomes to their chains. An outcome is in the map only while at
// least one class has the outcome. Without such a class, no packet has the number of the outcome.
// Therefore no packet looks up an element while the element is added or removed. But packets may
// look up an element while its chain changes.
type chainMap struct {
	set *sets.ElementSet
	// to is the kind of the verdicts: Jump or Goto.
	to ruleset.VerdictKind
	// uses has the outcomes to which classes lead, in all groups that use the map.
	uses map[*outcome]chainUse
}

// chainUse has the number of classes with an outcome, and the chain to which the outcome's element
// leads.
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

// add adds to the number of classes that have the outcome. If the outcome has another chain than
// before, add writes the element.
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

// renumber writes all elements again, after numbers of outcomes have changed.
func (m *chainMap) renumber() {
	elements := make([]ruleset.Element, 0, len(m.uses))
	for o := range m.uses {
		elements = append(elements, m.element(o))
	}
	m.set.Replace(elements)
}

// flush appends the changes of the map to the delta.
func (m *chainMap) flush(d *ruleset.Delta) { m.set.FlushUnseen(d, func(string) bool { return true }) }

// sharedMaps has the maps from outcomes to chains that all groups of workloads share, one for each
// direction. If each group had a map of its own, an outcome that many groups have would be an
// element of many maps. And whenever the kernel validates the table, it would follow all these maps
// for each endpoint.
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

// Dispatch returns the rule that jumps to the chain of the outcome whose number is in Register. If
// Policy.Return is set for an endpoint, the chain of the endpoint only writes this number into
// Register, and returns. The caller puts the rule of Dispatch after the jumps to the chains of such
// endpoints.
//
// During a change of the table, a packet that uses the old rules may find new elements in the map.
// Then it can jump to the chain of a new outcome, which has no rules for this packet. The packet
// returns undecided. It is stale, and the next base chain evaluates it again.
func Dispatch(dir match.Direction) ruleset.Rule { return build.Dispatch(sharedName(dir), Register) }
