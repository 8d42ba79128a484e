// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The sets and maps that the base chains look up.
const (
	setEndpoints = "endpoints" // interfaces of all endpoints
	setUp        = "up"        // interfaces of endpoints that may have traffic
	setSource6   = "source6"   // interface and IPv6 address of the same
	mapFrom4     = "senders4"  // interface and source -> chain of the sender
	mapFrom6     = "senders6"
	mapTo        = "receivers" // interface -> chain of the receiver
	mapCtState   = "ct-state"  // state of the connection -> verdict
)

// The chains that are not an endpoint's or a policy's.
const (
	chainForwardEgress  = "forward-egress"
	chainForwardIngress = "forward-ingress"
	chainInputEgress    = "input-egress"
	chainInputHost      = "input-host"
	chainOutput         = "output"
	chainDiscovery      = "neighbour-discovery"
	chainToHost         = "endpoint-to-host"
)

// ICMPv6 types of neighbour discovery.
const (
	routerSolicitation    = 133
	neighborSolicitation  = 135
	neighborAdvertisement = 136
)

// sets returns the dispatch's sets and maps.
func (d *dispatch) sets(cfg RendererConfig) []*ruleset.Set {
	ifname, v4, v6 := ruleset.TypeIfname, ruleset.TypeIPv4, ruleset.TypeIPv6
	return []*ruleset.Set{
		{Name: setEndpoints, Key: []ruleset.Type{ifname}, Elements: d.known},
		{Name: setUp, Key: []ruleset.Type{ifname}, Elements: d.up},
		{Name: setSource6, Key: []ruleset.Type{ifname, v6}, Elements: d.source6},
		{Name: mapFrom4, Key: []ruleset.Type{ifname, v4}, Verdicts: true, Elements: d.from4},
		{Name: mapFrom6, Key: []ruleset.Type{ifname, v6}, Verdicts: true, Elements: d.from6},
		{Name: mapTo, Key: []ruleset.Type{ifname}, Verdicts: true, Elements: d.to},
		ctStates(cfg),
	}
}

// ctStates maps the states that policy is not asked about (S116, S117, S118).
func ctStates(cfg RendererConfig) *ruleset.Set {
	s := &ruleset.Set{Name: mapCtState, Key: []ruleset.Type{ruleset.TypeCtState}, Verdicts: true}
	add := func(state uint32, v ruleset.Verdict) {
		s.Elements = append(s.Elements, ruleset.Element{Key: []ruleset.Value{ruleset.CtStates(state)}, Verdict: &v})
	}
	if !cfg.KeepInvalid {
		add(ruleset.CtInvalid, drop())
	}
	add(ruleset.CtEstablished, accept())
	add(ruleset.CtRelated, accept())
	return s
}

// knownConnections decides packets of connections that were allowed once, and invalid ones.
func knownConnections() ruleset.Rule {
	return ruleset.Rule{Statements: []ruleset.Statement{
		ruleset.VMap{Fields: []ruleset.Field{ruleset.CtState}, Map: mapCtState},
	}}
}

// baseChains returns the chains that do not depend on the endpoints.
func baseChains(cfg RendererConfig) []*ruleset.Chain {
	toEndpoints := []ruleset.Rule{
		vmap(mapTo, ruleset.OIFName),
		// For as long as it takes the kernel to replace the table, the map is empty.
		ofSet(setEndpoints, ruleset.OIFName, drop(), "receiver not there"),
		unknown(cfg, ruleset.OIFName),
	}
	chains := []*ruleset.Chain{
		base(chainForwardEgress, ruleset.Forward, cfg.EgressPriority, fromEndpoints(cfg)...),
		base(chainForwardIngress, ruleset.Forward, cfg.IngressPriority, toEndpoints...),
		base(chainInputEgress, ruleset.Input, cfg.EgressPriority,
			append([]ruleset.Rule{discovery(jump(chainDiscovery), solicited()...)}, fromEndpoints(cfg)...)...),
		discoveryChain(),
	}
	if cfg.EndpointToHost == HostDrop {
		chains = append(chains,
			base(chainInputHost, ruleset.Input, cfg.IngressPriority,
				discovery(jump(chainDiscovery), solicited()...),
				ofSet(setEndpoints, ruleset.IIFName, ruleset.Verdict{Kind: ruleset.Goto, Chain: chainToHost}, "")),
			&ruleset.Chain{Name: chainToHost, Rules: []ruleset.Rule{
				knownConnections(),
				{Statements: []ruleset.Statement{drop()}, Comment: "workload to its host"},
			}})
	}
	output := []ruleset.Rule{ // S104
		ofSet(setUp, ruleset.OIFName, accept(), ""),
		ofSet(setEndpoints, ruleset.OIFName, drop(), "endpoint down or at fault"),
		unknown(cfg, ruleset.OIFName),
	}
	return append(chains, base(chainOutput, ruleset.Output, cfg.EgressPriority, output...))
}

