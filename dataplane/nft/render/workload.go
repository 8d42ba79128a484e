// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// workloads renders workload endpoints to chains.
type workloads struct {
	statements  *statements
	table       *table
	attachments *attachments
	interfaces  *interfaces
}

// render renders the chains of a workload endpoint. If two endpoints have the same interface, both
// are at fault and have no chains: it is not known whose policy applies.
func (w *workloads) render(s *subject) {
	e := s.workload
	if !ruleset.ValidIfname(e.Interface) {
		s.err = fmt.Errorf("%q is not an interface name", e.Interface) // no interface can have such a name
		return
	}
	if s.err = w.interfaces.fault(e.Interface); s.err != nil { // S170
		return
	}
	if other := w.interfaces.otherClaim(s); other != nil {
		s.err = fmt.Errorf("interface %s also belongs to %s", e.Interface, other.key)
		return
	}
	if bridge := w.interfaces.bridge(e.Interface); bridge != "" { // S171
		if s.err = w.interfaces.bridges.conflict(s, bridge); s.err != nil {
			return
		}
	}
	if e.Down { // S35
		return
	}
	if s.err = checkEndpoint(e); s.err != nil {
		return
	}
	from, err1 := w.attachments.policyRules(s, match.Egress, e.Egress, e.Profiles)
	to, err2 := w.attachments.policyRules(s, match.Ingress, e.Ingress, e.Profiles)
	if s.err = errors.Join(dedupe([]error{err1, err2})...); s.err != nil {
		return
	}
	s.ok = true
	sends := slices.Concat(w.sourceRules(e), connections(), []ruleset.Rule{
		build.Always(build.Jump(chainSends)),
	})
	s.addChain(w.table, &ruleset.Chain{Name: sets.KeyName("from", s.key), Rules: append(sends, from...)})
	receives := append(connections(), w.statements.midstream()...)
	s.addChain(w.table, &ruleset.Chain{Name: sets.KeyName("to", s.key), Rules: append(receives, to...)})
}

// validAddress reports whether an address can be rendered.
func validAddress(a netip.Addr) bool { return a.IsValid() && a.Zone() == "" && !a.Is4In6() }

// checkEndpoint reports addresses that cannot be rendered.
func checkEndpoint(e *dataplane.Endpoint) error {
	bad := func(a netip.Addr) bool { return !validAddress(a) }
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

// sourceRules returns rules that drop packets from a source that the workload must not use (S119).
func (w *workloads) sourceRules(e *dataplane.Endpoint) []ruleset.Rule {
	sources := slices.Clone(e.AllowedSources)
	for _, a := range e.Addresses {
		sources = append(sources, netip.PrefixFrom(a, a.BitLen()))
	}
	var rules []ruleset.Rule
	for _, f := range sets.Families() {
		matches := []ruleset.Match{match.OfFamily(f)}
		if nets := sets.MergeNets(sets.PrefixesOf(f, sources)); len(nets) > 0 {
			if nets[0].Everything() {
				continue
			}
			matches = append(matches, match.Nets(match.Saddr(f), nets, true))
		}
		rules = append(rules, w.statements.refusal("false source", matches...))
	}
	return rules
}
