// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// group is the endpoints to which just the same tiers and profiles apply in one direction, and what becomes of their packets.
type group struct {
	dir   direction
	id    string
	tiers []*tierIndex // profiles are last
	users map[*subject]struct{}
	// outcomes has that of each live class that some rule asks for, nil while the endpoints have chains instead; others that of addresses in no
	// such class, by family.
	outcomes map[*class]*outcome
	others   [2]*outcome
	// weights has what each of these classes comes to in the kernel, counted in elements, and weight the sum.
	weights map[*class]int
	weight  int
	// classMap leads from a class to the number of its outcome, outcomeMap from there to its chain.
	classMap, outcomeMap *elementSet
	uses                 map[*outcome]int // how many classes lead there
	// beyond says that the classes come to too much: the endpoints have chains instead. broken says that something is wrong with the
	// policy: the endpoints drop, and no class is told from others.
	beyond, broken bool
}

// doubts are what has to be found out anew for a group.
type doubts struct {
	all     bool
	classes map[*class]struct{}
}

// err returns what is wrong with the policy of the group: its endpoints drop.
func (g *group) err() error {
	var errs []error
	for _, t := range g.tiers {
		errs = append(errs, t.err())
	}
	return errors.Join(errs...)
}

// chain returns the name of the group's chain.
func (g *group) chain() string { return "group-" + string(g.dir) + "/" + g.id }

// group returns the group of an endpoint in one direction, made where it is not there, and notes who is in it.
func (r *Renderer) group(user *subject, dir direction, tiers []dataplane.TierPolicies, profiles []string) *group {
	parts := []string{string(dir)}
	for _, spec := range tiers {
		parts = append(parts, r.tierHash(spec))
	}
	id := hash(append(append(parts, "profiles"), profiles...)...)
	g := r.classes.groups[id]
	if g == nil {
		mark := []ruleset.Type{ruleset.TypeClassID}
		g = &group{
			dir: dir, id: id, users: map[*subject]struct{}{}, outcomes: map[*class]*outcome{}, weights: map[*class]int{}, uses: map[*outcome]int{},
			classMap:   newElementSet(ruleset.Set{Name: "gc-" + id, Key: mark, Data: mark}),
			outcomeMap: newElementSet(ruleset.Set{Name: "go-" + id, Key: mark, Verdicts: true}),
		}
		if left := r.classes.left[id]; left != nil { // in this flush
			g.classMap, g.outcomeMap = left.classMap, left.outcomeMap
			delete(r.classes.left, id)
		}
		r.classes.groups[id], r.classes.changed[id] = g, g
		for _, spec := range tiers {
			g.tiers = append(g.tiers, r.tierIndex(g, spec, false))
		}
		for _, name := range profiles {
			spec := dataplane.TierPolicies{Policies: []policy.Key{profileKey(name)}, DefaultAction: policy.Pass}
			g.tiers = append(g.tiers, r.tierIndex(g, spec, true))
		}
		r.doubt(g, nil)
	}
	g.users[user] = struct{}{}
	return g
}

// leaveGroup notes that an endpoint is in the group no longer. The last to leave takes it away.
func (r *Renderer) leaveGroup(user *subject, g *group) {
	delete(g.users, user)
	if len(g.users) > 0 {
		return
	}
	delete(r.classes.groups, g.id)
	delete(r.classes.doubts, g)
	for _, t := range g.tiers {
		r.leaveIndex(g, t)
	}
	r.withdraw(g)
	r.classes.weight -= g.weight
	if g.beyond {
		r.classes.beyond--
	}
	g.outcomes, g.weights = nil, nil
	r.classes.left[g.id] = g
	r.classes.unbound = true
}

// doubt has the outcome of a class found anew for a group; of all, and of what is in none, where c is nil.
func (r *Renderer) doubt(g *group, c *class) {
	d := r.classes.doubts[g]
	if d == nil {
		d = &doubts{classes: map[*class]struct{}{}}
		r.classes.doubts[g] = d
	}
	if c == nil {
		d.all = true
	} else {
		d.classes[c] = struct{}{}
	}
}

// takeStock brings up to date which classes the rules of a group tell from others, and what they come to.
func (r *Renderer) takeStock(g *group, d *doubts) {
	before := g.weight
	defer func() { r.classes.weight += g.weight - before }()
	if broken := g.err() != nil; broken != g.broken {
		g.broken, d.all = broken, true
	}
	if d.all {
		for c := range g.outcomes {
			d.classes[c] = struct{}{}
		}
		for _, t := range g.tiers {
			for a := range t.asked {
				for c := range a.classes {
					d.classes[c] = struct{}{}
				}
			}
		}
	}
	for c := range d.classes {
		_, had := g.outcomes[c]
		asks := !g.broken && c.live && g.asks(c)
		g.weight -= g.weights[c]
		switch {
		case asks:
			g.weights[c] = r.weigh(g, c)
			g.weight += g.weights[c]
			if !had {
				g.outcomes[c] = nil
			}
		case had:
			r.lead(g, c, nil)
			delete(g.outcomes, c)
			delete(g.weights, c)
		}
	}
}

