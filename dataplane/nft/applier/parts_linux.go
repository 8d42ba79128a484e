// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// phases of operations that do not fit into one transaction.
//
//	build    new sets with elements, new chains with rules: nothing leads to them yet, so no packet can tell
//	live     what packets see: in one transaction
//	destroy  what nothing leads to any more
//
// build and destroy can be cut anywhere. A live phase that is too large, or that packets would see
// at more than one moment, is carried out by shadows.
type phases struct{ build, live, destroy []ruleset.Op }

// phasesOf divides operations in the order of State.Prepare.
func phasesOf(ops []ruleset.Op) (p phases) {
	fresh := map[string]bool{}
	first := 0 // policies that become drop, which must not come before what else packets see
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

// needsGrace reports whether a packet under way may still look up something that is deleted: a Late
// element, or a set that is to be deleted after a grace period.
func needsGrace(ops []ruleset.Op) bool {
	return slices.ContainsFunc(ops, func(op ruleset.Op) bool {
		return op.Kind == ruleset.DeleteElements && op.Unseen ||
			op.Kind == ruleset.DeleteSet && op.Set.DeleteAfterGrace
	})
}

// inParts carries out operations that are too large for one transaction, or that packets would not
// see at one moment. d, if it is not nil, has the foreign objects in the table; view is as for
// phases.obstacle.
func (a *Applier) inParts(ops []ruleset.Op, d *readback.Difference, view *ruleset.State) (err error) {
	p, before := phasesOf(ops), a.stats.Transactions
	a.logger.Debug("nftables: transaction in parts", "table", a.cfg.Name, "limit", a.tx.limit)
	defer func() {
		if isRefused(err) && a.stats.Transactions != before { // The operations no longer fit what is there.
			err = fmt.Errorf("%w, by ourselves: %w", errChanged, err)
		}
	}()
	fits, err := a.fits(p.live, nil, a.epochs.writeEpoch)
	if err != nil {
		return err
	}
	reason := "" // why chains drop while they change
	if !fits || needsShadows(p.live, a.epochs.hasSet()) {
		reason = p.obstacle(view, d != nil)
		if reason != "" && !fits {
			return fmt.Errorf("applier: write table: %s in a transaction of more than %d bytes: %w",
				reason, a.tx.limit, unix.EMSGSIZE)
		}
		if reason == "" {
			s := a.planShadows(&p, d, view)
			switch fits, err := a.fits(s.live, d.ForeignBases(), a.epochs.writeEpochOfShadows); {
			case err != nil:
				return err
			case fits:
				return a.byShadows(s, d)
			}
			reason = "the transaction that leads to shadows is too large"
		}
		a.logger.Debug("nftables: chains drop while they change", "table", a.cfg.Name, "reason", reason)
	}
	if reason != "" {
		if err = a.tx.cut(p.build); err == nil {
			err = a.blocked(&p, fits, d, view)
		}
	} else {
		err = a.commitVisible(&p)
	}
	if err != nil {
		return err
	}
	if d == nil && (needsGrace(ops) || a.later.size > 0) {
		return a.deleteUnused(p.destroy)
	}
	if needsGrace(ops) || d != nil && d.Foreign.Maps {
		_ = a.grace.synchronize() // as in deleteUnused; foreign objects go right after this
	}
	return a.tx.cut(p.destroy)
}

// commitVisible commits the operations that packets see, and the new objects that these refer to.
// It uses one transaction, unless that would be too large or packets would see part of it late.
func (a *Applier) commitVisible(p *phases) error {
	if !anyLate(p.build) {
		err := a.epochs.commitLive(slices.Concat(p.build, p.live), nil)
		if size := new(netlink.SizeError); !errors.As(err, &size) {
			return err
		}
	}
	if err := a.tx.cut(p.build); err != nil {
		return err
	}
	return a.epochs.commitLive(p.live, nil)
}

// fits reports whether one transaction can hold the operations, as encoded by write.
func (a *Applier) fits(ops []ruleset.Op, d *readback.Difference, write epochWriter) (bool, error) {
	_, err := write(ops, d)
	return a.writer.batch.Total() <= a.tx.limit, err
}

// dropGuard returns the rule by which a chain drops all packets while it changes.
func dropGuard() ruleset.Rule { return temporaryRule(ruleset.Verdict{Kind: ruleset.Drop}) }

// temporaryRule returns a rule that exists only while the table changes.
func temporaryRule(v ruleset.Verdict) ruleset.Rule {
	return ruleset.Rule{Statements: []ruleset.Statement{v}, Comment: "table is being changed"}
}

// blocked runs the live phase, in one transaction if fits is set. Meanwhile a chain drops all
// packets if the phase changes the chain or a set that the chain looks up. Packets use no such
// chain then, so there is no need for an epoch.
func (a *Applier) blocked(p *phases, fits bool, d *readback.Difference, view *ruleset.State) error {
	names, sets := p.concerned(view)
	var guards, removals []ruleset.Op
	for _, name := range names {
		c := view.Chain(name)
		guards = append(guards, ruleset.Op{Kind: ruleset.InsertRule, Chain: c, Rule: dropGuard()})
		removals = append(removals, ruleset.Op{Kind: ruleset.DeleteRule, Chain: c})
	}
	moved := slices.Clone(p.live)
	for i := range moved {
		if c := moved[i].Chain; c != nil && slices.Contains(names, c.Name) {
			moved[i].Index++
		}
	}
	if d != nil { // These go later, with the rest of their rules.
		for _, name := range d.Foreign.Chains {
			if slices.ContainsFunc(d.Foreign.Lookups[name], func(s string) bool { return sets[s] }) {
				foreign := &ruleset.Chain{Name: name}
				guards = append(guards, ruleset.Op{Kind: ruleset.InsertRule, Chain: foreign, Rule: dropGuard()})
			}
		}
	}
	if err := a.tx.cut(guards); err != nil {
		return err
	}
	_ = a.grace.synchronize() // where the kernel refuses to wait, a packet under way may use parts of both states
	commit := a.tx.cut
	if fits {
		commit = a.tx.commitPlain
	}
	if err := commit(moved); err != nil {
		return err
	}
	return a.tx.cut(removals)
}

// concerned returns the existing chains that the live phase changes or that look into sets that it
// changes, and these sets.
func (p *phases) concerned(view *ruleset.State) (names []string, sets map[string]bool) {
	chains, sets := map[string]bool{}, p.changedSets()
	without := map[string]bool{} // A chain that does not exist before or after cannot have a guard.
	for i := range p.live {
		switch op := &p.live[i]; op.Kind {
		case ruleset.InsertRule, ruleset.DeleteRule, ruleset.ReplaceRule, ruleset.ChangePolicy:
			chains[op.Chain.Name] = true
		case ruleset.AddChain, ruleset.DeleteChain:
			without[op.Chain.Name] = true
		}
	}
	for _, c := range sortedChains(view) {
		if !without[c.Name] && (chains[c.Name] || looksInto(c, sets)) {
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

// looksInto reports whether a chain's rules look into any of the sets.
func looksInto(c *ruleset.Chain, sets map[string]bool) bool {
	for i := range c.Rules {
		for name := range c.Rules[i].Sets() {
			if sets[name] {
				return true
			}
		}
	}
	return false
}

// looksByRaw reports whether a chain's rules look into any of the sets by expressions of their own.
func looksByRaw(c *ruleset.Chain, sets map[string]bool) bool {
	looks := func(part any) bool {
		raw, ok := part.(ruleset.Raw)
		return ok && slices.ContainsFunc(raw.Sets, func(s string) bool { return sets[s] })
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		if slices.ContainsFunc(r.Matches, func(m ruleset.Match) bool { return looks(m) }) ||
			slices.ContainsFunc(r.Statements, func(s ruleset.Statement) bool { return looks(s) }) {
			return true
		}
	}
	return false
}
