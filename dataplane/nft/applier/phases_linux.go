// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"cmp"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// phases divides operations that do not fit into one transaction.
//
//	build    new sets with elements, new chains with rules: nothing leads to them yet, so no packet sees them
//	live     changes that packets see, in one transaction
//	destroy  objects that nothing leads to any more
//
// Each of build and destroy may be divided into any number of transactions. If the live phase is
// too large, or packets would see it at more than one moment, shadows carry it out.
type phases struct{ build, live, destroy []ruleset.Op }

// phasesOf divides operations, which are in the order of State.Prepare.
func phasesOf(ops []ruleset.Op) (p phases) {
	fresh := map[string]bool{}
	first := 0 // policies that become drop, which must not come before the other changes that packets see
	for first < len(ops) && ops[first].Kind == ruleset.ChangePolicy {
		first++
	}
	i := first
	for ; i < len(ops); i++ {
		op := &ops[i]
		isNew := false
		switch op.Kind {
		case ruleset.AddSet:
			isNew = true
			fresh["set "+op.Set.Name] = true
		case ruleset.AddChain:
			isNew = op.Chain.Hook == nil
			fresh["chain "+op.Chain.Name] = isNew
		case ruleset.AddElements:
			isNew = fresh["set "+op.Set.Name] || op.Unseen
		case ruleset.InsertRule:
			isNew = fresh["chain "+op.Chain.Name]
		}
		if !isNew {
			break
		}
	}
	p.build = ops[first:i]
	j := len(ops)
	for j > i && (ops[j-1].Kind == ruleset.DeleteChain || ops[j-1].Kind == ruleset.DeleteSet || ops[j-1].Unseen) {
		j--
	}
	p.live, p.destroy = slices.Concat(ops[:first], ops[i:j]), ops[j:]
	return p
}

// needsGrace reports whether a packet under way may still look up something that the operations
// delete: a Late element, or a set with DeleteAfterGrace.
func needsGrace(ops []ruleset.Op) bool {
	return slices.ContainsFunc(ops, func(op ruleset.Op) bool {
		return op.Kind == ruleset.DeleteElements && op.Unseen ||
			op.Kind == ruleset.DeleteSet && op.Set.DeleteAfterGrace
	})
}

// dropGuard returns the rule with which a chain drops all packets while it changes.
func dropGuard() ruleset.Rule { return temporaryRule(ruleset.Verdict{Kind: ruleset.Drop}) }

// temporaryRule returns a rule that exists only while the table changes.
func temporaryRule(v ruleset.Verdict) ruleset.Rule {
	return ruleset.Rule{Statements: []ruleset.Statement{v}, Comment: "table is being changed"}
}

// concerned returns the sets that the live phase changes. It also returns the existing chains that
// the phase changes or that reference these sets.
func (p *phases) concerned(view *ruleset.State) (names []string, sets map[string]bool) {
	chains, sets := map[string]bool{}, p.changedSets()
	without := map[string]bool{} // a chain that does not exist before or after cannot have a guard
	for i := range p.live {
		switch op := &p.live[i]; op.Kind {
		case ruleset.InsertRule, ruleset.DeleteRule, ruleset.ReplaceRule, ruleset.ChangePolicy:
			chains[op.Chain.Name] = true
		case ruleset.AddChain, ruleset.DeleteChain:
			without[op.Chain.Name] = true
		}
	}
	for _, c := range sortedChains(view) {
		if !without[c.Name] && (chains[c.Name] || references(c, sets)) {
			names = append(names, c.Name)
		}
	}
	return names, sets
}

// sortedChains returns the chains of a state, sorted by name.
func sortedChains(s *ruleset.State) []*ruleset.Chain {
	chains := s.Chains()
	slices.SortFunc(chains, func(a, b *ruleset.Chain) int { return cmp.Compare(a.Name, b.Name) })
	return chains
}

// references reports whether a chain's rules reference any of the sets.
func references(c *ruleset.Chain, sets map[string]bool) bool {
	for i := range c.Rules {
		for name := range c.Rules[i].Sets() {
			if sets[name] {
				return true
			}
		}
	}
	return false
}

// referencesByRaw reports whether a chain references any of the sets by a Raw.
func referencesByRaw(c *ruleset.Chain, sets map[string]bool) bool {
	matches := func(part any) bool {
		raw, ok := part.(ruleset.Raw)
		return ok && slices.ContainsFunc(raw.Sets, func(s string) bool { return sets[s] })
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		if slices.ContainsFunc(r.Matches, func(m ruleset.Match) bool { return matches(m) }) ||
			slices.ContainsFunc(r.Statements, func(s ruleset.Statement) bool { return matches(s) }) {
			return true
		}
	}
	return false
}