// ruleWeight is how many elements a rule comes to, by its size in the kernel.
const ruleWeight = 4

// weigh returns what a class comes to in the kernel, counted in elements: its own, and the rules that have to be written as they are for it. All others
// together are few. It may be less, where other classes have the same outcome.
func (r *Renderer) weigh(g *group, c *class) int {
	weight := 1
	for _, t := range g.tiers {
		if t.whole == 0 {
			continue
		}
		r.classes.scratch = t.candidates(c, r.classes.scratch)
		for _, i := range r.classes.scratch {
			for k := range t.places[i].rules {
				if rule := &t.places[i].rules[k]; !rule.plain && rule.holds(c) {
					weight += ruleWeight
				}
			}
		}
	}
	return weight
}

// asks reports whether a rule of the group asks for something that tells the class from others.
func (g *group) asks(c *class) bool {
	for _, a := range c.atoms {
		for _, t := range g.tiers {
			if a.tiers[t] > 0 {
				return true
			}
		}
	}
	return false
}

// settleGroup finds out what is in doubt, and writes the group's chain.
func (r *Renderer) settleGroup(g *group, d *doubts) {
	if d.all {
		for i, none := range []*class{r.classes.v4.none, r.classes.v6.none} {
			was := g.others[i]
			g.others[i] = r.outcome(g, none)
			r.dropOutcome(was)
		}
	}
	for c := range d.classes {
		if _, asks := g.outcomes[c]; asks {
			r.lead(g, c, r.outcome(g, c))
		}
	}
	r.setChain(g.rules())
	g.classMap.wanted = len(g.outcomes) > 0
	g.outcomeMap.wanted = g.classMap.wanted
}

// withdraw takes the group's part out of the table.
func (r *Renderer) withdraw(g *group) {
	for c := range g.outcomes {
		r.lead(g, c, nil)
	}
	for i := range g.others {
		r.dropOutcome(g.others[i])
		g.others[i] = nil
	}
	g.classMap.wanted, g.outcomeMap.wanted = false, false
	r.classes.changed[g.id] = g
	r.dropChain(g.chain())
}

// lead has a class lead to an outcome, nil for none.
func (r *Renderer) lead(g *group, c *class, o *outcome) {
	was := g.outcomes[c]
	g.outcomes[c] = o
	if o == nil {
		g.classMap.remove(elementKey(leads(c, &outcome{})))
	} else {
		g.classMap.put(leads(c, o))
		if g.uses[o]++; g.uses[o] == 1 {
			g.outcomeMap.put(o.element())
		}
	}
	if was != nil {
		if g.uses[was]--; g.uses[was] == 0 {
			delete(g.uses, was)
			g.outcomeMap.remove(elementKey(was.element()))
		}
		r.dropOutcome(was)
	}
	r.classes.changed[g.id] = g
}

// leads returns the element that leads from a class to an outcome.
func leads(c *class, o *outcome) ruleset.Element {
	return ruleset.Element{Key: []ruleset.Value{ruleset.Uint32(c.number)}, Data: []ruleset.Value{ruleset.Uint32(o.number)}}
}

// rules returns the chain of the group.
func (g *group) rules() *ruleset.Chain {
	c := &ruleset.Chain{Name: g.chain()}
	if len(g.outcomes) > 0 {
		c.Rules = append(c.Rules,
			always(ruleset.Assign{Field: carrier, Fields: []ruleset.Field{carrier}, Map: g.classMap.head.Name}),
			vmap(g.outcomeMap.head.Name, carrier))
	}
	if g.others[0] != g.others[1] {
		c.Rules = append(c.Rules, when(goTo(g.others[0].chain), ofFamily(ipv4)))
	}
	c.Rules = append(c.Rules, always(goTo(g.others[1].chain)))
	c.Rules[0].Comment = comment(g.describe())
	return c
}

// describe names the tiers and profiles.
func (g *group) describe() string {
	var names []string
	for _, t := range g.tiers {
		if t.profile {
			names = append(names, "profile "+t.spec.Policies[0].Name)
		} else {
			names = append(names, "tier "+t.spec.Tier)
		}
	}
	return strings.Join(names, ", ")
}
