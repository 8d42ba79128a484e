// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Packets see all rules of a transaction change at one moment, and with them the elements of hash sets. There are two exceptions,
// measured on Linux 6.18. The kernel goes through the transaction in order after that moment, which takes it about a microsecond an object, and only then
//
//   - gives a new base chain its policy: until it comes to that, the chain accepts what its rules leave over;
//   - shows the elements of interval sets as they are now, at the very end: a new one is empty until then.
//
// So a base chain whose policy is to drop comes with a last rule that drops, which goes with a second transaction; and new interval sets are
// filled before anything looks into them. If such sets change together with other things that packets see, and it is not just a moment, the
// chains concerned are shut meanwhile.

// aMoment is how many objects a transaction may have for what it does to be of one moment: packets under way take as long.
const aMoment = 64

// seal adds to operations that make base chains the rules that drop meanwhile, and returns what takes them out again. With all, the
// rules come first in every such chain, and otherwise last in those whose policy is to drop.
func seal(ops []ruleset.Op, all bool) (sealed, open []ruleset.Op) {
	wanted := func(op *ruleset.Op) bool {
		return op.Kind == ruleset.AddChain && op.Chain.Hook != nil && (all || op.Chain.Hook.Policy.Kind == ruleset.Drop)
	}
	if !slices.ContainsFunc(ops, func(op ruleset.Op) bool { return wanted(&op) }) {
		return ops, nil
	}
	for i := 0; i < len(ops); i++ {
		op := ops[i]
		sealed = append(sealed, op)
		if !wanted(&op) {
			continue
		}
		at := 0
		if all {
			sealed = append(sealed, ruleset.Op{Kind: ruleset.InsertRule, Family: op.Family, Table: op.Table, Chain: op.Chain, Rule: block()})
		}
		for ; i+1 < len(ops) && ops[i+1].Kind == ruleset.InsertRule && ops[i+1].Chain.Name == op.Chain.Name; i++ { // They follow at once.
			next := ops[i+1]
			if all {
				next.Index++
			} else {
				at++
			}
			sealed = append(sealed, next)
		}
		if !all {
			sealed = append(sealed, ruleset.Op{Kind: ruleset.InsertRule, Family: op.Family, Table: op.Table, Chain: op.Chain, Index: at, Rule: block()})
		}
		open = append(open, ruleset.Op{Kind: ruleset.DeleteRule, Family: op.Family, Table: op.Table, Chain: op.Chain, Index: at})
	}
	return sealed, open
}

// holdPolicies sees to it that no packet meets old rules with a new policy that accepts, or new rules with an old one: policies of chains that stay change a moment after
// the rules do. Where something else changes too, a policy becomes accept in a second transaction, and a chain whose policy becomes drop has a last
// rule that drops until then.
func holdPolicies(ops []ruleset.Op) (now, later []ruleset.Op) {
	isPolicy := func(op ruleset.Op) bool { return op.Kind == ruleset.ChangePolicy }
	if !slices.ContainsFunc(ops, isPolicy) {
		return ops, nil
	}
	p := phasesOf(ops)
	if n := len(slices.DeleteFunc(slices.Clone(p.live), isPolicy)); n == 0 || n == len(p.live) {
		return ops, nil
	}
	var last []ruleset.Op
	for _, op := range ops {
		switch {
		case !isPolicy(op):
			now = append(now, op)
		case op.Chain.Hook.Policy.Kind == ruleset.Drop:
			now = append(now, op)
			rule := ruleset.Op{Kind: ruleset.InsertRule, Family: op.Family, Table: op.Table, Chain: op.Chain, Index: len(op.Chain.Rules), Rule: block()}
			last = append(last, rule)
			rule.Kind = ruleset.DeleteRule
			later = append(later, rule)
		default:
			later = append(later, op)
		}
	}
	return slices.Insert(now, len(now)-len(p.destroy), last...), later
}

// unseal takes the rules out again that seal and holdPolicies added, and changes policies.
func (a *Applier) unseal(open []ruleset.Op) error {
	if len(open) == 0 {
		return nil
	}
	if err := a.write(open, nil); err != nil {
		return err
	}
	return a.submit()
}

// seenLate reports whether packets see what an operation does later than the rest of its transaction.
func seenLate(op *ruleset.Op) bool {
	switch op.Kind {
	case ruleset.AddElements, ruleset.DeleteElements, ruleset.FlushSet:
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

// torn reports whether packets would see operations on what is there already half done for more than a moment, if these were one transaction: some
// late and others not.
func torn(live []ruleset.Op) bool {
	objects, late, others := 0, false, false
	for i := range live {
		op := &live[i]
		objects += max(1, len(op.Elements))
		late = late || seenLate(op)
		others = others || !seenLate(op) || op.Kind == ruleset.InsertRule || op.Kind == ruleset.ReplaceRule
	}
	return late && others && objects > aMoment
}

// inTurn reports whether operations have to be carried out one after the other, because packets would see some of them late.
func inTurn(ops []ruleset.Op) bool {
	if carried(ops) {
		return true
	}
	if !anyLate(ops) {
		return false
	}
	p := phasesOf(ops)
	return len(p.live) > 0 && anyLate(p.build) || torn(p.live)
}
