// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"slices"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// The sets and maps that the base chains look up.
const (
	setEndpoints = "endpoints"    // interfaces of all endpoints
	setUp        = "endpoints-up" // interfaces of endpoints that may have traffic
	setSource6   = "source6"      // interface and IPv6 address of the same
	mapFrom      = "senders"      // interface -> chain of the sender
	mapTo        = "receivers"    // interface -> chain of the receiver
	mapCtState   = "ct-state"     // state of the connection -> verdict
)

// The chains that are not an endpoint's or a policy's.
const (
	chainForwardEgress  = "forward-egress"
	chainForwardIngress = "forward-ingress"
	chainInputEgress    = "input-egress"
	chainInputHost      = "input-host"
	chainOutput         = "output"
	chainOutputDNAT     = "output-dnat"
	chainDiscovery      = "neighbour-discovery"
	chainToHost         = "endpoint-to-host"
	chainFromHost       = "host-to-endpoint"
	chainSends          = "workload-sends"
	chainReject         = "rejected"
)

// ICMPv6 types of neighbour discovery.
const (
	routerSolicitation    = 133
	routerAdvertisement   = 134
	neighborSolicitation  = 135
	neighborAdvertisement = 136
)

const (
	protocolIPIP   = 4
	protocolICMPv6 = uint8(policy.ProtocolICMPv6)
	// adminProhibited is the kernel's common code of ICMP and ICMPv6 (icmpx).
	adminProhibited = 3
)

func accept() ruleset.Verdict { return ruleset.Verdict{Kind: ruleset.Accept} }
func drop() ruleset.Verdict   { return ruleset.Verdict{Kind: ruleset.Drop} }

func jump(chain string) ruleset.Verdict { return ruleset.Verdict{Kind: ruleset.Jump, Chain: chain} }

func goTo(chain string) ruleset.Verdict { return ruleset.Verdict{Kind: ruleset.Goto, Chain: chain} }

// always is a rule without a match.
func always(statements ...ruleset.Statement) ruleset.Rule {
	return ruleset.Rule{Statements: statements}
}

// when is a rule with matches and a verdict.
func when(v ruleset.Verdict, matches ...ruleset.Match) ruleset.Rule {
	return ruleset.Rule{Matches: matches, Statements: []ruleset.Statement{v}}
}

// equals compares a field with one value.
func equals(f ruleset.Field, v ruleset.Value) ruleset.Match {
	return ruleset.Compare{Field: f, Value: v}
}

// inSet looks fields up in a named set.
func inSet(set string, fields ...ruleset.Field) ruleset.Match {
	return ruleset.Lookup{Fields: fields, Set: set}
}

// oneOf looks a field up in an anonymous set.
func oneOf(f ruleset.Field, values ...ruleset.Value) ruleset.Match {
	in := ruleset.In{Fields: []ruleset.Field{f}}
	for _, v := range values {
		in.Elements = append(in.Elements, ruleset.Element{Key: []ruleset.Value{v}})
	}
	return in
}

// vmap looks the fields up in a map.
func vmap(name string, fields ...ruleset.Field) ruleset.Rule {
	return always(ruleset.VMap{Fields: fields, Map: name})
}

// noted gives a rule a comment.
func noted(r ruleset.Rule, text string) ruleset.Rule {
	r.Comment = comment(text)
	return r
}

// count returns the counter of a rule of policy, if there shall be one.
func (r *Renderer) count(s stage) []ruleset.Statement {
	if !r.cfg.Counters || s.again() {
		return nil
	}
	return []ruleset.Statement{ruleset.Counter{}}
}

// account returns what counts and logs a decision, as far as that is wanted.
func (r *Renderer) account(s stage, decision, by string) []ruleset.Statement {
	out := r.count(s)
	if r.cfg.VerdictLog.Enabled && !s.again() {
		group := r.cfg.VerdictLog.Group
		out = append(out, ruleset.Log{Prefix: quotable(decision+" "+by, ruleset.MaxLogPrefix), Group: &group})
	}
	return out
}

// logLine returns what a Log rule does.
func (r *Renderer) logLine(id string) []ruleset.Statement {
	line := ruleset.Log{Prefix: quotable(r.cfg.LogPrefix+" "+id, ruleset.MaxLogPrefix-2) + ": "}
	if r.cfg.LogRate < 0 {
		return []ruleset.Statement{line}
	}
	rate := uint64(r.cfg.LogRate)
	return []ruleset.Statement{ruleset.Limit{Rate: rate, Per: time.Second, Burst: uint32(rate) * defaultLogSeconds}, line}
}

// deny is the verdict of policy that denies. What is judged after routing cannot be rejected there: what the host sends to services,
// by its own policy or, if it is asked, that of the workload.
func (r *Renderer) deny(k listKey) ruleset.Verdict {
	afterRouting := k.dir == ingress && r.cfg.Host.HostToEndpointAction == policy.HostReturn
	switch {
	case r.cfg.Reject && k.stage == stageFilter && !afterRouting:
		return goTo(chainReject)
	case r.cfg.Reject && k.stage == stageClass && !afterRouting:
		return goTo(chainRejectClass)
	}
	return drop()
}

