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
	// listCost is that of an anonymous set of ports or protocols, without its elements. It takes 1 kB.
	// To name it, the kernel visits all sets of the table, so n sets take n² steps.
	listCost = 32
)

// ruleSize is what a rule adds to the cost of an outcome.
type ruleSize struct {
	// hash is that of the rule without its predicates: equal rules of an outcome count once.
	hash uint64
	// values counts the ranges of ports of a plain rule, at least one. It is zero for other rules.
	values int
}

// measurement is what indexes.measure needs.
type measurement struct {
	seed  maphash.Seed
	sizes []ruleSize // scratch space
}

// groupCost is the cost of a group. It counts the classes, and what the distinct outcomes of the
// classes cost more than the group's rules would as chains.
type groupCost struct {
	total int
	// outcomes has the distinct outcomes, by a hash of their rules. sum is their cost.
	outcomes map[uint64]outcomeCost
	sum      int
}

type outcomeCost struct{ classes, cost int }

// add adds a class with an outcome. cost returns the cost of the outcome if no other class has it.
func (c *groupCost) add(outcome uint64, cost func() int) {
	o, found := c.outcomes[outcome]
	if !found {
		o.cost = cost()
		c.sum += o.cost
	}
	o.classes++
	c.outcomes[outcome] = o
}

// remove removes a class with an outcome.
func (c *groupCost) remove(outcome uint64) {
	o := c.outcomes[outcome]
	if o.classes--; o.classes == 0 {
		c.sum -= o.cost
		delete(c.outcomes, outcome)
		return
	}
	c.outcomes[outcome] = o
}

// updateCost computes the total of a group's costs.
func (g *Group) updateCost() {
	chains := 0
	for _, t := range g.tiers {
		chains += t.cost
	}
	g.total = len(g.classes) + max(0, g.sum-chains)
}

// size returns the size of a rule without its predicates. each is set if each rule counts or logs:
// then no other rule is equal.
func (ix *indexes) size(rest *match.Merged, plain, each bool) ruleSize {
	var key strings.Builder
	if rest.WriteKey(&key, plain); each {
		key.WriteString(" " + rest.ID)
	}
	s := ruleSize{hash: maphash.String(ix.seed, key.String())}
	if plain {
		m := &rest.Destination
		s.values = max(1, len(m.Ports)+len(m.NotPorts))
	}
	return s
}

// listsCost returns the cost of rules and of their lists of ports.
func listsCost(rules, values int) int {
	cost := rules * ruleCost
	if values > 1 {
		cost += listCost + values
	}
	return cost
}

// cost is the cost of the rules as a chain, in which rules may be merged to lists of ports.
func (p *place) cost() int {
	rules, values := len(p.rules), 0
	for k := range p.rules {
		values += p.rules[k].size.values
	}
	return listsCost(rules, values)
}

// measure returns a hash of the rules that hold for the addresses of a class: see outcomes.steps.
// Until the next call, indexes.sizes has their sizes.
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

// measureTier measures one tier, and reports whether it decides about every packet.
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

// measured returns the cost of the outcome that was measured last.
func (ix *indexes) measured() int {
	slices.SortFunc(ix.sizes, func(a, b ruleSize) int { return cmp.Compare(a.hash, b.hash) })
	rules, values := 1, 0
	for i, s := range ix.sizes {
		if i > 0 && ix.sizes[i-1].hash == s.hash {
			continue
		}
		if values += s.values; s.values == 0 {
			rules++
		}
	}
	return listsCost(rules, values)
}
