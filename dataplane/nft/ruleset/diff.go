// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"maps"
	"strings"
)

// Diff returns the fewest operations, in one transaction, that turn the old table into the new one.
// It returns none if the tables are equal. A nil table means that there is no table.
//
// Errors: those of Validate for each of the tables, and one for each flowtable that differs,
// because no operation changes a flowtable.
func Diff(old, new *Table) ([]Op, error) {
	switch {
	case old == nil && new == nil:
		return nil, nil
	case new == nil:
		return []Op{{Kind: DeleteTable, Family: old.Family, Table: old.Name}}, nil
	case old != nil && (old.Family != new.Family || old.Name != new.Name):
		ops, err := Diff(nil, new)
		if err != nil {
			return nil, err
		}
		return append([]Op{{Kind: DeleteTable, Family: old.Family, Table: old.Name}}, ops...), nil
	}
	state := NewState(new.Family, new.Name)
	var ops []Op
	if old == nil {
		ops = []Op{{Kind: AddTable, Family: new.Family, Table: new.Name}}
	} else {
		var err error
		if state, err = StateOf(old); err != nil {
			return nil, err
		}
	}
	change, err := state.Prepare(state.DeltaTo(new))
	if err != nil {
		return nil, err
	}
	return append(ops, change.Ops...), nil
}

// DeltaTo returns the delta that changes the State s into the table t. It leaves out chains that
// have the same pointer in s and in t; Prepare compares the others. The caller must not change t
// afterwards.
func (s *State) DeltaTo(t *Table) *Delta {
	d := &Delta{Sets: t.Sets, whole: true, flowtables: normalFlowtables(t.Flowtables)}
	sets, chains := maps.Clone(s.sets), maps.Clone(s.chains)
	for _, set := range t.Sets {
		if set != nil {
			delete(sets, set.Name)
		}
	}
	for _, c := range t.Chains {
		if c == nil {
			d.Chains = append(d.Chains, c) // Prepare refuses it.
			continue
		}
		if o := chains[c.Name]; o == nil || o.chain != c {
			d.Chains = append(d.Chains, c)
		}
		delete(chains, c.Name)
	}
	for name := range sets {
		d.DeleteSets = append(d.DeleteSets, name)
	}
	for name := range chains {
		d.DeleteChains = append(d.DeleteChains, name)
	}
	return d
}

// Script returns the operations as a script for nft -f. The script can be loaded if the kernel has
// the table to which the operations apply, for example the old table of Diff. To delete or replace
// a rule, nft 1.0.6 needs the handle of the rule, which only the kernel has. So if the operations
// delete or replace a rule of a chain, the script empties the chain and fills it again. The chain's
// counters then start at zero.
func Script(ops []Op) string {
	rest := map[string]int{}  // number of operations on the chain's rules that follow
	whole := map[string]int{} // 1: chain to empty and fill again; 2: it is emptied
	for _, op := range ops {
		switch op.Kind {
		case DeleteRule, ReplaceRule:
			whole[op.Chain.Name] = 1
			rest[op.Chain.Name]++
		case InsertRule:
			rest[op.Chain.Name]++
		}
	}
	var b strings.Builder
	for _, op := range ops {
		if op.Kind != InsertRule && op.Kind != DeleteRule && op.Kind != ReplaceRule {
			b.WriteString(op.String() + "\n")
			continue
		}
		name := op.Chain.Name
		switch {
		case whole[name] == 1:
			whole[name] = 2
			fmt.Fprintf(&b, "flush chain %s %s\n", op.ident(), name)
		case whole[name] == 0 && op.Index == len(op.Chain.Rules)-rest[name]:
			b.WriteString(op.add() + "\n")
		case whole[name] == 0:
			b.WriteString(op.String() + "\n")
		}
		if rest[name]--; rest[name] == 0 && whole[name] != 0 {
			for _, op.Rule = range op.Chain.Rules {
				b.WriteString(op.add() + "\n")
			}
		}
	}
	return b.String()
}

func (op Op) ident() string { return op.Family.String() + " " + op.Table }

// add returns the nft command that appends the operation's rule.
func (op Op) add() string {
	return fmt.Sprintf("add rule %s %s %s", op.ident(), op.Chain.Name, op.Rule.text(op.Family))
}

// String returns the operation as an nft command for people to read. The command identifies a rule
// by its index, which nft accepts only in insertions. For commands that nft accepts, use Script.
func (op Op) String() string {
	switch op.Kind {
	case AddTable:
		return "add table " + op.ident()
	case DeleteTable:
		return "delete table " + op.ident()
	case AddSet:
		return fmt.Sprintf(
			"add %s %s %s { %s }", op.Set.keyword(), op.ident(), op.Set.Name, strings.Join(op.Set.headText(), " "),
		)
	case DeleteSet:
		return fmt.Sprintf("delete %s %s %s", op.Set.keyword(), op.ident(), op.Set.Name)
	case AddElements:
		return fmt.Sprintf(
			"add element %s %s { %s }", op.ident(), op.Set.Name,
			elementsText(op.Set.Key, op.Set.Data, op.Elements, ", "),
		)
	case DeleteElements:
		keys := make([]Element, len(op.Elements))
		for i, e := range op.Elements {
			keys[i] = Element{Key: e.Key, Last: e.Last, Ends: e.Ends}
		}
		return fmt.Sprintf(
			"delete element %s %s { %s }", op.ident(), op.Set.Name, elementsText(op.Set.Key, nil, keys, ", "),
		)
	case AddChain:
		if op.Chain.Hook == nil {
			return fmt.Sprintf("add chain %s %s", op.ident(), op.Chain.Name)
		}
		return fmt.Sprintf("add chain %s %s { %s }", op.ident(), op.Chain.Name, op.Chain.Hook.text(op.Family))
	case ChangePolicy:
		return fmt.Sprintf("chain %s %s { policy %s; }", op.ident(), op.Chain.Name, op.Chain.Hook.Policy)
	case DeleteChain:
		return fmt.Sprintf("delete chain %s %s", op.ident(), op.Chain.Name)
	case InsertRule:
		return "insert rule " + op.position() + " " + op.Rule.text(op.Family)
	case DeleteRule:
		return "delete rule " + op.position()
	case ReplaceRule:
		return "replace rule " + op.position() + " " + op.Rule.text(op.Family)
	default:
		return "?"
	}
}

// position returns the position of the operation's rule, in nft syntax.
func (op Op) position() string {
	return fmt.Sprintf("%s %s index %d", op.ident(), op.Chain.Name, op.Index)
}
