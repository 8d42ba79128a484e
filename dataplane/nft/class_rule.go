// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// classRule is a rule taken apart: what it asks about the other side's address, which the address's class answers, and the rest.
type classRule struct {
	rule *dataplane.Rule
	// The address must be in all atoms of the one list, and in none of the other.
	in, not []question
	// never says that no address of a family will do.
	never [2]bool
	// plain says that the rest asks for the protocol and for destination ports at most, and does nothing but decide. always
	// says that it asks for nothing.
	plain, always bool
}

// question is an atom that a rule asks for, of addresses of some families: a list that holds all of a family need not be asked for.
type question struct {
	*atom
	of [2]bool
}

func familyIndex(f family) int {
	if f == ipv6 {
		return 1
	}
	return 0
}

// holds reports whether the rule's questions are answered with yes for the addresses of a class.
func (c *classRule) holds(of *class) bool {
	f := familyIndex(of.family)
	if c.never[f] {
		return false
	}
	for _, q := range c.in {
		if q.of[f] && !of.has(q.atom) {
			return false
		}
	}
	for _, q := range c.not {
		if q.of[f] && of.has(q.atom) {
			return false
		}
	}
	return true
}

// first returns the first atom that an address must be in; nil if there is none.
func (c *classRule) first(f int) *atom {
	for _, q := range c.in {
		if q.of[f] {
			return q.atom
		}
	}
	return nil
}

// eachAtom calls f with every atom that the rule asks for.
func (c *classRule) eachAtom(f func(*atom)) {
	for _, q := range c.in {
		f(q.atom)
	}
	for _, q := range c.not {
		f(q.atom)
	}
}

// compile takes the rules of one direction apart. They have been checked.
func (r *Renderer) compile(o *ruleOwner, dir direction) []classRule {
	rules := o.rules(dir)
	out := make([]classRule, len(rules))
	for i := range rules {
		c := &out[i]
		c.rule = &rules[i]
		r.questions(c, peerSide(c.rule, dir))
		may := ruleFamilies(c.rule)
		for i, f := range families() {
			c.never[i] = c.never[i] || !slices.Contains(may, anyFamily) && !slices.Contains(may, f)
		}
		rest := c.rest(o.isProfile(), dir)
		src, dst := &rest.Source, &rest.Destination
		c.plain = rest.ICMP == nil && rest.NotICMP == nil && rest.Action != policy.Log && !hasAddresses(src) && !hasAddresses(dst) &&
			len(src.Ports)+len(src.NotPorts) == 0 &&
			!r.cfg.Counters && !r.cfg.VerdictLog.Enabled // what is counted or logged must tell which rule it was
		c.always = c.plain && rest.Protocol == 0 && rest.NotProtocol == 0 && len(dst.Ports)+len(dst.NotPorts) == 0
	}
	return out
}

// peerSide returns the side of a rule that the other end's address is on.
func peerSide(rule *dataplane.Rule, dir direction) *dataplane.Match {
	if dir == egress {
		return &rule.Destination
	}
	return &rule.Source
}

// rest returns the rule without what it asks about the other side's address.
func (c *classRule) rest(profile bool, dir direction) *mergedRule {
	m := &mergedRule{*c.rule, []string{c.rule.ID}}
	if profile && m.Action == policy.Pass { // S32
		m.Action = policy.Deny
	}
	peer := peerSide(&m.Rule, dir)
	peer.Nets, peer.NotNets, peer.Sets, peer.NotSets = nil, nil, nil, nil
	return m
}

// writeKey writes what stands for all that the rule does. No other rule has the same.
func (m *mergedRule) writeKey(key *strings.Builder, plain bool) {
	ports := func(m *dataplane.Match) {
		for _, ports := range [...][]policy.Port{m.Ports, m.NotPorts} {
			key.WriteByte(';')
			for _, p := range ports {
				fmt.Fprintf(key, "%d-%d,", p.First, p.Last)
			}
		}
	}
	fmt.Fprintf(key, "%s %d!%d", m.Action, m.Protocol, m.NotProtocol)
	if plain {
		ports(&m.Destination)
		return
	}
	fmt.Fprintf(key, " %q ip %d", m.ids, m.IPVersion)
	for _, i := range [...]*policy.ICMP{m.ICMP, m.NotICMP} {
		key.WriteString(" icmp")
		if i == nil {
			continue
		}
		for _, v := range [...]*int{i.Type, i.Code} {
			if v != nil {
				fmt.Fprintf(key, " %d", *v)
			} else {
				key.WriteString(" *")
			}
		}
	}
	for _, side := range [...]*dataplane.Match{&m.Source, &m.Destination} {
		fmt.Fprintf(key, " %v %v %q %q %q %q", side.Nets, side.NotNets, side.Sets, side.NotSets, side.PortSets, side.NotPortSets)
		ports(side)
	}
}

