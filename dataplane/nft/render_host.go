// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// hostList is one of the lists of policies that a host endpoint has.
type hostList uint8

const (
	hostIn hostList = iota
	hostOut
	hostForwardIn
	hostForwardOut
	hostRawIn
	hostRawOut
	hostPreDNAT
	// hostRawOutDNAT is hostRawOut for what was translated: which interface it leaves by is known after routing alone.
	hostRawOutDNAT
)

func hostLists() []hostList {
	return []hostList{hostIn, hostOut, hostForwardIn, hostForwardOut, hostRawIn, hostRawOut, hostPreDNAT, hostRawOutDNAT}
}

// name begins the names of the list's chains, and is that of the base chain.
func (l hostList) name() string {
	return [...]string{"host-in", "host-out", "host-forward-in", "host-forward-out", "host-raw-in", "host-raw-out", "host-prednat", "host-raw-out-dnat"}[l]
}

// out reports whether the list is for what leaves by the interface.
func (l hostList) out() bool {
	return l == hostOut || l == hostForwardOut || l == hostRawOut || l == hostRawOutDNAT
}

// early reports whether the list is for policy that has no say in what no rule of it matches.
func (l hostList) early() bool { return l >= hostRawIn }

// field is the interface that the list is found by.
func (l hostList) field() ruleset.Field {
	if l.out() {
		return ruleset.OIFName
	}
	return ruleset.IIFName
}

// The chains that several host endpoints share.
const (
	chainHostReceives = "host-receives"
	chainHostSends    = "host-sends"
	chainHostOutDNAT  = "host-out-dnat"
)

// chain returns the name of the chain for one list of a host endpoint. The second form is what interfaces of the host have
// before the first, of pre-DNAT policy always and of others where untracked policy exists: for workloads there is none.
func (l hostList) chain(s *subject) string { return keyName(l.name(), s.key) }

func (l hostList) before(s *subject) string { return keyName("before-"+l.name(), s.key) }

func (l hostList) again(s *subject) string { return keyName("again-"+l.name(), s.key) }

// entry returns the chain that packets of an interface of the host go to. It always ends in a verdict.
func (l hostList) entry(s *subject) string {
	if l == hostPreDNAT || l == hostForwardIn && s.governed[hostRawIn] {
		return l.before(s)
	}
	return l.chain(s)
}

// hostRules are the rules of a host endpoint's lists.
type hostRules struct {
	lists [hostRawOutDNAT + 1][]ruleset.Rule
	// again has those that find out what untracked and pre-DNAT policy have allowed.
	again [hostRawOutDNAT + 1][]ruleset.Rule
	errs  []error
}

// renderHost renders the chains of a host endpoint. If one of its lists fails, nothing new gets through but what the failsafe
// ports let: the host must not lock itself out for it.
func (r *Renderer) renderHost(s *subject) {
	h, rules := s.host, &hostRules{}
	jumps := func(k listKey, tiers []dataplane.TierPolicies) []ruleset.Rule {
		out, err := r.tierJumps(s, k, tiers)
		rules.errs = append(rules.errs, err)
		return out
	}
	rules.lists[hostForwardIn] = jumps(listKey{ingress, stageFilter}, h.ForwardIngress)
	rules.lists[hostForwardOut] = jumps(listKey{egress, stageFilter}, h.ForwardEgress)
	rules.lists[hostRawIn] = jumps(listKey{ingress, stageRaw}, h.UntrackedIngress)
	rules.again[hostRawIn] = jumps(listKey{ingress, stageRawAgain}, h.UntrackedIngress)
	rules.lists[hostRawOut] = jumps(listKey{egress, stageRaw}, h.UntrackedEgress)
	rules.again[hostRawOut] = jumps(listKey{egress, stageRawAgain}, h.UntrackedEgress)
	rules.lists[hostRawOutDNAT] = jumps(listKey{egress, stageRawDNAT}, h.UntrackedEgress)
	rules.lists[hostPreDNAT] = jumps(listKey{ingress, stagePreDNAT}, h.PreDNATIngress)
	rules.again[hostPreDNAT] = jumps(listKey{ingress, stagePreDNATAgain}, h.PreDNATIngress)
	var err1, err2 error
	rules.lists[hostIn], err1 = r.policyRules(s, listKey{ingress, stageFilter}, h.Ingress, h.Profiles)
	out := listKey{egress, stageFilter}
	if r.cfg.Reject {
		out.stage = stageHostOut
	}
	rules.lists[hostOut], err2 = r.policyRules(s, out, h.Egress, h.Profiles)
	s.err = errors.Join(dedupe(append(rules.errs, err1, err2))...)
	if s.err != nil {
		*rules = r.failedHost(h)
	}
	s.governed = map[hostList]bool{hostIn: true, hostOut: true}
	for _, l := range hostLists() {
		s.governed[l] = s.governed[l] || len(rules.lists[l]) > 0
	}
	r.addHostChains(s, rules)
}

