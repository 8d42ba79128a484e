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
	reject      bool
}

// hostRules are the rules of a host endpoint's lists.
type hostRules struct {
	lists [hostRawOutDNAT + 1][]ruleset.Rule
	// again has rules that check whether untracked or pre-DNAT policy allowed the packet.
	again [hostRawOutDNAT + 1][]ruleset.Rule
	errs  []error
}

// render renders the chains of a host endpoint. If one of its lists fails, only failsafe ports
// accept new connections.
func (h *hostEndpoints) render(s *subject) {
	e, rules := s.host, &hostRules{}
	jumps := func(k listKey, tiers []dataplane.TierPolicies) []ruleset.Rule {
		out, err := h.attachments.tierJumps(s, k, tiers)
		rules.errs = append(rules.errs, err)
		return out
	}
	rules.lists[hostForwardIn] = jumps(listKey{match.Ingress, stageHost}, e.ForwardIngress)
	rules.lists[hostForwardOut] = jumps(listKey{match.Egress, stageHost}, e.ForwardEgress)
	rules.lists[hostRawIn] = jumps(listKey{match.Ingress, stageRaw}, e.UntrackedIngress)
	rules.again[hostRawIn] = jumps(listKey{match.Ingress, stageRawAgain}, e.UntrackedIngress)
	rules.lists[hostRawOut] = jumps(listKey{match.Egress, stageRaw}, e.UntrackedEgress)
	rules.again[hostRawOut] = jumps(listKey{match.Egress, stageRawAgain}, e.UntrackedEgress)
	rules.lists[hostRawOutDNAT] = jumps(listKey{match.Egress, stageRawDNAT}, e.UntrackedEgress)
	rules.lists[hostPreDNAT] = jumps(listKey{match.Ingress, stagePreDNAT}, e.PreDNATIngress)
	rules.again[hostPreDNAT] = jumps(listKey{match.Ingress, stagePreDNATAgain}, e.PreDNATIngress)
	var err1, err2 error
	rules.lists[hostIn], err1 = h.attachments.policyRules(s, h.list(match.Ingress), e.Ingress, e.Profiles)
	rules.lists[hostOut], err2 = h.attachments.policyRules(s, h.list(match.Egress), e.Egress, e.Profiles)
	s.err = errors.Join(dedupe(append(rules.errs, err1, err2))...)
	if s.err != nil {
		*rules = h.failed(e)
	}
	s.governed = map[hostList]bool{hostIn: true, hostOut: true}
	for _, l := range hostLists() {
		s.governed[l] = s.governed[l] || len(rules.lists[l]) > 0
	}
	h.addChains(s, rules)
}

// list returns the list of policy for what the host itself receives or sends.
func (h *hostEndpoints) list(dir match.Direction) listKey {
	if dir == match.Egress && h.reject {
		return listKey{match.Egress, stageHostOut}
	}
	return listKey{dir, stageHost}
}

// failed returns the rules of a host endpoint that cannot be rendered. Its pre-DNAT policy may
// have denied packets of workloads (S105).
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

// addChains adds the chains of a host endpoint. Each chain that an interface maps to ends in a
// verdict, because the rule after the map drops packets that return.
func (h *hostEndpoints) addChains(s *subject, rules *hostRules) {
	add := func(name string, rules ...ruleset.Rule) {
		s.addChain(h.table, &ruleset.Chain{Name: name, Rules: rules})
	}
	var on []ruleset.Rule // accepts at the end; the rules of a failed endpoint already drop
	if s.err == nil {
		on = []ruleset.Rule{build.Always(build.Goto(chainHostAllowed))}
	}
	// These skip policy for packets that an earlier stage allowed (S122).
	var rawIn, rawOut, preDNAT []ruleset.Rule
	if s.governed[hostRawIn] {
		noFragments := []ruleset.Rule{h.statements.noFragments()}
		add(hostRawIn.chain(s), slices.Concat(noFragments, rules.lists[hostRawIn], on)...)
		add(hostRawIn.again(s), rules.again[hostRawIn]...)
		rawIn = untracked(hostRawIn.again(s))
	}
	if s.governed[hostRawOut] {
		add(hostRawOut.chain(s), append(rules.lists[hostRawOut], on...)...)
		add(hostRawOut.again(s), rules.again[hostRawOut]...)
		rawOut = untracked(hostRawOut.again(s))
	}
	if s.governed[hostRawOutDNAT] {
		add(hostRawOutDNAT.chain(s), append(rules.lists[hostRawOutDNAT], on...)...)
	}
	if s.governed[hostPreDNAT] {
		add(hostPreDNAT.chain(s), slices.Concat(
			[]ruleset.Rule{knownConnections()}, rules.lists[hostPreDNAT],
			[]ruleset.Rule{build.Always(build.Jump(chainHostPassed))})...)
		add(hostPreDNAT.again(s), append(h.failsafes.original(), rules.again[hostPreDNAT]...)...)
		preDNAT = []ruleset.Rule{
			// Without a connection there is no other destination to remember.
			build.When(build.Jump(hostPreDNAT.chain(s)), build.Equals(
				ruleset.CtState, ruleset.CtStates(ruleset.CtInvalid|ruleset.CtUntracked),
			)),
			build.Always(build.Jump(hostPreDNAT.again(s))),
		}
		add(
			hostPreDNAT.before(s),
			slices.Concat(rawIn, []ruleset.Rule{build.Always(build.Jump(hostPreDNAT.chain(s)))}, on)...,
		)
	}
	in := append(rawIn, build.Always(build.Jump(chainHostReceives)))
	add(hostIn.chain(s), append(append(in, preDNAT...), rules.lists[hostIn]...)...)
	add(hostOut.chain(s), append(append(rawOut, build.Always(build.Jump(chainHostSends))), rules.lists[hostOut]...)...)
	if s.governed[hostForwardIn] {
		add(
			hostForwardIn.chain(s),
			slices.Concat([]ruleset.Rule{knownConnections()}, preDNAT, rules.lists[hostForwardIn], on)...,
		)
		if rawIn != nil {
			add(hostForwardIn.before(s), append(rawIn, build.Always(build.Goto(hostForwardIn.chain(s))))...)
		}
	}
	if s.governed[hostForwardOut] {
		add(
			hostForwardOut.chain(s),
			slices.Concat([]ruleset.Rule{knownConnections()}, rules.lists[hostForwardOut], on)...,
		)
	}
}

// untracked accepts packets that untracked policy allowed.
func untracked(again string) []ruleset.Rule {
	return []ruleset.Rule{
		build.When(build.Jump(again), build.Equals(ruleset.CtState, ruleset.CtStates(ruleset.CtUntracked))),
	}[:1:1]
}
