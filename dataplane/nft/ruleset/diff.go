// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"strings"
)

// Diff returns nft commands, one a line, that turn the old table into the new one in one
// transaction: fed to nft -f where old is loaded, they leave new. Nil means that there is
// no table. Equal tables give "". Both tables must be valid and normalized.
func Diff(old, new *Table) string {
	switch {
	case old == nil && new == nil:
		return ""
	case new == nil:
		return fmt.Sprintf("delete table %s\n", old.ident())
	case old == nil:
		old = &Table{Family: new.Family, Name: new.Name}
		d := newDiffer(old, new)
		return fmt.Sprintf("add table %s\n%s", new.ident(), d.commands())
	case old.Family != new.Family || old.Name != new.Name:
		return Diff(old, nil) + Diff(nil, new)
	}
	return newDiffer(old, new).commands()
}

// differ compares two tables of one name.
type differ struct {
	table                *Table
	oldSets, newSets     map[string]*Set
	oldChains, newChains map[string]*Chain
	old                  *Table
	b                    strings.Builder
}

func newDiffer(old, new *Table) *differ {
	d := &differ{
		table: new, old: old,
		oldSets: map[string]*Set{}, newSets: map[string]*Set{},
		oldChains: map[string]*Chain{}, newChains: map[string]*Chain{},
	}
	for _, s := range old.Sets {
		d.oldSets[s.Name] = s
	}
	for _, s := range new.Sets {
		d.newSets[s.Name] = s
	}
	for _, c := range old.Chains {
		d.oldChains[c.Name] = c
	}
	for _, c := range new.Chains {
		d.newChains[c.Name] = c
	}
	return d
}

// commands writes everything that refers out of the way first, then what was referred to, and
// builds up in the reverse order.
func (d *differ) commands() string {
	for _, c := range d.old.Chains {
		if len(c.Rules) > 0 && d.rulesChange(c.Name) {
			d.printf("flush chain %s %s", d.table.ident(), c.Name)
		}
	}
	for _, s := range d.old.Sets {
		d.shrinkSet(s)
	}
	for _, c := range d.old.Chains {
		if d.chainGoes(c.Name) {
			d.printf("delete chain %s %s", d.table.ident(), c.Name)
		}
	}
	for _, s := range d.table.Sets {
		if old := d.oldSets[s.Name]; old == nil || !old.sameHead(s) {
			d.printf("add %s %s %s { %s }", s.keyword(), d.table.ident(), s.Name, s.headText())
		}
	}
	for _, c := range d.table.Chains {
		if d.oldChains[c.Name] == nil || d.chainGoes(c.Name) {
			d.addChain(c)
		}
	}
	for _, s := range d.table.Sets {
		d.growSet(s)
	}
	for _, c := range d.table.Chains {
		if d.rulesChange(c.Name) {
			for _, r := range c.Rules {
				d.printf("add rule %s %s %s", d.table.ident(), c.Name, r)
			}
		}
	}
	return d.b.String()
}

func (d *differ) printf(format string, args ...any) {
	fmt.Fprintf(&d.b, format, args...)
	d.b.WriteByte('\n')
}

func (d *differ) addChain(c *Chain) {
	if c.Hook == nil {
		d.printf("add chain %s %s", d.table.ident(), c.Name)
		return
	}
	d.printf("add chain %s %s { %s }", d.table.ident(), c.Name, c.Hook)
}

// headText is the set's declaration on one line.
func (s *Set) headText() string {
	if s.Interval {
		return "type " + s.typeText() + "; flags interval;"
	}
	return "type " + s.typeText() + ";"
}

// chainGoes reports whether an old chain must be deleted, be it to come back with another hook.
func (d *differ) chainGoes(name string) bool {
	old, new := d.oldChains[name], d.newChains[name]
	return old != nil && (new == nil || !old.Hook.equal(new.Hook))
}

// setGoes reports whether an old set must be deleted, be it to come back with another type.
func (d *differ) setGoes(name string) bool {
	old, new := d.oldSets[name], d.newSets[name]
	return old != nil && (new == nil || !old.sameHead(new))
}

// rulesChange reports whether the chain's rules must be written anew: they changed, or they
// hold on to a set or chain that has to go.
func (d *differ) rulesChange(name string) bool {
	old, new := d.oldChains[name], d.newChains[name]
	if old == nil || new == nil || !old.Equal(new) {
		return true
	}
	for _, r := range old.Rules {
		if d.refersToGoing(r) {
			return true
		}
	}
	return false
}

// refersToGoing reports whether a rule holds on to a set or chain that has to go.
func (d *differ) refersToGoing(r Rule) bool {
	for _, m := range r.Matches {
		if l, ok := m.(Lookup); ok && d.setGoes(l.Set) {
			return true
		}
	}
	for _, s := range r.Statements {
		switch s := s.(type) {
		case Verdict:
			if d.chainGoes(s.Chain) {
				return true
			}
		case VMap:
			if d.setGoes(s.Map) {
				return true
			}
			for _, e := range s.Elements {
				if e.Verdict != nil && d.chainGoes(e.Verdict.Chain) {
					return true
				}
			}
		}
	}
	return false
}

// shrinkSet deletes a set, or those of its elements that go.
func (d *differ) shrinkSet(old *Set) {
	if d.setGoes(old.Name) {
		d.printf("delete %s %s %s", old.keyword(), d.table.ident(), old.Name)
		return
	}
	gone := d.missing(old, d.newSets[old.Name])
	switch {
	case len(gone) == 0:
	case d.refill(old):
		// Ranges that overlap deleted ones cannot come in the same transaction.
		d.printf("flush %s %s %s", old.keyword(), d.table.ident(), old.Name)
	default:
		d.printf("delete element %s %s { %s }", d.table.ident(), old.Name, elementsText(old.Key, gone, ", "))
	}
}

// growSet adds the elements that are new.
func (d *differ) growSet(s *Set) {
	old := d.oldSets[s.Name]
	added := s.Elements
	if old != nil && !d.setGoes(s.Name) && !d.refill(old) {
		added = d.missing(s, old)
	}
	if len(added) > 0 {
		d.printf("add element %s %s { %s }", d.table.ident(), s.Name, elementsText(s.Key, added, ", "))
	}
}

// refill reports whether the set is emptied and filled again: an interval set that loses elements.
func (d *differ) refill(old *Set) bool {
	return old.Interval && len(d.missing(old, d.newSets[old.Name])) > 0
}

// missing returns the elements of a that b lacks. A verdict that leads to a chain
// that is deleted and comes back counts as another verdict.
func (d *differ) missing(a, b *Set) []Element {
	has := make(map[string]bool, len(b.Elements))
	for _, e := range b.Elements {
		has[elementText(b.Key, e)] = true
	}
	var out []Element
	for _, e := range a.Elements {
		if !has[elementText(a.Key, e)] || e.Verdict != nil && d.chainGoes(e.Verdict.Chain) {
			out = append(out, e)
		}
	}
	return out
}