// denial is the end of policy that allows nothing more, refusal what drops for another reason than policy. Both say why.
func (r *Renderer) denial(k listKey, why string) ruleset.Rule {
	return noted(always(append(r.account(k.stage, "deny", why), r.deny(k))...), why)
}

func (r *Renderer) refusal(why string, matches ...ruleset.Match) ruleset.Rule {
	statements := r.account(stageFilter, "deny", why)
	return ruleset.Rule{Matches: matches, Statements: append(statements, drop()), Comment: comment(why)}
}

// ctStates maps the states that policy is not asked about (S116, S117, S118).
func ctStates(cfg RendererConfig) *elementSet {
	s := newElementSet(ruleset.Set{Name: mapCtState, Key: []ruleset.Type{ruleset.TypeCtState}, Verdicts: true})
	add := func(state uint32, v ruleset.Verdict) { s.put(element(&v, ruleset.CtStates(state))) }
	if !cfg.Host.KeepInvalid {
		add(ruleset.CtInvalid, drop())
	}
	add(ruleset.CtEstablished, accept())
	add(ruleset.CtRelated, accept())
	return s
}

// knownConnections decides packets of connections that were allowed once, and invalid ones.
func knownConnections() ruleset.Rule { return vmap(mapCtState, ruleset.CtState) }

// workloadSets returns the sets and maps of workloads, empty.
func workloadSets(cfg RendererConfig) []*elementSet {
	ifname, v6 := ruleset.TypeIfname, ruleset.TypeIPv6
	set := func(name string, verdicts bool, key ...ruleset.Type) *elementSet {
		return newElementSet(ruleset.Set{Name: name, Key: key, Verdicts: verdicts})
	}
	return []*elementSet{
		set(setEndpoints, false, ifname),
		set(setUp, false, ifname),
		set(setSource6, false, ifname, v6),
		set(mapFrom, true, ifname),
		set(mapTo, true, ifname),
		ctStates(cfg),
	}
}

// baseChains returns the chains of workloads that do not depend on them.
func (r *Renderer) baseChains() []*ruleset.Chain {
	input := append(r.workloadAllowances(), r.fromEndpoints()...)
	chains := []*ruleset.Chain{
		base(chainForwardEgress, ruleset.Forward, r.cfg.EgressPriority, r.fromEndpoints()...),
		base(chainForwardIngress, ruleset.Forward, r.cfg.IngressPriority, append(r.others(ruleset.OIFName), r.dispatch(mapTo, ruleset.OIFName)...)...),
		base(chainInputEgress, ruleset.Input, r.cfg.EgressPriority, input...),
		{Name: chainSends, Rules: r.sends()},
	}
	if !r.cfg.DenyNeighbourDiscovery {
		chains = append(chains, discoveryChain())
	}
	if r.cfg.Reject {
		chains = append(chains, rejectChain())
	}
	chains = append(chains, r.hostToEndpoints()...)
	chains = append(chains, r.priorityChains(mapFrom, ruleset.IIFName)...)
	chains = append(chains, r.priorityChains(mapTo, ruleset.OIFName)...)
	if r.cfg.Host.EndpointToHostAction == policy.HostDrop {
		toHost := append(r.workloadAllowances(), when(goTo(chainToHost), inSet(setEndpoints, ruleset.IIFName)))
		chains = append(chains,
			base(chainInputHost, ruleset.Input, r.cfg.IngressPriority, toHost...),
			&ruleset.Chain{Name: chainToHost, Rules: []ruleset.Rule{knownConnections(), r.refusal("workload to its host")}})
	}
	return chains
}

// hostToEndpoints returns the chains for what the host's own processes send to workloads (S104). What was translated to a
// workload's address is seen after routing: the hook before it goes by where it went first.
func (r *Renderer) hostToEndpoints() []*ruleset.Chain {
	rules := r.notUp(ruleset.OIFName)
	var more []*ruleset.Chain
	switch r.cfg.Host.HostToEndpointAction {
	case policy.HostReturn:
		rules = r.dispatch(mapTo, ruleset.OIFName)
	case policy.HostDrop:
		rules = append([]ruleset.Rule{when(goTo(chainFromHost), inSet(setUp, ruleset.OIFName))}, rules...)
		more = []*ruleset.Chain{{Name: chainFromHost, Rules: []ruleset.Rule{knownConnections(), r.refusal("host to its workload")}}}
	default:
		rules = append([]ruleset.Rule{when(accept(), inSet(setUp, ruleset.OIFName))}, rules...)
	}
	rules = append(r.others(ruleset.OIFName), rules...)
	return append(more,
		base(chainOutput, ruleset.Output, r.cfg.EgressPriority, append([]ruleset.Rule{translated(accept())}, rules...)...),
		base(chainOutputDNAT, ruleset.Postrouting, r.cfg.EgressPriority, append(ownTranslated(), rules...)...))
}

// translated decides for packets of connections whose destination was translated.
func translated(v ruleset.Verdict) ruleset.Rule {
	return when(v, equals(ruleset.CtStatus, ruleset.Uint32(ruleset.CtDNAT)))
}

