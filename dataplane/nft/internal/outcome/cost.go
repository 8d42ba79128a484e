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

// The costs in the kernel, counted in elements of about 100 bytes.
const (
	ruleCost = 4 // a rule, or a chain with its last rule
	// listCost is that of an anonymous set of ports or protocols, without its elements. The set
	// takes 1 kB. The kernel visits all sets of the table to find a free name for it, so n sets
	// take n² steps.
	listCost = 32
)

// ruleSize is what a rule adds to the cost of an outcome.
type ruleSize struct {
	// hash is that of the rule without its predicates: equal rules of an outcome count once.
	hash uint64
	// ranges counts the port ranges of a plain rule; it is one if the rule has none. It is zero for
	// other rules.
	ranges int
}

// measurement is the state of indexes.measure.
type measurement struct {
	seed  maphash.Seed
	sizes []ruleSize // of the rules of the last outcome
}

// groupCost is the cost of a group as lookups: one for each class, and the cost of the distinct
// outcomes as far as it exceeds the cost of the group's rules as chains.
type groupCost struct {
	total int
	// outcomes has the distinct outcomes, by a hash of their rules. outcomesCost is their cost.
	outcomes     map[uint64]outcomeCost
	outcomesCost int
}

// outcomeCost is the cost of an outcome, and the number of classes that have it.
type outcomeCost struct{ classes, cost int }

// addClass adds a class whose outcome has this hash. cost is called if the outcome is new, and
// returns its cost.
func (c *groupCost) addClass(hash uint64, cost func() int) {
	o, found := c.outcomes[hash]
	if !found {
		o.cost = cost()
		c.outcomesCost += o.cost
	}
	o.classes++
	c.outcomes[hash] = o
}

// removeClass removes a class whose outcome has this hash.
func (c *groupCost) removeClass(hash uint64) {
	o := c.outcomes[hash]
	if o.classes--; o.classes == 0 {
		c.outcomesCost -= o.cost
		delete(c.outcomes, hash)
		return
	}
	c.outcomes[hash] = o
}

// updateCost computes the total cost of a group.
func (g *Group) updateCost() {
	chains := 0
	for _, t := range g.tiers {
		chains += t.cost
	}
	g.cost.total = len(g.classes) + max(0, g.cost.outcomesCost-chains)
}

// size returns the size of a rule without its predicates. If each is set, each rule counts or logs,
// so rules with different ids are not equal.
func (ix *indexes) size(rest *match.Merged, plain, each bool) ruleSize {
	var key strings.Builder
	if rest.WriteKey(&key, plain); each {
		key.WriteString(" " + rest.ID)
	}
	s := ruleSize{hash: maphash.String(ix.seed, key.String())}
	if plain {
		m := &rest.Destination
		s.ranges = max(1, len(m.Ports)+len(m.NotPorts))
	}
	return s
}

// chainCost returns the cost of a chain of rules, and of a list of port ranges unless that is a
// single one.
func chainCost(rules, ranges int) int {
	cost := rules * ruleCost
	if ranges > 1 {
		cost += listCost + ranges
	}
	return cost
}

// cost returns the cost of the rules as a chain. Neighbouring rules may share a list of ports
// there.
func (p *place) cost() int {
	rules, ranges := len(p.rules), 0
	for k := range p.rules {
		ranges += p.rules[k].size.ranges
	}
	return chainCost(rules, ranges)
}

// measure returns a hash of the rules that hold for the addresses of a class, as in outcomes.steps.
// Classes with equal hashes have one outcome. measuredCost then returns its cost.
func (ix *indexes) measure(g *Group, c *classify.Class) (hash uint64) {
	ix.sizes = ix.sizes[:0]
	mix := func(x uint64) { hash = bits.RotateLeft64(hash^x, 23) * 0x9e3779b97f4a7c15 }
	for i, t := range g.tiers {
		if !t.profile && t.enforced == 0 { // S20
			continue
		}
		mix(uint64(i) + 1)
		if ix.measureTier(t, c, mix) {
			break
		}
	}
	return hash
}

// measureTier measures the rules of one tier, and reports whether they decide about every packet.
func (ix *indexes) measureTier(t *tierIndex, c *classify.Class, mix func(uint64)) (decided bool) {
	passes := false // whether some packets pass to the next tier
	for _, i := range ix.candidates(t, c) {
		for k := range t.places[i].rules {
			rule := &t.places[i].rules[k]
			if !rule.holds(c) {
				continue
			}
			ix.sizes = append(ix.sizes, rule.size)
			if mix(rule.size.hash); !rule.plain {
				mix(uint64(c.Family()))
			}
			passes = passes || rule.rule.Action == policy.Pass && !t.profile
			if rule.always {
				return !passes
			}
		}
	}
	return !t.profile && !t.list.Stage.Partial() && t.spec.DefaultAction == policy.Deny && !passes
}

// measuredCost returns the cost of the outcome of the last call of measure.
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
