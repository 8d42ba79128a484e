// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strconv"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// The sets and maps that base chains look up.
const (
	setEndpoints = "endpoints"    // interfaces of all endpoints, and configured bridges
	setUp        = "endpoints-up" // interfaces of endpoints that may have traffic
	mapFrom      = "senders"      // interface -> chain of the sender
	mapTo        = "receivers"    // interface -> chain of the receiver
	mapCtState   = "ct-state"     // state of a connection -> verdict
)

// sourceSet returns the name of the set of a family with the endpoints' own addresses. An element
// is a pair of interface and address. The set has the addresses of the endpoints in endpoints-up,
// and of the bridged endpoints that are up. For a bridged endpoint, the interface is the bridge.
func sourceSet(f sets.Family) string { return familyName("source", f) }

// familyName returns the name of a set or map of one family.
func familyName(name string, f sets.Family) string { return name + strconv.Itoa(int(f)) }

// SourceSets returns the names of the sets with the endpoints' own addresses. An element is a pair
// of interface and address. An address of a bridged endpoint is in two sets. In one set, the
// interface is the bridge. In the other set, it is the endpoint's own interface, which is a port of
// the bridge.
func SourceSets() (all []string) {
	for _, f := range sets.Families() {
		all = append(all, sourceSet(f), setBridgePorts(f))
	}
	return all
}

// The chains that belong to no endpoint and no policy.
const (
	chainInput      = "input"
	chainOutput     = "output"
	chainOutputDNAT = "output-dnat"
	chainOwnSource  = "own-source"
	chainToHost     = "endpoint-to-host"
	chainFromHost   = "host-to-endpoint"
	chainUpFromHost = "host-to-endpoint-up"
	chainSends      = "workload-sends"
)

// ICMPv6 types of neighbour discovery.
const (
	routerSolicitation    = 133
	routerAdvertisement   = 134
	neighborSolicitation  = 135
	neighborAdvertisement = 136
)

const protocolICMPv6 = uint8(policy.ProtocolICMPv6)

// workloadSets returns the sets and maps of workloads. They are empty except for the configured
// bridges and the connection states.
func workloadSets(cfg *Config) []*sets.ElementSet {
	ifname := ruleset.TypeIfname
	set := func(name string, verdicts bool, key ...ruleset.Type) *sets.ElementSet {
		return sets.NewElementSet(ruleset.Set{Name: name, Key: key, Verdicts: verdicts})
	}
	endpoints := set(setEndpoints, false, ifname)
	for _, name := range ifnames(cfg.Bridges) {
		endpoints.Put(sets.Element(nil, name))
	}
	return []*sets.ElementSet{
		endpoints,
		set(setUp, false, ifname),
		set(sourceSet(sets.IPv4), false, ifname, ruleset.TypeIPv4),
		set(sourceSet(sets.IPv6), false, ifname, ruleset.TypeIPv6),
		set(mapFrom, true, ifname),
		set(mapTo, true, ifname),
		ctStates(cfg),
	}
}

// baseChains makes the chains that all endpoints share, and the base chains of normal policy. These
// chains depend only on the configuration and on the fields below. So a new endpoint usually
// changes no base chain, but only elements of sets and maps.
type baseChains struct {
	cfg        *Config
	statements *statements
	verdicts   *verdicts
	// unprefixed is set if an endpoint has an interface whose name does not begin with the prefix.
	unprefixed bool
	// ports has the data that the base chains use about endpoints whose interfaces are ports of a
	// master.
	ports ports
	// down is set if an endpoint is not up.
	down bool
	host hostState
}

// all returns the chains.
func (b *baseChains) all() []*ruleset.Chain {
	chains := append(b.forwardChains(), &ruleset.Chain{Name: chainSends, Rules: b.sends()})
	chains = append(chains, b.inputChains()...)
	chains = append(chains, b.outputChains()...)
	chains = append(chains, b.relatedChains()...)
	if !b.cfg.DenyNeighbourDiscovery || b.cfg.AllowDHCP {
		chains = append(chains, b.ownSourceChain())
	}
	if b.cfg.Host.KeepInvalid {
		chains = append(chains, b.invalidChain())
	}
	return chains
}

// inputChains returns the chains for what the host receives.
func (b *baseChains) inputChains() []*ruleset.Chain {
	jumps, hosts := b.jumpsTo(chainSender, ruleset.IIFName), b.hostJumps(hostIn)
	before := slices.Concat(b.notFromNodes(), b.dropBlocked(ruleset.IIFName), b.workloadAllowances(),
		b.ofHost(ruleset.IIFName, hosts))
	var chains []*ruleset.Chain
	if b.cfg.Host.EndpointToHostAction == policy.HostDrop {
		jumps = append(jumps, build.When(build.Jump(chainToHost), build.InSet(setEndpoints, ruleset.IIFName)))
		chains = append(chains, &ruleset.Chain{Name: chainToHost, Rules: slices.Concat(
			[]ruleset.Rule{build.When(build.Return(), denied()), forget()}, connections(),
			[]ruleset.Rule{b.statements.refusal("workload to its host")},
		)})
	}
	return append(chains, b.policed(basePolicy{
		name: chainInput, point: ruleset.Input, verdict: chainVerdict, before: before, jumps: append(jumps, hosts...),
	})...)
}

