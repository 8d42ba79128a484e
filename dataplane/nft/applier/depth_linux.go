// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// depths computes how many jumps and gotos may follow one another while chains have shadows. It
// considers the old and the new rules and elements, because the kernel has both at that time.
type depths struct {
	// forms has each chain in its old and its new state. targets has the chains in the elements of
	// verdict maps.
	forms   map[string][]*ruleset.Chain
	targets map[string]map[string]bool
	// shadowed has the chains with a shadow: a packet may go to such a chain and from there to its
	// shadow.
	shadowed map[string]bool
	known    map[string]int
}

// depth returns the greatest number of jumps and gotos that may follow one another. view has the
// old state.
func (p *phases) depth(shadowed []*ruleset.Chain, view *ruleset.State) int {
	d := depths{
		forms: map[string][]*ruleset.Chain{}, targets: map[string]map[string]bool{},
		shadowed: map[string]bool{}, known: map[string]int{},
	}
	for _, c := range view.Chains() {
		d.forms[c.Name] = []*ruleset.Chain{c}
	}
	for _, s := range view.Sets() {
		if s.Verdicts {
			d.add(s.Name, view.View(s.Name).Elements())
		}
	}
	for _, op := range slices.Concat(p.build, p.live) {
		if c := op.Chain; c != nil && !slices.Contains(d.forms[c.Name], c) {
			d.forms[c.Name] = append(d.forms[c.Name], c)
		}
		if op.Set != nil && op.Set.Verdicts {
			d.add(op.Set.Name, op.Elements)
		}
	}
	for _, c := range shadowed {
		d.shadowed[c.Name] = true
	}
	greatest := 0
	for name, forms := range d.forms {
		if forms[0].Hook != nil {
			greatest = max(greatest, d.of(name))
		}
	}
	return greatest
}

// add records the chains to which elements of a verdict map lead.
func (d *depths) add(set string, elements []ruleset.Element) {
	if d.targets[set] == nil {
		d.targets[set] = map[string]bool{}
	}
	for i := range elements {
		if v := elements[i].Verdict; v != nil && v.Chain != "" {
			d.targets[set][v.Chain] = true
		}
	}
}

// of returns how many jumps and gotos may follow one another from a chain on. If there is a loop,
// it returns more than the kernel allows. Neither the old nor the new state has a loop, but both
// together may have one.
func (d *depths) of(chain string) int {
	if depth, ok := d.known[chain]; ok {
		return depth
	}
	d.known[chain] = ruleset.MaxDepth + 1
	depth := 0
	follow := func(to string) { depth = max(depth, 1+d.of(to)) }
	for _, form := range d.forms[chain] {
		for i := range form.Rules {
			for to := range form.Rules[i].Chains() {
				follow(to)
			}
			for _, s := range form.Rules[i].Statements {
				if m, ok := s.(ruleset.VMap); ok {
					for to := range d.targets[m.Map] {
						follow(to)
					}
				}
			}
		}
	}
	if d.shadowed[chain] {
		depth++
	}
	d.known[chain] = depth
	return depth
}