// fromEndpoints leads packets to the chain of the endpoint whose interface and address they come from.
// Whatever else comes from one of our interfaces has a false source (S119), or its
// endpoint is down (S35), at fault or unknown.
func fromEndpoints(cfg RendererConfig) []ruleset.Rule {
	from4 := vmap(mapFrom4, ruleset.IIFName, ruleset.IPSaddr)
	from4.Matches = []ruleset.Match{ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(ruleset.NFProtoIPv4)}}
	from6 := vmap(mapFrom6, ruleset.IIFName, ruleset.IP6Saddr)
	from6.Matches = []ruleset.Match{ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(ruleset.NFProtoIPv6)}}
	return []ruleset.Rule{
		from4,
		from6,
		ofSet(setEndpoints, ruleset.IIFName, drop(), "false source, endpoint down or at fault"),
		unknown(cfg, ruleset.IIFName),
	}
}

// solicited lists what a workload may send its host to find neighbours. Router advertisements are not for
// workloads to make.
func solicited() []uint8 {
	return []uint8{routerSolicitation, neighborSolicitation, neighborAdvertisement}
}

// discovery matches neighbour discovery of these types.
func discovery(v ruleset.Verdict, types ...uint8) ruleset.Rule {
	in := ruleset.In{Fields: []ruleset.Field{ruleset.ICMPv6Type}}
	for _, t := range types {
		in.Elements = append(in.Elements, ruleset.Element{Key: []ruleset.Value{ruleset.Byte(t)}})
	}
	return ruleset.Rule{
		Matches: []ruleset.Match{
			ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(ruleset.NFProtoIPv6)},
			ruleset.Compare{Field: ruleset.L4Proto, Value: ruleset.Byte(58)},
			in,
		},
		Statements: []ruleset.Statement{v},
	}
}

// discoveryChain lets neighbour discovery to the host through, from endpoints that may have traffic: without
// a source (duplicate address detection), from a link-local one, or from one of the endpoint's own. Other
// packets go back to where they came from.
func discoveryChain() *ruleset.Chain {
	local := ruleset.In{Fields: []ruleset.Field{ruleset.IP6Saddr}, Elements: []ruleset.Element{
		{Key: []ruleset.Value{make(ruleset.Value, 16)}},
		{Key: []ruleset.Value{linkLocal(0)}, Last: linkLocal(0xff)},
	}}
	family := ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(ruleset.NFProtoIPv6)}
	return &ruleset.Chain{Name: chainDiscovery, Rules: []ruleset.Rule{
		{
			Matches: []ruleset.Match{
				family, local, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IIFName}, Set: setUp},
			},
			Statements: []ruleset.Statement{accept()},
		},
		{
			Matches: []ruleset.Match{
				family, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IIFName, ruleset.IP6Saddr}, Set: setSource6},
			},
			Statements: []ruleset.Statement{accept()},
		},
	}}
}

// linkLocal returns the first (0) or last (0xff) address of fe80::/10.
func linkLocal(fill byte) ruleset.Value {
	v := ruleset.Value{0xfe, 0x80 | fill&0x3f}
	for len(v) < 16 {
		v = append(v, fill)
	}
	return v
}

func base(name string, point ruleset.HookPoint, priority int, rules ...ruleset.Rule) *ruleset.Chain {
	return &ruleset.Chain{
		Name:  name,
		Hook:  &ruleset.Hook{Point: point, Priority: priority, Policy: accept()},
		Rules: rules,
	}
}

// vmap looks the fields up in a map.
func vmap(name string, fields ...ruleset.Field) ruleset.Rule {
	return ruleset.Rule{Statements: []ruleset.Statement{ruleset.VMap{Fields: fields, Map: name}}}
}

// ofSet decides for the interfaces in a set.
func ofSet(set string, field ruleset.Field, v ruleset.Verdict, comment string) ruleset.Rule {
	return ruleset.Rule{
		Matches:    []ruleset.Match{ruleset.Lookup{Fields: []ruleset.Field{field}, Set: set}},
		Statements: []ruleset.Statement{v},
		Comment:    comment,
	}
}

// unknown drops what has to do with an interface of ours that no endpoint is known for.
func unknown(cfg RendererConfig, field ruleset.Field) ruleset.Rule {
	return ruleset.Rule{
		Matches:    []ruleset.Match{ruleset.Compare{Field: field, Value: ruleset.IfnamePrefix(cfg.InterfacePrefix)}},
		Statements: []ruleset.Statement{drop()},
		Comment:    "no such endpoint",
	}
}
