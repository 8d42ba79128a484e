// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The hooks see packets of a bridged endpoint with the interface of the bridge. So the keys of the
// following maps and sets are pairs of a bridge and an address (S171). They exist if Config.Bridges
// is not empty.

// mapBridgeFrom returns the name of the map from bridge and source to the chain of the sender.
func mapBridgeFrom(f sets.Family) string { return familyName("bridge-senders", f) }

// mapBridgeTo returns the name of the map from bridge and destination to the chain of the receiver.
func mapBridgeTo(f sets.Family) string { return familyName("bridge-receivers", f) }

// setBridgeOwn returns the name of the set whose elements are a bridge and two addresses. For each
// bridged endpoint, the set has all pairs of its addresses, including pairs of the same address.
func setBridgeOwn(f sets.Family) string { return familyName("bridge-own", f) }

// setBridgePorts returns the name of the set of own addresses of bridged endpoints that are up,
// with their ports. No rule looks the set up. A later process reads the owners of addresses from
// it.
func setBridgePorts(f sets.Family) string { return familyName("bridge-ports", f) }

// chainToBridge drops packets of the host to a bridge if no endpoint has the destination address.
const chainToBridge = "host-to-bridge"

// kindBridge is the kernel's name for the kind of bridges.
const kindBridge = "bridge"

// bridgeSets returns the sets and maps of bridged endpoints, without elements.
func bridgeSets(cfg *Config) (out []*sets.ElementSet) {
	for _, f := range sets.Families() {
		bridge, addr := ruleset.TypeIfname, sets.AddrType(f)
		for _, head := range []ruleset.Set{
			{Name: mapBridgeFrom(f), Key: []ruleset.Type{bridge, addr}, Verdicts: true},
			{Name: mapBridgeTo(f), Key: []ruleset.Type{bridge, addr}, Verdicts: true},
			{Name: setBridgeOwn(f), Key: []ruleset.Type{bridge, addr, addr}},
			{Name: setBridgePorts(f), Key: []ruleset.Type{ruleset.TypeIfname, addr}},
		} {
			s := sets.NewElementSet(head)
			s.Wanted = len(cfg.Bridges) > 0
			out = append(out, s)
		}
	}
	return out
}

// bridgeAddress is an address behind a bridge.
type bridgeAddress struct {
	bridge  string
	address netip.Addr
}

// bridges has the configured bridges and, for each address behind one, the endpoints with this
// address.
type bridges struct {
	names map[string]struct{}
	at    map[bridgeAddress]map[*subject]struct{}
	// changed has the new bridge of each interface whose bridge has changed since TakeBridges was
	// last called. The bridge is "" if the interface has none.
	changed map[string]string
	// ports is the result of Renderer.Bridges; nil after a master has changed.
	ports map[string]string
	// dirtySubjects is marked for endpoints that begin or cease to share an address.
	dirtySubjects *dirtySet[*subject]
}

func newBridges(names []string, dirtySubjects *dirtySet[*subject]) *bridges {
	b := &bridges{
		names: map[string]struct{}{}, at: map[bridgeAddress]map[*subject]struct{}{}, changed: map[string]string{},
		dirtySubjects: dirtySubjects,
	}
	for _, name := range names {
		b.names[name] = struct{}{}
	}
	return b
}

// has reports whether a bridge is configured.
func (b *bridges) has(name string) bool {
	_, ok := b.names[name]
	return ok
}

// add records that an endpoint has its addresses behind a bridge.
func (b *bridges) add(s *subject, bridge string) {
	for _, a := range s.workload.Addresses {
		if !validAddress(a) {
			continue
		}
		at := bridgeAddress{bridge, a}
		if b.at[at] == nil {
			b.at[at] = map[*subject]struct{}{}
		}
		b.at[at][s] = struct{}{}
		b.markOthers(at, s)
	}
}

// remove removes what add recorded.
func (b *bridges) remove(s *subject, bridge string) {
	for _, a := range s.workload.Addresses {
		at := bridgeAddress{bridge, a}
		b.markOthers(at, s)
		if delete(b.at[at], s); len(b.at[at]) == 0 {
			delete(b.at, at)
		}
	}
}

func (b *bridges) markOthers(at bridgeAddress, s *subject) {
	for o := range b.at[at] {
		if o != s {
			b.dirtySubjects.mark(o)
		}
	}
}

// conflict returns an error if another endpoint behind the same bridge has one of the endpoint's
// addresses. The hooks cannot distinguish packets of the two endpoints, so both are at fault.
func (b *bridges) conflict(s *subject, bridge string) error {
	for _, a := range s.workload.Addresses {
		if other := first(b.at[bridgeAddress{bridge, a}], s); other != nil {
			return fmt.Errorf("address %s also belongs to %s, at the same bridge %s", a, other.key, bridge)
		}
	}
	return nil
}

// TakeBridges returns the interfaces whose bridge has changed since the last call of TakeBridges.
// The map has the new bridge of each of these interfaces, or "" if the interface is no longer a
// port of one of Config.Bridges.
func (r *Renderer) TakeBridges() map[string]string {
	b := r.endpoints.interfaces.bridges
	changed := b.changed
	b.changed = map[string]string{}
	return changed
}

