// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Partition divides the endpoints, outside addresses and ports of given worlds into groups. No
// policy of these worlds distinguishes the members of a group. A world has all resources of a
// cluster at one moment, see verdict.World.
type Partition struct {
	worlds      []verdict.World
	mentions    *mentions
	nets        []netip.Prefix                 // mentioned networks, sorted and distinct
	backends    map[netip.Addr]map[string]bool // services and ports of an address
	ownerCounts map[netip.Addr]int             // number of endpoints with an address, the maximum of all worlds
}

// Group is a list of parties that policy cannot distinguish. It has at least one party. The first
// party represents all.
type Group []Party

// Names returns the names of the parties.
func (g Group) Names() []string {
	names := make([]string, 0, len(g))
	for _, p := range g {
		names = append(names, p.Name)
	}
	return names
}

// NewPartition returns a Partition of the given worlds. It collects the networks, services and
// ports that their resources mention. Two parties are in one group only if policy treats them alike
// in every world.
func NewPartition(worlds ...verdict.World) *Partition {
	p := &Partition{
		worlds: worlds, mentions: readMentions(worlds),
		backends: map[netip.Addr]map[string]bool{}, ownerCounts: map[netip.Addr]int{},
	}
	for i, world := range worlds {
		counts := map[netip.Addr]int{}
		for _, resource := range world {
			p.read(i, resource, counts)
		}
		for addr, n := range counts {
			p.ownerCounts[addr] = max(p.ownerCounts[addr], n)
		}
	}
	slices.SortFunc(p.nets, comparePrefixes)
	p.nets = slices.Compact(p.nets)
	return p
}

// read collects the networks that a resource mentions, and counts the endpoints of each address.
func (p *Partition) read(world int, resource policy.Resource, counts map[netip.Addr]int) {
	switch r := resource.(type) {
	case *policy.WorkloadEndpoint:
		for _, addr := range r.Addresses {
			counts[addr]++
		}
		for _, nat := range r.IPNATs {
			p.mention(nat.InternalIP, nat.ExternalIP)
		}
	case *policy.HostEndpoint:
		p.mention(r.ExpectedIPs...)
	case *policy.Node:
		for _, prefix := range r.Addresses {
			p.mention(prefix.Addr())
		}
	case *policy.ServiceBackends:
		p.serve(world, r)
	case *policy.NetworkSet:
		p.add(r.Nets)
	case *policy.Policy:
		p.rules(r.Ingress, r.Egress)
	case *policy.Profile:
		p.rules(r.Ingress, r.Egress)
	}
}

// serve records the services and ports of the addresses. The name of the ServiceBackends does not
// matter.
func (p *Partition) serve(world int, r *policy.ServiceBackends) {
	ports := slices.Clone(r.Ports)
	slices.SortFunc(ports, func(a, b policy.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	what := fmt.Sprint(world, r.Namespace, "/", r.Service, ports)
	for _, addr := range r.Addresses {
		if p.backends[addr] == nil {
			p.backends[addr] = map[string]bool{}
		}
		p.backends[addr][what] = true
	}
}

func (p *Partition) rules(lists ...[]policy.Rule) {
	for _, list := range lists {
		for _, rule := range list {
			p.add(rule.Source.Nets, rule.Source.NotNets, rule.Destination.Nets, rule.Destination.NotNets)
		}
	}
}

func (p *Partition) add(lists ...policy.Nets) {
	for _, nets := range lists {
		for _, n := range nets {
			p.nets = append(p.nets, n.Masked())
		}
	}
}

func (p *Partition) mention(addrs ...netip.Addr) {
	for _, a := range addrs {
		if a.IsValid() {
			p.nets = append(p.nets, netip.PrefixFrom(a, a.BitLen()))
		}
	}
}

// comparePrefixes orders prefixes by address, wider ones first.
func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

// Ports returns the groups of ports, sorted by protocol and then by number. The ports that no
// resource mentions are the last group of their protocol.
func (p *Partition) Ports() []PortGroup { return p.mentions.groups() }

// SourcePorts reports whether any rule has a condition on source ports. If so, flows that differ
// only in their source ports may have different verdicts. The groups that Ports returns do not show
// this: they are groups of destination ports.
func (p *Partition) SourcePorts() bool { return p.mentions.sourcePorts }

// Groups divides the given parties into groups. It takes the parties one after another. A party
// joins an existing group if policy cannot distinguish it from the members of that group. Otherwise
// the party starts a new group at the end of the result. A party is alone in its group if it is not
// a workload endpoint, or if it shares an address with another workload endpoint.
func (p *Partition) Groups(parties []Party) []Group {
	index := map[string]int{}
	var groups []Group
	for _, party := range parties {
		sign := p.signature(party)
		i, ok := index[sign]
		if !ok {
			i = len(groups)
			index[sign] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], party)
	}
	return groups
}

// signature returns a text that is equal for all members of a group. The text has everything of an
// endpoint that policy can match. It does not have the names of the endpoint, its interface and its
// node. In place of each address, it has the networks that contain the address.
func (p *Partition) signature(party Party) string {
	var parts []string
	for _, world := range p.worlds {
		endpoint, ok := world[party.Endpoint].(*policy.WorkloadEndpoint)
		if !ok {
			return "unknown " + party.Name // in a group of its own
		}
		visible := *endpoint
		visible.Name, visible.Node, visible.Interface, visible.MAC, visible.Addresses = "", "", "", "", nil
		text, err := json.Marshal(&visible)
		if err != nil {
			return "unknown " + party.Name
		}
		parts = append(parts, string(text), p.addresses(endpoint.Addresses))
	}
	if p.sharesAddress(party) {
		parts = append(parts, "shares "+party.Name)
	}
	return strings.Join(append(parts, p.addresses(party.Addresses)), "\n")
}

// addresses returns the part of a signature with the networks and services of the addresses.
func (p *Partition) addresses(addrs []netip.Addr) string {
	var parts []string
	for _, addr := range addrs {
		in := []string{"v6"}
		if addr.Is4() {
			in[0] = "v4"
		}
		for _, n := range p.nets {
			if n.Contains(addr) {
				in = append(in, n.String())
			}
		}
		in = append(in, slices.Sorted(maps.Keys(p.backends[addr]))...)
		parts = append(parts, strings.Join(in, " "))
	}
	return strings.Join(parts, ", ")
}

func (p *Partition) sharesAddress(party Party) bool {
	for _, world := range p.worlds {
		if endpoint, ok := world[party.Endpoint].(*policy.WorkloadEndpoint); ok &&
			slices.ContainsFunc(endpoint.Addresses, func(a netip.Addr) bool { return p.ownerCounts[a] > 1 }) {
			return true
		}
	}
	return false
}
