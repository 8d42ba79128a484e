// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"fmt"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// shadowPlan is a change that packets see at one moment, whatever its size and content. The kernel
// changes all rules of a transaction at one moment, so the live phase changes only rules:
//
//	build    new objects, and shadows: a copy, in its new state, of each set whose elements
//	         change, and of each chain whose rules change or reference such a set; rules of
//	         shadow chains reference shadow sets
//	         (grace period: no packet is left that entered before build)
//	live     one transaction: a first rule in each such chain goes to its shadow
//	         (grace period: no packet is left that entered before live)
//	sync     the sets and chains themselves change, in any number of transactions, while no
//	         packet reaches them
//	back     the first rules are deleted: chains and shadows are equal
//	         (grace period)
//	destroy  the shadows and all unreachable objects are deleted
//
// A packet that entered before live uses the old sets and chains. A packet that enters after live
// uses the new ones. Without the first grace period, a packet could be delayed until both build and
// live are over. This packet would see the new first rules in each chain that it enters afterwards,
// because the kernel keeps only two generations of rules.
//
// If the process ends during the change, the next process deletes the shadows. Unchanged rules keep
// their counters and limits. A shadow has its own, which are deleted with it.
type shadowPlan struct {
	build, live, sync, back, destroy []ruleset.Op
	// shadows is the number of the operations in destroy that delete shadows. These come first.
	shadows int
}

// shadowNames has the names of shadows, by the names of their sets and chains.
type shadowNames struct{ sets, chains map[string]string }

// shadowConditions has what decides, apart from the operations, whether a change needs shadows.
type shadowConditions struct {
	// epoch is set if the desired state has the set of the Epoch.
	epoch bool
	// overlap is set if a lookup may miss an element of an interval set while another one that
	// overlaps it replaces it: see missesOverlaps.
	overlap bool
}

// needsShadows reports whether one transaction of the operations would change existing objects at
// more than one moment. Elements of a single interval set change at one moment. So do the elements
// of two interval sets if no packet is looked up in both. With an Epoch, a change of an interval
// set that is not Apart also changes the epoch, at another moment.
func needsShadows(live []ruleset.Op, c shadowConditions) bool {
	if c.overlap && replacesOverlaps(live) {
		return true
	}
	if len(live) > 0 && live[0].Apart {
		return false
	}
	intervals, others := map[string]*ruleset.Set{}, c.epoch && needsEpoch(live)
	for i := range live {
		switch op := &live[i]; {
		case !seenLate(op):
			others = true
		case op.Set == nil: // a rule with intervals of its own
			return true
		default:
			intervals[op.Set.Name] = op.Set
		}
	}
	ipv4, ipv6 := 0, 0
	for _, s := range intervals {
		if !slices.Contains(s.Key, ruleset.TypeIPv6) {
			ipv4++
		}
		if !slices.Contains(s.Key, ruleset.TypeIPv4) {
			ipv6++
		}
	}
	return others && len(intervals) > 0 || ipv4 > 1 || ipv6 > 1
}

// obstacle returns the reason why the operations cannot use shadows, or "" if they can. view has
// the unchanged chains and sets. It has the others in the old state, or in the new state if
// adopting is set.
func (p *phases) obstacle(view *ruleset.State, adopting bool) string {
	for i := range p.live {
		switch op := &p.live[i]; {
		case op.Kind == ruleset.DeleteChain || op.Kind == ruleset.AddChain && op.Chain.Hook == nil:
			return "chain " + op.Chain.Name + " is deleted and recreated"
		case op.Kind == ruleset.DeleteSet || op.Kind == ruleset.AddSet:
			return "set " + op.Set.Name + " is deleted and recreated"
		case op.Set != nil && op.Set.Timed(): // the shadow would have elements again that have expired
			return "elements of set " + op.Set.Name + " have timeouts"
		}
	}
	sets := p.changedSets()
	shadowed := p.shadowed(view, sets)
	for _, c := range shadowed {
		if referencesByRaw(c, sets) {
			return "chain " + c.Name + " references a set in a raw expression"
		}
	}
	depth := 2*view.Depth() + 1 // each chain on the way may go to its shadow
	if depth > ruleset.MaxDepth && !adopting {
		depth = p.depth(shadowed, view)
	}
	if depth > ruleset.MaxDepth {
		return fmt.Sprintf("jumps would be %d deep, more than %d", depth, ruleset.MaxDepth)
	}
	return ""
}