// writeShapes writes which kernel sets there are for the IP sets that the rule asks for.
func (r *Renderer) writeShapes(key *strings.Builder, m *mergedRule) {
	for _, side := range [...]*dataplane.Match{&m.Source, &m.Destination} {
		for _, ids := range [...][]dataplane.IPSetID{side.Sets, side.NotSets, side.PortSets, side.NotPortSets} {
			for _, id := range ids {
				fmt.Fprintf(key, " %v", r.set(id).shape)
			}
		}
	}
}

// questions takes down what a rule asks of the addresses on one side. A list that has no prefix of a family is like an
// atom with no address in it (S68); one that has all of it is no question (S69, S70).
func (r *Renderer) questions(c *classRule, m *dataplane.Match) {
	lists := func(nets []netip.Prefix) (of, none, all [2]bool) {
		for i, f := range families() {
			ranges := mergeNets(prefixesOf(f, nets))
			none[i] = len(ranges) == 0
			all[i] = !none[i] && ranges[0].everything()
			of[i] = !none[i] && !all[i]
		}
		return of, none, all
	}
	if len(m.Nets) > 0 {
		of, none, _ := lists(m.Nets)
		c.never = none
		if of[0] || of[1] {
			c.in = append(c.in, question{r.listAtom(m.Nets), of})
		}
	}
	if len(m.NotNets) > 0 {
		of, _, all := lists(m.NotNets)
		c.never[0], c.never[1] = c.never[0] || all[0], c.never[1] || all[1]
		if of[0] || of[1] {
			c.not = append(c.not, question{r.listAtom(m.NotNets), of})
		}
	}
	for _, id := range m.Sets {
		c.in = append(c.in, question{r.setAtom(r.set(id)), [2]bool{true, true}})
	}
	for _, id := range m.NotSets {
		c.not = append(c.not, question{r.setAtom(r.set(id)), [2]bool{true, true}})
	}
}

func (r *Renderer) setAtom(s *ipSet) *atom {
	a := r.atom("set " + string(s.id))
	a.set = s
	return a
}

// listAtom returns the atom of a list of prefixes. Lists of the same prefixes are one.
func (r *Renderer) listAtom(nets []netip.Prefix) *atom {
	nets = slices.Clone(nets)
	for i := range nets {
		nets[i] = nets[i].Masked()
	}
	nets = distinct(nets)
	var content []byte
	for _, n := range nets {
		content = append(n.AppendTo(content), ' ')
	}
	a := r.atom("list " + hash(string(content)))
	a.nets = nets
	return a
}

func (r *Renderer) atom(name string) *atom {
	a := r.classes.atoms[name]
	if a == nil {
		r.classes.lastAtom++
		a = &atom{name: name, id: r.classes.lastAtom, tiers: map[*tierIndex]int{}, classes: map[*class]struct{}{}}
		r.classes.atoms[name] = a
	}
	return a
}

// prefixes returns those that hold more than one address. A list that has all of a family is not asked for, so it has none.
func (a *atom) prefixes(f family) []netip.Prefix {
	if a.set == nil {
		nets := slices.DeleteFunc(prefixesOf(f, a.nets), netip.Prefix.IsSingleIP)
		if ranges := mergeNets(nets); len(ranges) > 0 && ranges[0].everything() {
			return nil
		}
		return nets
	}
	if f == ipv4 {
		return a.set.nets4.sorted
	}
	return a.set.nets6.sorted
}

// hosts4 calls f with the full-length addresses of the family, and hosts6 likewise.
func (a *atom) hosts4(f func([4]byte)) {
	if a.set != nil {
		for h := range a.set.hosts4 {
			f(h)
		}
	}
	for _, n := range a.nets {
		if n.IsSingleIP() && n.Addr().Is4() {
			f(n.Addr().As4())
		}
	}
}

func (a *atom) hosts6(f func([16]byte)) {
	if a.set != nil {
		for h := range a.set.hosts6 {
			f(h)
		}
	}
	for _, n := range a.nets {
		if n.IsSingleIP() && n.Addr().Is6() {
			f(n.Addr().As16())
		}
	}
}
