// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/classify"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/policy"
)

// The costs in the kernel. A cost of one is about 100 bytes, as much as an element takes.
const (
	ruleCost = 4 // cost of a rule, or of a chain with its last rule
	// elementCost is the cost of an outcome's element in a chainMap. The element takes as much
	// memory as the element of a class. The rest is for classes of prefixes, whose ranges take 200
	// bytes in the map of prefixes.
	elementCost = 2
	// listCost is the cost of an anonymous set of ports or protocols, without its elements. The set
	// takes 1 kB. To find a free name for it, the kernel visits all sets of the table, so n sets
	// take n² steps.
	listCost = 32
)

// ruleSize has the properties of a rule that determine its share of an outcome's cost.
type ruleSize struct {
	// hash is a hash of the rule without its predicates. Equal rules of an outcome count once.
	hash uint64
	// ranges is the number of port ranges of a plain rule, or one if the rule has none. It is zero
	// for rules that are not plain.
	ranges int
}

// measurement has the state of indexes.measure.
type measurement struct {
	seed  maphash.Seed
	sizes []ruleSize // sizes of the rules of the last outcome
}

// shares has the costs of objects that several users share. Each object counts once. sum is the sum
// of the costs.
type shares[K comparable] struct {
	of  map[K]share
	sum int
}

type share struct{ users, cost int }

func newShares[K comparable]() shares[K] { return shares[K]{of: map[K]share{}} }

// add adds a user of an object, and sets the object's cost. It reports whether the user is the
// first.
func (s *shares[K]) add(key K, cost int) (first bool) {
	one := s.of[key]
	s.sum += cost - one.cost
	one.users, one.cost = one.users+1, cost
	s.of[key] = one
	return one.users == 1
}

// remove removes a user of an object, and reports whether it was the last.
func (s *shares[K]) remove(key K) (last bool) {
	one := s.of[key]
	if one.users--; one.users > 0 {
		s.of[key] = one
		return false
	}
	s.sum -= one.cost
	delete(s.of, key)
	return true
}

// outcomeHash identifies an outcome when costs are computed. At that time outcomes do not exist
// yet, and groups over a limit never have any.
type outcomeHash struct {
	// id is equal for classes with the same outcome, which has one element in a chainMap. The field
	// rules is equal for outcomes with equal rules, which share their chains.
	id, rules uint64
}

// groupCost is the cost of a group as lookups. It is the sum of
//
//   - the number of classes,
//   - the cost of the elements of outcomes,
//   - the cost of the chains of outcomes, minus the cost of the group's rules as chains, but not
//     less than zero.
type groupCost struct {
	total int
	// outcomes has the chains of outcomes, by outcomeHash.rules. elements has the elements of
	// outcomes, by outcomeHash.id. The users of both are classes.
	outcomes, elements shares[uint64]
}

func newGroupCost() groupCost {
	return groupCost{outcomes: newShares[uint64](), elements: newShares[uint64]()}
}

// tally is the cost of several groups. Groups share equal outcomes, and the elements of a chainMap.
// If groups are written as chains, they share the rules of a policy.
type tally struct {
	classes  int
	outcomes shares[uint64]
	elements shares[elementOf]
	chains   shares[listOf]
}

// elementOf identifies the element of an outcome in a chainMap, by outcomeHash.id.
type elementOf struct {
	chains *chainMap
	id     uint64
}

// listOf identifies the rules of a policy or profile in a list.
type listOf struct {
	entry *entry
	list  match.List
}

func newTally() *tally {
	return &tally{outcomes: newShares[uint64](), elements: newShares[elementOf](), chains: newShares[listOf]()}
}

// add adds the cost of a group.
func (t *tally) add(g *Group) {
	t.classes += len(g.classes)
	for hash, o := range g.cost.outcomes.of {
		t.outcomes.add(hash, o.cost)
	}
	for id := range g.cost.elements.of {
		t.elements.add(elementOf{g.chains, id}, elementCost)
	}
	for _, index := range g.tiers {
		for i := range index.policies {
			if p := &index.policies[i]; p.enforced {
				t.chains.add(listOf{p.entry, index.list}, p.cost())
			}
		}
	}
}

// cost returns the cost of all groups together.
func (t *tally) cost() int {
	return t.classes + t.elements.sum + max(0, t.outcomes.sum-t.chains.sum)
}

// addClass adds the cost of a class of a group. hash is that of the class's outcome.
func (ix *indexes) addClass(g *Group, hash outcomeHash) {
	cost := g.cost.outcomes.of[hash.rules].cost
	if cost == 0 {
		cost = ix.measuredCost()
	}
	if g.cost.outcomes.add(hash.rules, cost) {
		ix.all.outcomes.add(hash.rules, cost)
	}
	if g.cost.elements.add(hash.id, elementCost) {
		ix.all.elements.add(elementOf{g.chains, hash.id}, elementCost)
	}
}