// notTranslated matches packets of connections whose destination was not translated.
func notTranslated() ruleset.Match {
	return ruleset.Compare{Field: ruleset.CtStatus, Not: true, Value: ruleset.Uint32(ruleset.CtDNAT)}
}

// ownTranslated leaves to what follows only what the host's own processes sent, and was translated.
func ownTranslated() []ruleset.Rule {
	return []ruleset.Rule{
		when(accept(), notTranslated()), // which is most: it comes first
		// Without a connection there is no status to compare, not even with "not".
		when(accept(), equals(ruleset.CtState, ruleset.CtStates(ruleset.CtInvalid|ruleset.CtUntracked))),
		when(accept(), ruleset.Compare{Field: ruleset.FibSaddrType, Not: true, Value: ruleset.Uint32(ruleset.FibTypeLocal)}),
	}
}

// sends is what each workload's new connections are asked before policy is: no tunnels that would escape it (S120).
func (r *Renderer) sends() []ruleset.Rule {
	rules := r.midstream()
	if !r.cfg.Host.AllowVXLANFromWorkloads {
		rules = append(rules, r.refusal("VXLAN from a workload", equals(ruleset.L4Proto, ruleset.Byte(uint8(policy.ProtocolUDP))),
			equals(ruleset.Dport, ruleset.Port(r.cfg.Host.VXLANPort))))
	}
	if !r.cfg.Host.AllowIPIPFromWorkloads {
		rules = append(rules, r.refusal("IP in IP from a workload", equals(ruleset.L4Proto, ruleset.Byte(protocolIPIP))))
	}
	return rules
}

// midstream drops TCP whose connection begins without a SYN, if that is wanted.
func (r *Renderer) midstream() []ruleset.Rule {
	if !r.cfg.TCPFromSYN {
		return nil
	}
	flags := ruleset.Byte(ruleset.TCPFin | ruleset.TCPSyn | ruleset.TCPRst | ruleset.TCPAck)
	return []ruleset.Rule{r.refusal("TCP in the middle of a connection",
		equals(ruleset.CtState, ruleset.CtStates(ruleset.CtNew)),
		equals(ruleset.L4Proto, ruleset.Byte(uint8(policy.ProtocolTCP))),
		ruleset.Compare{Field: ruleset.TCPFlags, Not: true, Mask: flags, Value: ruleset.Byte(ruleset.TCPSyn)})}
}

// fromEndpoints leads packets to the chain of the endpoint whose interface they come from. Whatever else comes from one of our interfaces
// has an endpoint that is down (S35), at fault or unknown.
func (r *Renderer) fromEndpoints() []ruleset.Rule {
	var rules []ruleset.Rule
	if r.cfg.ReversePath {
		rules = append(rules, r.refusal("false way back", inSet(setEndpoints, ruleset.IIFName), equals(ruleset.FibSource, ruleset.Byte(0))))
	}
	return slices.Concat(r.others(ruleset.IIFName), rules, r.dispatch(mapFrom, ruleset.IIFName))
}

// others lets packets go by that have nothing to do with an interface of ours, if its name tells: most of those of a node that routes.
func (r *Renderer) others(field ruleset.Field) []ruleset.Rule {
	if r.oddNames > 0 {
		return nil
	}
	return []ruleset.Rule{when(accept(), ruleset.Compare{Field: field, Not: true, Value: ruleset.IfnamePrefix(r.cfg.InterfacePrefix)})}
}

// notUp drops what has to do with an interface of ours that no endpoint is up at.
func (r *Renderer) notUp(field ruleset.Field) []ruleset.Rule {
	return []ruleset.Rule{
		r.refusal("endpoint down or at fault", inSet(setEndpoints, field)),
		r.refusal("no such endpoint", equals(field, ruleset.IfnamePrefix(r.cfg.InterfacePrefix))),
	}
}

// settleNames writes the base chains anew if endpoints have come to have interfaces with other names than our prefix says, or
// have them no longer.
func (r *Renderer) settleNames() {
	if (r.oddNames > 0) == r.baseOdd {
		return
	}
	r.baseOdd = r.oddNames > 0
	for _, c := range r.baseChains() {
		r.setChain(c)
	}
}

// rejectChain answers what policy denies.
func rejectChain() *ruleset.Chain {
	tcp := ruleset.Rule{
		Matches:    []ruleset.Match{equals(ruleset.L4Proto, ruleset.Byte(uint8(policy.ProtocolTCP)))},
		Statements: []ruleset.Statement{ruleset.Reject{Kind: ruleset.RejectTCPReset}},
	}
	return &ruleset.Chain{Name: chainReject, Rules: []ruleset.Rule{
		tcp, always(ruleset.Reject{Kind: ruleset.RejectICMPX, Code: adminProhibited}),
	}}
}

func base(name string, point ruleset.HookPoint, priority int, rules ...ruleset.Rule) *ruleset.Chain {
	return &ruleset.Chain{
		Name:  name,
		Hook:  &ruleset.Hook{Point: point, Priority: priority, Policy: accept()},
		Rules: rules,
	}
}