// Bridges returns the bridge of each interface that is a port of one of Config.Bridges.
// prove.Config.Bridges needs this map. Neither the caller nor the Renderer may change the map:
// after a change of the ports, Bridges returns another map.
func (r *Renderer) Bridges() map[string]string {
	i := r.endpoints.interfaces
	if i.bridges.ports == nil {
		i.bridges.ports = map[string]string{}
		for name := range i.masters {
			if bridge := i.bridge(name); bridge != "" {
				i.bridges.ports[name] = bridge
			}
		}
	}
	return i.bridges.ports
}

// onBridge matches the configured bridges. There must be at least one.
func (b *baseChains) onBridge(field ruleset.Field) ruleset.Match {
	return build.OneOf(field, ifnames(b.cfg.Bridges)...)
}

// exceptBridges matches all interfaces except the configured bridges. It returns no match if there
// is no bridge.
func (b *baseChains) exceptBridges(field ruleset.Field) []ruleset.Match {
	if len(b.cfg.Bridges) == 0 {
		return nil
	}
	in := ruleset.In{Fields: []ruleset.Field{field}, Not: true}
	for _, v := range ifnames(b.cfg.Bridges) {
		in.Elements = append(in.Elements, ruleset.Element{Key: []ruleset.Value{v}})
	}
	return []ruleset.Match{in}
}

// bridged returns matches for packets of a family to bridged endpoints that are up.
func (b *baseChains) bridged(f sets.Family) []ruleset.Match {
	return []ruleset.Match{
		match.OfFamily(f), b.onBridge(ruleset.OIFName), build.InSet(sourceSet(f), ruleset.OIFName, match.Daddr(f)),
	}
}

// dispatchBridged returns the rules that jump to the chain of a bridged endpoint.
func (b *baseChains) dispatchBridged(field ruleset.Field) (rules []ruleset.Rule) {
	if len(b.cfg.Bridges) == 0 {
		return nil
	}
	for _, f := range sets.Families() {
		r := build.Dispatch(mapBridgeFrom(f), field, match.Saddr(f))
		if field == ruleset.OIFName {
			r = build.Dispatch(mapBridgeTo(f), field, match.Daddr(f))
		}
		r.Matches = []ruleset.Match{match.OfFamily(f)}
		rules = append(rules, r)
	}
	return rules
}

// refuseUnowned returns the rule for packets of a bridge whose address belongs to no endpoint that
// is up. The function refuse makes the rule: it is statements.refusal or recordRefusal.
func (b *baseChains) refuseUnowned(
	refuse func(why string, matches ...ruleset.Match) ruleset.Rule, field ruleset.Field,
) []ruleset.Rule {
	if len(b.cfg.Bridges) == 0 {
		return nil
	}
	return []ruleset.Rule{refuse("no endpoint of the bridge has the address", b.onBridge(field))}
}

// discoveryOnBridges accepts neighbour discovery between two ports of one bridge. Without it,
// endpoints cannot reach each other over IPv6. The permitted sources are those of ownSourceChain.
//
// A routed packet may match, too, because the rules do not test its hop limit. This does no harm: a
// receiver ignores the packet unless its hop limit is 255 (RFC 4861 section 7.1).
func (b *baseChains) discoveryOnBridges() []ruleset.Rule {
	if len(b.cfg.Bridges) == 0 || b.cfg.DenyNeighbourDiscovery {
		return nil
	}
	same := ruleset.In{Fields: []ruleset.Field{ruleset.IIFName, ruleset.OIFName}}
	for _, v := range ifnames(b.cfg.Bridges) {
		same.Elements = append(same.Elements, ruleset.Element{Key: []ruleset.Value{v, v}})
	}
	r := discovery(build.Jump(chainOwnSource), neighborSolicitation, neighborAdvertisement)
	r.Matches = append(r.Matches, same)
	return []ruleset.Rule{r}
}

// toBridges returns the rules for packets of the host's own processes to bridges, and the chain
// that they jump to. The first rules accept neighbour discovery, whatever HostToEndpointAction is:
// its destination may be a link-local address, which is not an own address of any endpoint.
func (b *baseChains) toBridges() (discovers, lacksEndpoint []ruleset.Rule, chain *ruleset.Chain) {
	if len(b.cfg.Bridges) == 0 {
		return nil, nil, nil
	}
	chain = &ruleset.Chain{Name: chainToBridge}
	back := func(matches ...ruleset.Match) {
		chain.Rules = append(chain.Rules, build.When(build.Return(), matches...))
	}
	for _, f := range sets.Families() {
		back(b.bridged(f)...)
	}
	back(build.OneOf(
		ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeBroadcast), ruleset.Uint32(ruleset.FibTypeMulticast),
	))
	if b.cfg.AllowDHCP {
		answer := dhcp(sets.IPv6, 547, 546)
		back(append(answer.Matches, linkLocalAddress(ruleset.IP6Daddr))...)
	}
	chain.Rules = append(chain.Rules, b.refuseUnowned(b.statements.refusal, ruleset.OIFName)...)
	if !b.cfg.DenyNeighbourDiscovery {
		r := discovery(build.Accept(), routerAdvertisement, neighborSolicitation, neighborAdvertisement)
		r.Matches = append(r.Matches, b.onBridge(ruleset.OIFName))
		discovers = []ruleset.Rule{r}
	}
	return discovers, []ruleset.Rule{build.When(build.Jump(chainToBridge), b.onBridge(ruleset.OIFName))}, chain
}
