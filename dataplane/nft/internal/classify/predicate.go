// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
)

// Predicate is a condition that rules test: an address is in an IP set or in a list of prefixes.
type Predicate struct {
	// name depends only on the condition. id is unique in a Classifier.
	name string
	id   uint64
	set  *sets.IPSet    // nil for a list of prefixes
	nets []netip.Prefix // nil for an IP set
	used bool
	// classes has the classes that have addresses and satisfy the predicate.
	classes map[*Class]struct{}
}

// Name returns a text that depends only on the condition.
func (p *Predicate) Name() string { return p.name }

// Classes returns the classes that have addresses and satisfy the predicate. The caller must not
// change the map.
func (p *Predicate) Classes() map[*Class]struct{} { return p.classes }

// Set returns the predicate of an IP set.
func (c *Classifier) Set(s *sets.IPSet) *Predicate {
	p := c.predicate("set " + string(s.ID))
	p.set = s
	return p
}

// List returns the predicate of a list of prefixes. Equal lists share a predicate.
func (c *Classifier) List(nets []netip.Prefix) *Predicate {
	nets = slices.Clone(nets)
	for i := range nets {
		nets[i] = nets[i].Masked()
	}
	nets = sets.Distinct(nets)
	var content []byte
	for _, n := range nets {
		content = append(n.AppendTo(content), ' ')
	}
	p := c.predicate("list " + sets.Hash(string(content)))
	p.nets = nets
	return p
}

// predicate returns the predicate with the name. If there is none, it creates one.
func (c *Classifier) predicate(name string) *Predicate {
	p := c.predicates[name]
	if p == nil {
		c.lastID++
		p = &Predicate{name: name, id: c.lastID, classes: map[*Class]struct{}{}}
		c.predicates[name] = p
	}
	return p
}

// prefixes returns the prefixes with more than one address. If a list contains all addresses of the
// family, it returns none, because rules do not need such a predicate.
func (p *Predicate) prefixes(f sets.Family) []netip.Prefix {
	if p.set == nil {
		nets := slices.DeleteFunc(sets.PrefixesOf(f, p.nets), netip.Prefix.IsSingleIP)
		if ranges := sets.MergeNets(nets); len(ranges) > 0 && ranges[0].Everything() {
			return nil
		}
		return nets
	}
	return p.set.Nets(f)
}

// eachHost calls f with each full-length address of the predicate in a family.
func eachHost[A addrBytes](p *Predicate, family sets.Family, f func(A)) {
	if p.set != nil {
		sets.EachHost(p.set, f)
	}
	for _, n := range sets.PrefixesOf(family, p.nets) {
		if n.IsSingleIP() {
			f(addrOf[A](n.Addr()))
		}
	}
}
