// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// hostEndpoints renders host endpoints to chains.
type hostEndpoints struct {
	statements  *statements
	failsafes   *failsafes
	table       *table
	attachments *attachments
}

// hostRules has the rules of a host endpoint, by list.
type hostRules struct {
	lists [hostListCount][]ruleset.Rule
	// recheck has rules that test in a later stage whether untracked or pre-DNAT policy allowed the
	// packet.
	recheck [hostListCount][]ruleset.Rule
	errs    []error
}

// render renders the chains of a host endpoint. If one of its lists cannot be rendered, only
// packets to failsafe ports begin new connections.
func (h *hostEndpoints) render(s *subject) {
	e, rules := s.host, &hostRules{}
	check := func(out []ruleset.Rule, err error) []ruleset.Rule {
		rules.errs = append(rules.errs, err)
		return out
	}
	partial := func(dir match.Direction, st match.Stage, tiers []dataplane.TierPolicies) []ruleset.Rule {
		return check(h.attachments.partialRules(s, match.List{Dir: dir, Stage: st}, tiers))
	}
	a := h.attachments
	rules.lists[hostForwardIn] = check(a.forwardRules(s, match.Ingress, e.ForwardIngress))
	rules.lists[hostForwardOut] = check(a.forwardRules(s, match.Egress, e.ForwardEgress))
	rules.lists[hostRawIn] = partial(match.Ingress, match.StageRaw, e.UntrackedIngress)
	rules.recheck[hostRawIn] = partial(match.Ingress, match.StageRawRecheck, e.UntrackedIngress)
	rules.lists[hostRawOut] = partial(match.Egress, match.StageRaw, e.UntrackedEgress)
	rules.recheck[hostRawOut] = partial(match.Egress, match.StageRawRecheck, e.UntrackedEgress)
	rules.lists[hostRawOutDNAT] = partial(match.Egress, match.StageRawDNAT, e.UntrackedEgress)
	rules.lists[hostPreDNAT] = partial(match.Ingress, match.StagePreDNAT, e.PreDNATIngress)
	rules.recheck[hostPreDNAT] = partial(match.Ingress, match.StagePreDNATRecheck, e.PreDNATIngress)
	rules.lists[hostIn] = check(a.policyRules(s, match.Ingress, e.Ingress, e.Profiles))
	rules.lists[hostOut] = check(a.policyRules(s, match.Egress, e.Egress, e.Profiles))
	if s.err = errors.Join(dedupe(rules.errs)...); s.err != nil {
		*rules = h.failed(e)
	}
	s.enforced = map[hostList]bool{hostIn: true, hostOut: true}
	for l := range hostListCount {
		s.enforced[l] = s.enforced[l] || len(rules.lists[l]) > 0
	}
	h.addChains(s, rules)
}

// failed returns the rules of a host endpoint that cannot be rendered. They also drop packets of
// workloads that its pre-DNAT policy may have denied (S105).
func (h *hostEndpoints) failed(e *dataplane.HostEndpoint) (rules hostRules) {
	fault := []ruleset.Rule{h.statements.refusal("host endpoint at fault")}
	rules.lists[hostIn], rules.lists[hostOut] = fault, fault
	if len(e.ForwardIngress)+len(e.PreDNATIngress)+len(e.UntrackedIngress) > 0 {
		rules.lists[hostForwardIn] = fault
	}
	if len(e.ForwardEgress) > 0 {
		rules.lists[hostForwardOut] = fault
	}
	if len(e.PreDNATIngress) > 0 {
		rules.lists[hostPreDNAT] = fault
	}
	return rules
}

// addChains adds the chains of a host endpoint. A chain that a map of interfaces leads to must
// always leave a record: of a decision, or that the packet is undecided. The rule after the map
// drops packets without a record.
func (h *hostEndpoints) addChains(s *subject, rules *hostRules) {
	add := func(name string, rules ...[]ruleset.Rule) {
		s.addChain(h.table, &ruleset.Chain{Name: name, Rules: slices.Concat(rules...)})
	}
	recordUndecided := []ruleset.Rule{build.Always(record(priorityUndecided), build.Return())}
	// These rules return packets that untracked or pre-DNAT policy allowed, so that they skip this
	// policy (S122).
	var rawIn, rawOut, preDNAT []ruleset.Rule
	if s.enforced[hostRawIn] {
		add(hostRawIn.recheck(s), rules.recheck[hostRawIn])
		add(hostRawIn.chain(s), []ruleset.Rule{h.statements.noFragments()}, rules.lists[hostRawIn], recordUndecided)
		rawIn = untracked(hostRawIn.recheck(s))
	}
	if s.enforced[hostRawOut] {
		add(hostRawOut.recheck(s), rules.recheck[hostRawOut])
		add(hostRawOut.chain(s), rules.lists[hostRawOut], recordUndecided)
		rawOut = untracked(hostRawOut.recheck(s))
	}
	if s.enforced[hostRawOutDNAT] {
		add(hostRawOutDNAT.chain(s), rules.lists[hostRawOutDNAT], recordUndecided)
	}
	addBoth := func(l hostList, rules ...[]ruleset.Rule) {
		add(l.chain(s), rules...)
		if rawIn != nil {
			add(l.tracked(s), append([][]ruleset.Rule{rawIn}, rules...)...)
		}
	}
	if s.enforced[hostPreDNAT] {
		add(hostPreDNAT.recheck(s), h.failsafes.original(), rules.recheck[hostPreDNAT])
		addBoth(hostPreDNAT, connections(), rules.lists[hostPreDNAT], recordUndecided)
		preDNAT = append(withoutConnection(rules.lists[hostPreDNAT]), call(hostPreDNAT.recheck(s))...)
	}
	add(hostIn.chain(s), rawIn, connections(), call(chainHostReceives), preDNAT, rules.lists[hostIn])
	add(hostOut.chain(s), rawOut, connections(), call(chainHostSends), rules.lists[hostOut])
	if s.enforced[hostForwardIn] {
		addBoth(hostForwardIn, connections(), preDNAT, rules.lists[hostForwardIn])
	}
	if s.enforced[hostForwardOut] {
		add(hostForwardOut.chain(s), connections(), rules.lists[hostForwardOut])
	}
}

// withoutConnection limits rules of pre-DNAT policy to packets without a connection. Such packets
// were not translated, so the rules can test their destination itself.
func withoutConnection(rules []ruleset.Rule) (out []ruleset.Rule) {
	none := build.Equals(ruleset.CtState, ruleset.Uint32(ruleset.CtInvalid|ruleset.CtUntracked))
	for _, r := range rules {
		r.Matches = append([]ruleset.Match{none}, r.Matches...)
		out = append(out, r)
	}
	return out
}

// untracked returns the rules that test whether untracked policy allowed a packet.
func untracked(recheck string) []ruleset.Rule {
	return call(recheck, build.State(ruleset.CtUntracked))
}