// changedSets returns the names of the existing sets whose elements change.
func (p *phases) changedSets() map[string]bool {
	sets := map[string]bool{}
	for i := range p.live {
		if s := p.live[i].Set; s != nil {
			sets[s.Name] = true
		}
	}
	return sets
}

// shadowed returns the chains that need a shadow, in their new state, sorted by name.
func (p *phases) shadowed(view *ruleset.State, sets map[string]bool) []*ruleset.Chain {
	final, changed := map[string]*ruleset.Chain{}, map[string]bool{}
	for _, c := range view.Chains() {
		final[c.Name] = c
	}
	for i := range p.destroy {
		if op := &p.destroy[i]; op.Kind == ruleset.DeleteChain {
			delete(final, op.Chain.Name)
		}
	}
	for i := range p.build {
		if c := p.build[i].Chain; c != nil {
			final[c.Name] = c
		}
	}
	for i := range p.live {
		if c := p.live[i].Chain; c != nil {
			final[c.Name], changed[c.Name] = c, changed[c.Name] || p.live[i].Kind != ruleset.AddChain
		}
	}
	var all []*ruleset.Chain
	for _, name := range slices.Sorted(maps.Keys(final)) {
		if changed[name] || references(final[name], sets) {
			all = append(all, final[name])
		}
	}
	return all
}

func isRuleOp(op *ruleset.Op) bool {
	return op.Kind == ruleset.InsertRule || op.Kind == ruleset.DeleteRule || op.Kind == ruleset.ReplaceRule
}

// shadows plans operations that have no obstacle. name returns names that are not in use. Shadow
// chains reference a shadow of the Epoch's set, which no transaction replaces, because a packet
// that reaches them is not stale.
func (p *phases) shadows(view *ruleset.State, epoch string, name func() string) *shadowPlan {
	sets := p.changedSets()
	chains := p.shadowed(view, sets)
	names := shadowNames{sets: map[string]string{}, chains: map[string]string{}}
	var s shadowPlan
	var fill, drop []ruleset.Op
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		shadow, elements := p.shadowSet(set, name(), view)
		names.sets[set] = shadow.Name
		fill = append(fill, ruleset.Op{Kind: ruleset.AddSet, Set: shadow})
		if len(elements) > 0 {
			fill = append(fill, ruleset.Op{Kind: ruleset.AddElements, Set: shadow, Elements: elements})
		}
		drop = append(drop, ruleset.Op{Kind: ruleset.DeleteSet, Set: shadow})
	}
	usesEpoch := func(c *ruleset.Chain) bool { return references(c, map[string]bool{epoch: true}) }
	if set := view.Set(epoch); set != nil && slices.ContainsFunc(chains, usesEpoch) {
		shadow := *set
		shadow.Name = name()
		names.sets[epoch] = shadow.Name
		fill = append(fill, ruleset.Op{Kind: ruleset.AddSet, Set: &shadow},
			ruleset.Op{Kind: ruleset.AddElements, Set: &shadow, Elements: view.View(epoch).Elements()})
		drop = append(drop, ruleset.Op{Kind: ruleset.DeleteSet, Set: &shadow})
	}
	var heads []ruleset.Op
	for _, c := range chains {
		shadow := names.shadowChain(c, name())
		names.chains[c.Name] = shadow.Name
		fill = append(append(fill, ruleset.Op{Kind: ruleset.AddChain, Chain: shadow}), insertRules(shadow)...)
		head := ruleset.Rule{Statements: []ruleset.Statement{ruleset.Verdict{Kind: ruleset.Goto, Chain: shadow.Name}}}
		heads = append(heads, ruleset.Op{Kind: ruleset.InsertRule, Chain: c, Rule: head})
		s.back = append(s.back, ruleset.Op{Kind: ruleset.DeleteRule, Chain: c})
		s.destroy = append(s.destroy, ruleset.Op{Kind: ruleset.DeleteChain, Chain: shadow})
	}
	s.destroy = append(s.destroy, drop...)
	s.shadows = len(s.destroy)
	p.addToPhases(&s, names, fill, heads)
	return &s
}