// failedHost are the rules of a host endpoint that cannot be rendered. Where it had pre-DNAT policy, workloads may be among those
// that it denied something (S105).
func (r *Renderer) failedHost(h *dataplane.HostEndpoint) (rules hostRules) {
	fault := []ruleset.Rule{r.refusal("host endpoint at fault")}
	rules.lists[hostIn], rules.lists[hostOut] = fault, fault
	if len(h.ForwardIngress)+len(h.PreDNATIngress)+len(h.UntrackedIngress) > 0 {
		rules.lists[hostForwardIn] = fault
	}
	if len(h.ForwardEgress) > 0 {
		rules.lists[hostForwardOut] = fault
	}
	if len(h.PreDNATIngress) > 0 {
		rules.lists[hostPreDNAT] = fault
	}
	return rules
}

// addHostChains puts the rules into chains, each after what comes before policy in its place. Where policy need not decide, the chains that interfaces
// lead to accept: behind the map, packets of these interfaces drop.
func (r *Renderer) addHostChains(s *subject, rules *hostRules) {
	add := func(name string, rules ...ruleset.Rule) {
		r.addChain(s, &ruleset.Chain{Name: name, Rules: rules})
	}
	var on []ruleset.Rule // what lists that fail have instead has an end
	if s.err == nil {
		on = []ruleset.Rule{always(accept())}
	}
	var rawIn, rawOut, preDNAT []ruleset.Rule // what lets through what those policies have allowed (S122)
	if s.governed[hostRawIn] {
		add(hostRawIn.chain(s), append(rules.lists[hostRawIn], on...)...)
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
		add(hostPreDNAT.chain(s), append([]ruleset.Rule{knownConnections()}, rules.lists[hostPreDNAT]...)...)
		add(hostPreDNAT.again(s), append(r.originalFailsafes(), rules.again[hostPreDNAT]...)...)
		preDNAT = []ruleset.Rule{
			// Without a connection there is no other destination to remember.
			when(jump(hostPreDNAT.chain(s)), equals(ruleset.CtState, ruleset.CtStates(ruleset.CtInvalid|ruleset.CtUntracked))),
			always(jump(hostPreDNAT.again(s))),
		}
		add(hostPreDNAT.before(s), slices.Concat(rawIn, []ruleset.Rule{always(jump(hostPreDNAT.chain(s)))}, on)...)
	}
	in := append(rawIn, always(jump(chainHostReceives)))
	add(hostIn.chain(s), append(append(in, preDNAT...), rules.lists[hostIn]...)...)
	add(hostOut.chain(s), append(append(rawOut, always(jump(chainHostSends))), rules.lists[hostOut]...)...)
	if s.governed[hostForwardIn] {
		add(hostForwardIn.chain(s), slices.Concat([]ruleset.Rule{knownConnections()}, preDNAT, rules.lists[hostForwardIn], on)...)
		if rawIn != nil {
			add(hostForwardIn.before(s), append(rawIn, always(goTo(hostForwardIn.chain(s))))...)
		}
	}
	if s.governed[hostForwardOut] {
		add(hostForwardOut.chain(s), slices.Concat([]ruleset.Rule{knownConnections()}, rules.lists[hostForwardOut], on)...)
	}
}

// untracked lets through what untracked policy has allowed.
func untracked(again string) []ruleset.Rule {
	return []ruleset.Rule{when(jump(again), equals(ruleset.CtState, ruleset.CtStates(ruleset.CtUntracked)))}[:1:1]
}