// removeClass removes the cost of a class of a group. hash is that of the class's outcome.
func (ix *indexes) removeClass(g *Group, hash outcomeHash) {
	if g.cost.outcomes.remove(hash.rules) {
		ix.all.outcomes.remove(hash.rules)
	}
	if g.cost.elements.remove(hash.id) {
		ix.all.elements.remove(elementOf{g.chains, hash.id})
	}
}

// removeCost removes the costs of all classes of a group.
func (ix *indexes) removeCost(g *Group) {
	ix.all.classes -= len(g.classes)
	for rules := range g.cost.outcomes.of {
		ix.all.outcomes.remove(rules)
	}
	for id := range g.cost.elements.of {
		ix.all.elements.remove(elementOf{g.chains, id})
	}
}

// updateCost computes the total cost of a group.
func (g *Group) updateCost() {
	chains := 0
	for _, t := range g.tiers {
		chains += t.cost
	}
	g.cost.total = len(g.classes) + g.cost.elements.sum + max(0, g.cost.outcomes.sum-chains)
}

// size returns the size of a rule without its predicates. If each is set, each rule counts or logs,
// so rules with different ids are not equal.
func (ix *indexes) size(rest *match.Merged, plain, each bool) ruleSize {
	var key strings.Builder
	if rest.WriteKey(&key, plain); each {
		key.WriteString(" " + rest.ID)
	}
	s := ruleSize{hash: ix.hash(key.String())}
	if plain {
		m := &rest.Destination
		s.ranges = max(1, len(m.Ports)+len(m.NotPorts))
	}
	return s
}

// chainCost returns the cost of a chain of rules with a list of port ranges. A single range needs
// no list.
func chainCost(rules, ranges int) int {
	cost := rules * ruleCost
	if ranges > 1 {
		cost += listCost + ranges
	}
	return cost
}

// cost returns the cost of the policy's rules as a chain of rules. In such a chain, neighbouring
// rules may share a list of ports.
func (p *tierPolicy) cost() int {
	rules, ranges := len(p.rules), 0
	for k := range p.rules {
		ranges += p.rules[k].size.ranges
	}
	return chainCost(rules, ranges)
}

// hash returns a hash of a text. The hash is not the same in another process.
func (m *measurement) hash(text string) uint64 { return maphash.String(m.seed, text) }

func mix(hash *uint64, x uint64) { *hash = bits.RotateLeft64(*hash^x, 23) * 0x9e3779b97f4a7c15 }

// measure returns the hash of the outcome of a class. It visits the same rules as outcomes.steps.
// measuredCost then returns the cost of the outcome's chains.
func (ix *indexes) measure(g *Group, c *classify.Class) (hash outcomeHash) {
	ix.sizes = ix.sizes[:0]
	for _, h := range [...]*uint64{&hash.id, &hash.rules} {
		mix(h, uint64(g.Stage))
	}
	for _, t := range g.tiers {
		if !t.profile && t.enforced == 0 { // S20
			continue
		}
		mix(&hash.id, 0)
		mix(&hash.rules, ix.hash(string(g.Dir)+string(t.spec.DefaultAction)+t.spec.Tier))
		if ix.measureTier(t, c, &hash) {
			return hash
		}
	}
	mix(&hash.id, ix.hash(string(g.rest)))
	return hash
}

// measureTier measures the rules of one tier, and reports whether they decide about every packet.
func (ix *indexes) measureTier(t *tierIndex, c *classify.Class, hash *outcomeHash) (decided bool) {
	passes := false // whether some packets pass to the next tier
	for _, i := range ix.candidates(t, c) {
		p := &t.policies[i]
		for k := range p.rules {
			rule := &p.rules[k]
			if !rule.matchesClass(c) {
				continue
			}
			ix.sizes = append(ix.sizes, rule.size)
			mix(&hash.id, p.entry.hash)
			mix(&hash.id, rule.peerHash)
			if mix(&hash.rules, rule.size.hash); !rule.plain {
				mix(&hash.id, uint64(c.Family()))
				mix(&hash.rules, uint64(c.Family()))
			}
			passes = passes || rule.rule.Action == policy.Pass && !t.profile
			if rule.always {
				return !passes
			}
		}
	}
	if t.profile || t.list.Stage.Partial() {
		return false
	}
	mix(&hash.id, ix.hash(t.end))
	return t.spec.DefaultAction == policy.Deny && !passes
}

// measuredCost returns the cost of the outcome that the last call of measure visited.
func (ix *indexes) measuredCost() int {
	slices.SortFunc(ix.sizes, func(a, b ruleSize) int { return cmp.Compare(a.hash, b.hash) })
	rules, ranges := 1, 0
	for i, s := range ix.sizes {
		if i > 0 && ix.sizes[i-1].hash == s.hash {
			continue
		}
		if ranges += s.ranges; s.ranges == 0 {
			rules++
		}
	}
	return chainCost(rules, ranges)
}