// addToPhases adds each operation to a phase in which packets do not see it. If there is none, the
// operation is part of live.
func (p *phases) addToPhases(s *shadowPlan, names shadowNames, fill, heads []ruleset.Op) {
	fresh := map[string]bool{}
	for _, op := range p.build {
		if op.Kind == ruleset.AddChain {
			fresh[op.Chain.Name] = true
		}
		s.put(&s.build, op, names)
	}
	s.build = append(s.build, fill...)
	for _, op := range p.live {
		s.put(&s.live, op, names)
	}
	for _, head := range heads {
		if fresh[head.Chain.Name] {
			s.build = append(s.build, head)
		} else {
			s.live = append(s.live, head)
		}
	}
	for _, op := range p.destroy { // packets reach an old base chain by its hook
		if op.Kind == ruleset.DeleteChain && op.Chain.Hook != nil {
			s.live = append(s.live, op)
		} else {
			s.destroy = append(s.destroy, op)
		}
	}
}

// put appends an operation to a phase. If the operation changes an object with a shadow, put
// appends it to sync.
func (s *shadowPlan) put(to *[]ruleset.Op, op ruleset.Op, names shadowNames) {
	switch {
	case op.Kind == ruleset.ChangePolicy:
		s.sync = append(s.sync, op)
	case isRuleOp(&op) && names.chains[op.Chain.Name] != "":
		op.Index++ // after the rule that goes to the shadow
		s.sync = append(s.sync, op)
	case op.Set != nil && names.sets[op.Set.Name] != "" && to == &s.live:
		s.sync = append(s.sync, op)
	default:
		*to = append(*to, op)
	}
}

// shadowSet returns the shadow of a set, with the given name, and the elements of the set in its
// new state.
func (p *phases) shadowSet(set, name string, view *ruleset.State) (*ruleset.Set, []ruleset.Element) {
	var shadow ruleset.Set
	var elements []ruleset.Element
	if s := view.Set(set); s != nil {
		shadow, elements = *s, view.View(set).Elements()
	}
	come, gone := map[string]ruleset.Element{}, map[string]bool{}
	for _, op := range slices.Concat(p.build, p.live) {
		if op.Set == nil || op.Set.Name != set {
			continue
		}
		shadow = *op.Set
		for i := range op.Elements {
			id := string(op.Set.ID(&op.Elements[i]))
			if gone[id] = true; op.Kind == ruleset.AddElements {
				come[id] = op.Elements[i]
			} else {
				delete(come, id)
			}
		}
	}
	shadow.Name, shadow.Elements = name, nil
	elements = slices.DeleteFunc(elements, func(e ruleset.Element) bool { return gone[string(shadow.ID(&e))] })
	return &shadow, append(elements, slices.SortedFunc(maps.Values(come), ruleset.CompareElements)...)
}

// shadowChain returns the shadow of a chain, with the given name. The shadow of a base chain ends
// with a rule instead of the chain's policy, because the policy changes later.
func (n shadowNames) shadowChain(c *ruleset.Chain, name string) *ruleset.Chain {
	shadow := &ruleset.Chain{Name: name}
	for i := range c.Rules {
		shadow.Rules = append(shadow.Rules, n.shadowRule(c.Rules[i]))
	}
	if c.Hook != nil {
		shadow.Rules = append(shadow.Rules, ruleset.Rule{Statements: []ruleset.Statement{c.Hook.Policy}})
	}
	return shadow
}

// shadowRule returns a copy of a rule that references shadows.
func (n shadowNames) shadowRule(r ruleset.Rule) ruleset.Rule {
	r.Matches, r.Statements = slices.Clone(r.Matches), slices.Clone(r.Statements)
	shadow := func(name string) string {
		if other := n.sets[name]; other != "" {
			return other
		}
		return name
	}
	for i, m := range r.Matches {
		if m, ok := m.(ruleset.Lookup); ok {
			m.Set = shadow(m.Set)
			r.Matches[i] = m
		}
	}
	for i, s := range r.Statements {
		switch s := s.(type) {
		case ruleset.VMap:
			s.Map = shadow(s.Map)
			r.Statements[i] = s
		case ruleset.NAT:
			s.Map = shadow(s.Map)
			r.Statements[i] = s
		case ruleset.Assign:
			s.Map = shadow(s.Map)
			r.Statements[i] = s
		}
	}
	return r
}

// nameGenerator makes names for temporary chains and sets.
type nameGenerator struct {
	last uint64 // the number in the last name
}

// unused returns a name that the table does not have and that this Applier has never used.
func (n *nameGenerator) unused(view *ruleset.State, d *readback.Difference) string {
	for {
		n.last++
		name := fmt.Sprintf("shadow-%d", n.last)
		used := view.Chain(name) != nil || view.Set(name) != nil
		if !used && (d == nil || !slices.Contains(d.Foreign.Chains, name) && !slices.Contains(d.Foreign.Sets, name)) {
			return name
		}
	}
}