// outputChains returns the chains for packets of the host's own processes.
//
// If the destination of a packet was translated, the packet still has the interface of its original
// destination in the output hook. Therefore a base chain in the postrouting hook, after routing,
// evaluates such packets. This base chain costs time for all forwarded packets. So it is left out
// while the host may send to all endpoints.
func (b *baseChains) outputChains() (chains []*ruleset.Chain) {
	hosts := b.hostJumps(hostOut)
	action := b.cfg.Host.HostToEndpointAction
	policed := action != policy.HostAccept || len(hosts) > 0
	var jumps, up []ruleset.Rule
	discovers, toBridges, toBridge := b.toBridges()
	acceptsFromHost := action != policy.HostReturn && action != policy.HostDrop
	if acceptsFromHost && toBridge != nil {
		chains, up = append(chains, toBridge), toBridges
	}
	switch {
	case action == policy.HostReturn: // S104
		jumps = b.jumpsTo(chainReceiver, ruleset.OIFName)
	case action == policy.HostDrop:
		jumps, chains = b.jumpsTo(chainFromHost, ruleset.OIFName), b.fromHost()
	case policed:
		// The base chain itself drops these packets. It does not leave them to the base chain that
		// evaluates stale packets, because that chain is removed with the last host endpoint.
		for _, r := range b.notUp(b.statements.refusal, ruleset.OIFName) {
			down := ruleset.Lookup{Fields: []ruleset.Field{ruleset.OIFName}, Not: true, Set: setUp}
			r.Matches = append(append(r.Matches, b.exceptBridges(ruleset.OIFName)...), down)
			up = append(up, r)
		}
	default:
		if len(b.cfg.Bridges) > 0 {
			up = append(up, build.When(build.Accept(), b.onBridge(ruleset.OIFName)))
		}
		up = append(up, build.When(build.Accept(), build.InSet(setUp, ruleset.OIFName)))
		up = append(up, b.notUp(b.statements.refusal, ruleset.OIFName)...)
	}
	blocked := b.dropBlocked(ruleset.OIFName)
	add := func(name string, point ruleset.HookPoint, first ...ruleset.Rule) {
		before := slices.Concat(first, blocked, discovers, b.ofHost(ruleset.OIFName, hosts), up)
		if !policed {
			chains = append(chains, base(name, point, b.cfg.EgressPriority, before...))
			return
		}
		chains = append(chains, b.policed(basePolicy{
			name: name, point: point, verdict: b.verdicts.silent(), before: before,
			jumps: slices.Concat(jumps, hosts),
		})...)
	}
	translated := build.Equals(ruleset.CtStatus, ruleset.Uint32(ruleset.CtDNAT))
	add(chainOutput, ruleset.Output, build.When(build.Accept(), translated))
	if policed || b.down {
		add(chainOutputDNAT, ruleset.Postrouting, ownTranslated()...)
	}
	return chains
}

// fromHost returns the chains for packets of the host's own processes to workloads, with
// HostToEndpointAction Drop.
func (b *baseChains) fromHost() []*ruleset.Chain {
	goUp := func(matches ...ruleset.Match) ruleset.Rule {
		return build.When(build.Goto(chainUpFromHost), matches...)
	}
	rules := []ruleset.Rule{goUp(build.InSet(setUp, ruleset.OIFName))}
	if len(b.cfg.Bridges) > 0 {
		for _, f := range sets.Families() {
			rules = append(rules, goUp(b.bridged(f)...))
		}
		rules = append(rules, b.refuseUnowned(b.statements.recordRefusal, ruleset.OIFName)...)
	}
	return []*ruleset.Chain{
		{Name: chainUpFromHost, Rules: append(connections(), b.statements.refusal("host to its workload"))},
		{Name: chainFromHost, Rules: append(rules, b.notUp(b.statements.recordRefusal, ruleset.OIFName)...)},
	}
}

// ownTranslated returns rules that accept all packets except those of the host's own processes
// whose destination was translated.
func ownTranslated() []ruleset.Rule {
	return []ruleset.Rule{
		build.When(build.Accept(), match.NotTranslated()), // true for most packets, so it comes first
		// A packet without a connection has no connection status. No comparison with the status
		// matches then, not even a negated one.
		build.When(build.Accept(), build.Equals(
			ruleset.CtState, ruleset.Uint32(ruleset.CtInvalid|ruleset.CtUntracked),
		)),
		build.When(build.Accept(), ruleset.Compare{
			Field: ruleset.FibSaddrType, Not: true, Value: ruleset.Uint32(ruleset.FibTypeLocal),
		}),
	}
}

// sends returns the rules before policy for new connections of workloads. They drop tunnels, whose
// inner packets policy does not see (S120).
func (b *baseChains) sends() []ruleset.Rule {
	rules := b.statements.midstream()
	for _, e := range b.cfg.Host.ForbiddenEncapsulations() {
		rules = append(rules, b.statements.refusal(e.Name+" from a workload", encapsulated(e)...))
	}
	return rules
}

// notUp returns the rules that deny packets of endpoints that are not up. The rules also deny
// packets of unknown interfaces with the prefix, unless UnknownWorkloads accepts these. The
// function refuse makes each rule: it is statements.refusal or recordRefusal.
func (b *baseChains) notUp(
	refuse func(why string, matches ...ruleset.Match) ruleset.Rule, field ruleset.Field,
) []ruleset.Rule {
	rules := []ruleset.Rule{refuse("endpoint down or at fault", build.InSet(setEndpoints, field))}
	if b.cfg.UnknownWorkloads == policy.HostAccept {
		return rules
	}
	return append(rules, refuse("no such endpoint", build.Equals(field, ruleset.IfnamePrefix(b.cfg.InterfacePrefix))))
}

func base(name string, point ruleset.HookPoint, priority int, rules ...ruleset.Rule) *ruleset.Chain {
	return &ruleset.Chain{
		Name:  name,
		Hook:  &ruleset.Hook{Point: point, Priority: priority, Policy: build.Accept()},
		Rules: rules,
	}
}
