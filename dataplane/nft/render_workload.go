// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// iface is what is known of one interface that a workload endpoint claims.
type iface struct {
	claims map[*subject]struct{}
	placed []placed
}

// placed is an element that an interface or an endpoint has in one of our sets.
type placed struct{ set, key string }

// renderWorkload renders the chains of a workload endpoint. One whose interface another one claims too has none: there is
// no telling whose policy counts.
func (r *Renderer) renderWorkload(s *subject) {
	e := s.workload
	if !ruleset.ValidIfname(e.Interface) {
		s.err = fmt.Errorf("%q is no interface name", e.Interface) // none can exist
		return
	}
	if other := r.otherClaim(s); other != nil {
		s.err = fmt.Errorf("interface %s is also that of %s", e.Interface, other.key)
		return
	}
	if e.Down { // S35
		return
	}
	if s.err = checkEndpoint(e); s.err != nil {
		return
	}
	from, err1 := r.workloadRules(s, egress, e.Egress, e.Profiles)
	to, err2 := r.workloadRules(s, ingress, e.Ingress, e.Profiles)
	if s.err = errors.Join(dedupe([]error{err1, err2})...); s.err != nil {
		return
	}
	s.ok = true
	sends := append(r.sourceRules(e), knownConnections(), always(jump(chainSends)))
	r.addChain(s, &ruleset.Chain{Name: keyName("from", s.key), Rules: append(sends, from...)})
	r.addChain(s, &ruleset.Chain{Name: keyName("to", s.key), Rules: append(append([]ruleset.Rule{knownConnections()}, r.midstream()...), to...)})
}

// checkEndpoint reports addresses that cannot be rendered.
func checkEndpoint(e *dataplane.Endpoint) error {
	bad := func(a netip.Addr) bool { return !a.IsValid() || a.Zone() != "" || a.Is4In6() }
	for _, a := range e.Addresses {
		if bad(a) {
			return fmt.Errorf("address %s", a)
		}
	}
	for _, p := range e.AllowedSources {
		if !p.IsValid() || bad(p.Addr()) {
			return fmt.Errorf("allowed source %s", p)
		}
	}
	for _, n := range e.NATs {
		if bad(n.InternalIP) || bad(n.ExternalIP) || n.InternalIP.Is4() != n.ExternalIP.Is4() {
			return fmt.Errorf("floating address %s of %s", n.ExternalIP, n.InternalIP)
		}
	}
	return nil
}

// sourceRules drop what has a source that the workload must not send from (S119).
func (r *Renderer) sourceRules(e *dataplane.Endpoint) []ruleset.Rule {
	sources := slices.Clone(e.AllowedSources)
	for _, a := range e.Addresses {
		sources = append(sources, netip.PrefixFrom(a, a.BitLen()))
	}
	var rules []ruleset.Rule
	for _, f := range families() {
		matches := []ruleset.Match{ofFamily(f)}
		if nets := mergeNets(prefixesOf(f, sources)); len(nets) > 0 {
			if nets[0].everything() {
				continue
			}
			matches = append(matches, netMatch(saddr(f), nets, true))
		}
		rules = append(rules, r.refusal("false source", matches...))
	}
	return rules
}

// otherClaim returns the first other endpoint of the same interface.
func (r *Renderer) otherClaim(s *subject) *subject {
	var first *subject
	for o := range r.interfaces[s.workload.Interface].claims {
		if o != s && (first == nil || o.key.Compare(first.key) < 0) {
			first = o
		}
	}
	return first
}

// claim notes that a workload endpoint has an interface, and unclaim that it no longer has. The others of
// that interface are judged anew.
func (r *Renderer) claim(s *subject) {
	name := s.workload.Interface
	i := r.interfaces[name]
	if i == nil {
		i = &iface{claims: map[*subject]struct{}{}}
		r.interfaces[name] = i
	}
	i.claims[s] = struct{}{}
	if len(i.claims) == 1 && !strings.HasPrefix(name, r.cfg.InterfacePrefix) {
		r.oddNames++
	}
	r.touchInterface(name)
}

func (r *Renderer) unclaim(s *subject) {
	name := s.workload.Interface
	delete(r.interfaces[name].claims, s)
	if len(r.interfaces[name].claims) == 0 && !strings.HasPrefix(name, r.cfg.InterfacePrefix) {
		r.oddNames--
	}
	r.touchInterface(name)
}

func (r *Renderer) touchInterface(name string) {
	for o := range r.interfaces[name].claims {
		r.dirtySubjects[o] = struct{}{}
	}
	r.dirtyInterfaces[name] = struct{}{}
}

// renderInterface puts the elements that lead to and from one interface into the maps, and takes away those that no longer should.
func (r *Renderer) renderInterface(name string) {
	i := r.interfaces[name]
	if i == nil {
		return
	}
	var now []placed
	put := func(set string, e ruleset.Element) {
		r.elements[set].put(e)
		now = append(now, placed{set, elementKey(e)})
	}
	if len(i.claims) > 0 && ruleset.ValidIfname(name) {
		for s := range i.claims {
			r.place(name, s, put)
			break // several are all blocked alike
		}
	}
	i.placed = r.replacePlaced(i.placed, now)
	if len(i.claims) == 0 {
		delete(r.interfaces, name)
	}
	r.workloadInterfaceChanged(name)
}

// replacePlaced removes what was placed and is no longer.
func (r *Renderer) replacePlaced(old, now []placed) []placed {
	keep := make(map[placed]bool, len(now))
	for _, p := range now {
		keep[p] = true
	}
	for _, p := range old {
		if !keep[p] {
			r.elements[p.set].remove(p.key)
		}
	}
	return now
}

// place puts the elements of one endpoint's interface.
func (r *Renderer) place(name string, s *subject, put func(set string, e ruleset.Element)) {
	put(setEndpoints, element(nil, ruleset.Ifname(name)))
	if !s.ok {
		put(mapTo, element(&ruleset.Verdict{Kind: ruleset.Drop}, ruleset.Ifname(name)))
		return
	}
	put(setUp, element(nil, ruleset.Ifname(name)))
	// Not goto: a packet under way when these chains are made finds them empty, and has to come back to where it drops.
	to, from := jump(keyName("to", s.key)), jump(keyName("from", s.key))
	put(mapTo, element(&to, ruleset.Ifname(name)))
	put(mapFrom, element(&from, ruleset.Ifname(name)))
	for _, a := range s.workload.Addresses {
		if a.Is6() {
			put(setSource6, element(nil, ruleset.Ifname(name), ruleset.Addr(a)))
		}
	}
}