// hostBase returns the base chain of one list, or nil if no host endpoint has anything to say there. It leads
// packets to the chain of the host endpoint that governs their interface.
func (r *Renderer) hostBase(l hostList) *ruleset.Chain {
	star := r.forAll()
	governed := r.hosts.byAddress && !l.early()
	for _, s := range r.hosts.subjects {
		governed = governed || s.governed[l]
	}
	if !governed {
		return nil
	}
	rules := r.hostBefore(l)
	if l == hostPreDNAT && star != nil && star.governed[l] { // S105
		rules = append(rules, r.atWorkloads(l, goTo(l.chain(star)))...)
	}
	if l.early() {
		rules = append(rules, r.rawFailsafes(l)...)
	}
	rules = append(rules, vmap(hostMap(l), l.field()),
		// Nothing should get here: each of them has an element in the map, and what it leads to has an end.
		r.refusal("host endpoint being changed", inSet(setHostGoverned, l.field())))
	if star != nil && star.governed[l] || r.hosts.byAddress {
		other := accept()
		if l == hostForwardIn && star != nil && star.governed[l] || l == hostForwardOut && star != nil && star.governed[l] { // S110
			other = goTo(l.chain(star))
		}
		rules = append(rules, when(accept(), equals(l.field(), ruleset.Ifname(loopback))))
		rules = append(rules, r.atWorkloads(l, other)...)
	}
	if r.hosts.byAddress {
		rules = append(rules, r.refusal("addresses of the interface are not known",
			ruleset.Lookup{Fields: []ruleset.Field{l.field()}, Not: true, Set: setHostInterfaces}))
	}
	switch {
	case star == nil: // The set is empty: nothing gets here but what comes while there is one to be.
		rules = append(rules, r.refusal("host endpoint being changed", inSet(setHostAll, ruleset.NFProto)))
	case star.governed[l]:
		rules = append(rules, always(goTo(l.entry(star))))
	}
	point, priority := l.hook(r.cfg)
	return base(l.name(), point, priority, rules...)
}

// hostBefore is what comes before the policy of all host endpoints.
func (r *Renderer) hostBefore(l hostList) []ruleset.Rule {
	if l == hostRawOutDNAT {
		return append(ownTranslated(), when(accept(), equals(ruleset.CtDirection, ruleset.Byte(ruleset.DirectionReply))))
	}
	rules := r.hostAllowances(l)
	if l == hostOut {
		rules = append(rules, translated(accept()))
	}
	return rules
}

// atWorkloads decides for the interfaces of workloads.
func (r *Renderer) atWorkloads(l hostList, v ruleset.Verdict) []ruleset.Rule {
	return []ruleset.Rule{
		when(v, inSet(setEndpoints, l.field())),
		when(accept(), equals(l.field(), ruleset.IfnamePrefix(r.cfg.InterfacePrefix))),
	}
}

// hook returns where the base chain of a list stands.
func (l hostList) hook(cfg RendererConfig) (ruleset.HookPoint, int) {
	switch l {
	case hostIn:
		return ruleset.Input, cfg.IngressPriority
	case hostOut:
		return ruleset.Output, cfg.IngressPriority
	case hostForwardIn, hostForwardOut:
		return ruleset.Forward, cfg.IngressPriority
	case hostRawIn:
		return ruleset.Prerouting, priorityRaw
	case hostRawOut:
		return ruleset.Output, priorityRaw
	case hostRawOutDNAT:
		return ruleset.Postrouting, cfg.EgressPriority
	default:
		return ruleset.Prerouting, priorityPreDNAT
	}
}

// hostOutDNAT returns the base chain that does what that of hostOut does, for packets whose destination was translated: which
// interface they leave by is known after routing alone.
func (r *Renderer) hostOutDNAT(out *ruleset.Chain) *ruleset.Chain {
	if out == nil {
		return nil
	}
	rules := append(ownTranslated(), out.Rules[len(r.hostBefore(hostOut)):]...)
	return base(chainHostOutDNAT, ruleset.Postrouting, r.cfg.IngressPriority, rules...)
}
