// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Packets see all changes of rules and of elements of hash sets in a transaction at one moment.
// After that moment, the kernel processes the transaction in order, which takes about a microsecond
// for each object. Two changes take effect only then (measured on Linux 6.18):
//
//   - The policy of a base chain changes, also for packets that entered before. Until then, a new
//     chain has the policy accept.
//   - Packets see the new elements of interval sets, at the very end. Until then, a new set is
//     empty.
//
// So policies change while no packet reaches them (deferPolicies). Likewise, new interval sets are
// filled before any rule references them. shadowPlan changes interval sets together with other
// objects that packets use.

// addDropGuards adds a first rule that drops to each base chain that the operations create. steps
// has the operations that delete these rules: see runSteps.
func addDropGuards(ops []ruleset.Op) (guarded []ruleset.Op, steps [][]ruleset.Op) {
	isNew := map[string]bool{}
	var removals []ruleset.Op
	for _, op := range ops {
		if op.Chain != nil && isNew[op.Chain.Name] && isRuleOp(&op) {
			op.Index++
		}
		guarded = append(guarded, op)
		if op.Kind == ruleset.AddChain && op.Chain.Hook != nil {
			isNew[op.Chain.Name] = true
			guarded = append(guarded, ruleOf(op, ruleset.InsertRule, 0, dropGuard()))
			removals = append(removals, ruleOf(op, ruleset.DeleteRule, 0, dropGuard()))
		}
	}
	return guarded, [][]ruleset.Op{removals}
}

// ruleOf returns an operation on a rule of the chain of op.
func ruleOf(op ruleset.Op, kind ruleset.OpKind, index int, r ruleset.Rule) ruleset.Op {
	return ruleset.Op{Kind: kind, Family: op.Family, Table: op.Table, Chain: op.Chain, Index: index, Rule: r}
}

// deferPolicies returns the operations without changes of policies of base chains, and steps that
// set these policies later (see runSteps). New base chains lack the policy drop. Until the steps,
// each of these chains ends with a rule that has the verdict of its new policy:
//
//	the other operations; each chain gets its last rule
//	(grace period: no packet is left that may reach the policy)
//	the chains get their policies
//	the last rules are deleted
//
// A chain that is deleted needs no steps, because its rules stay until no packet enters it. With
// shadows, existing chains need none either, because a shadow ends with a verdict.
func deferPolicies(ops []ruleset.Op, shadows bool) (now []ruleset.Op, steps [][]ruleset.Op) {
	var last, policies, removals []ruleset.Op
	for _, op := range ops {
		chain := op.Chain
		isNew := op.Kind == ruleset.AddChain && chain.Hook != nil && chain.Hook.Policy.Kind == ruleset.Drop
		if isNew {
			op.Chain = accepting(chain)
			now = append(now, op)
		} else if op.Kind != ruleset.ChangePolicy || shadows {
			now = append(now, op)
			continue
		}
		op.Kind, op.Chain = ruleset.ChangePolicy, chain
		end := temporaryRule(chain.Hook.Policy)
		last = append(last, ruleOf(op, ruleset.InsertRule, len(chain.Rules), end))
		policies = append(policies, op)
		removals = append(removals, ruleOf(op, ruleset.DeleteRule, len(chain.Rules), end))
	}
	now = slices.Insert(now, len(now)-len(phasesOf(now).destroy), last...)
	return now, [][]ruleset.Op{policies, removals}
}

// emptyBases replaces the deletions of base chains by the deletions of their rules. deletions has
// the deletions of the chains, for a later transaction.
//
// A chain keeps its rules in the transaction that deletes it (measured on Linux 6.18). Until the
// chain has left its hook, these rules still evaluate packets. Their sets are already empty, so
// they drop the packets. An empty chain accepts them. Its later deletion changes no verdict, so it
// needs no epoch and no grace period.
func emptyBases(ops []ruleset.Op) (now, deletions []ruleset.Op) {
	var rules []ruleset.Op
	for _, op := range ops {
		if op.Kind != ruleset.DeleteChain || op.Chain.Hook == nil || op.Chain.Hook.Policy.Kind != ruleset.Accept {
			now = append(now, op)
			continue
		}
		empty := *op.Chain
		empty.Rules = nil
		for i := len(op.Chain.Rules) - 1; i >= 0; i-- {
			rules = append(rules, ruleset.Op{
				Kind: ruleset.DeleteRule, Family: op.Family, Table: op.Table, Chain: &empty, Index: i,
				Rule: op.Chain.Rules[i],
			})
		}
		op.Chain = &empty
		deletions = append(deletions, op)
	}
	return slices.Insert(now, len(now)-len(phasesOf(now).destroy), rules...), deletions
}

// accepting returns a copy of a base chain with the policy accept.
func accepting(c *ruleset.Chain) *ruleset.Chain {
	chain, hook := *c, *c.Hook
	hook.Policy = ruleset.Verdict{Kind: ruleset.Accept}
	chain.Hook = &hook
	return &chain
}

// seenLate reports whether packets see the effect of the operation later than the rest of its
// transaction.
func seenLate(op *ruleset.Op) bool {
	switch op.Kind {
	case ruleset.AddElements, ruleset.DeleteElements:
		return op.Set.Interval
	case ruleset.InsertRule, ruleset.ReplaceRule:
		return slices.ContainsFunc(op.Rule.Matches, func(m ruleset.Match) bool {
			in, ok := m.(ruleset.In)
			return ok && slices.ContainsFunc(in.Elements, isInterval)
		}) || slices.ContainsFunc(op.Rule.Statements, func(s ruleset.Statement) bool {
			m, ok := s.(ruleset.VMap)
			return ok && slices.ContainsFunc(m.Elements, isInterval)
		})
	}
	return false
}

func isInterval(el ruleset.Element) bool { return el.Last != nil || el.Ends != nil }

func anyLate(ops []ruleset.Op) bool {
	return slices.ContainsFunc(ops, func(op ruleset.Op) bool { return seenLate(&op) })
}

// inTurn reports whether operations need several transactions, because packets would see some of
// them later than others.
func inTurn(ops []ruleset.Op, c shadowConditions) bool {
	if needsGrace(ops) {
		return true
	}
	if !anyLate(ops) {
		return false
	}
	p := phasesOf(ops)
	return len(p.live) > 0 && anyLate(p.build) || needsShadows(p.live, c)
}

// addsChains reports whether the operations add chains to which other chains lead.
func (p *phases) addsChains() bool {
	return slices.ContainsFunc(p.build, func(op ruleset.Op) bool { return op.Kind == ruleset.AddChain })
}
