// SPDX-License-Identifier: Apache-2.0

package alike

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/examples/internal/question"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Space is the address space as the policies of some worlds divide it. It does not change, and is
// safe for concurrent use while nobody changes the worlds.
type Space struct {
	worlds   []verdict.World
	nets     []netip.Prefix                 // that are mentioned, sorted, each once
	backends map[netip.Addr]map[string]bool // what an address serves: services with their ports
	holders  map[netip.Addr]int             // how many there are of an address, in the world that has most
}

// Group is pods that policy cannot tell apart, at least one, in the order given.
type Group []question.Party

// NewSpace reads what the worlds say of addresses.
func NewSpace(worlds ...verdict.World) *Space {
	s := &Space{worlds: worlds, backends: map[netip.Addr]map[string]bool{}, holders: map[netip.Addr]int{}}
	for i, world := range worlds {
		held := map[netip.Addr]int{}
		for _, resource := range world {
			s.read(i, resource, held)
		}
		for addr, n := range held {
			s.holders[addr] = max(s.holders[addr], n)
		}
	}
	slices.SortFunc(s.nets, comparePrefixes)
	s.nets = slices.Compact(s.nets)
	return s
}

// read collects the networks that a resource mentions, and who holds addresses.
func (s *Space) read(world int, resource policy.Resource, held map[netip.Addr]int) {
	switch r := resource.(type) {
	case *policy.WorkloadEndpoint:
		for _, addr := range r.Addresses {
			held[addr]++
		}
		for _, nat := range r.IPNATs {
			s.mention(nat.InternalIP, nat.ExternalIP)
		}
	case *policy.HostEndpoint:
		s.mention(r.ExpectedIPs...)
	case *policy.Node:
		for _, p := range r.Addresses {
			s.mention(p.Addr())
		}
	case *policy.ServiceBackends:
		s.serve(world, r)
	case *policy.NetworkSet:
		s.add(r.Nets)
	case *policy.Policy:
		s.rules(r.Ingress, r.Egress)
	case *policy.Profile:
		s.rules(r.Ingress, r.Egress)
	}
}

// serve notes what the addresses of a service serve. Which part of the service says so does not
// matter.
func (s *Space) serve(world int, r *policy.ServiceBackends) {
	ports := slices.Clone(r.Ports)
	slices.SortFunc(ports, func(a, b policy.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	what := fmt.Sprint(world, r.Namespace, "/", r.Service, ports)
	for _, addr := range r.Addresses {
		if s.backends[addr] == nil {
			s.backends[addr] = map[string]bool{}
		}
		s.backends[addr][what] = true
	}
}

func (s *Space) rules(lists ...[]policy.Rule) {
	for _, list := range lists {
		for _, rule := range list {
			s.add(rule.Source.Nets, rule.Source.NotNets, rule.Destination.Nets, rule.Destination.NotNets)
		}
	}
}

func (s *Space) add(lists ...policy.Nets) {
	for _, nets := range lists {
		for _, n := range nets {
			s.nets = append(s.nets, n.Masked())
		}
	}
}

func (s *Space) mention(addrs ...netip.Addr) {
	for _, a := range addrs {
		if a.IsValid() {
			s.nets = append(s.nets, netip.PrefixFrom(a, a.BitLen()))
		}
	}
}

// comparePrefixes orders by address, the wider first.
func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

// Groups divides the pods, in the order of each group's first.
func (s *Space) Groups(pods []question.Party) []Group {
	index := map[string]int{}
	var groups []Group
	for _, pod := range pods {
		sign := s.signature(pod)
		i, ok := index[sign]
		if !ok {
			i = len(groups)
			index[sign] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], pod)
	}
	return groups
}

// signature writes down all that policy can see of a pod. What it cannot see, and what tells every
// pod from every other, is left out: names of the pod, its interface and its node, and the
// addresses themselves.
func (s *Space) signature(pod question.Party) string {
	var parts []string
	for _, world := range s.worlds {
		endpoint, ok := world[pod.Endpoint].(*policy.WorkloadEndpoint)
		if !ok {
			return "unknown " + pod.Name // alike to nobody
		}
		visible := *endpoint
		visible.Name, visible.Node, visible.Interface, visible.MAC, visible.Addresses = "", "", "", "", nil
		text, err := json.Marshal(&visible)
		if err != nil {
			return "unknown " + pod.Name
		}
		parts = append(parts, string(text), s.addresses(endpoint.Addresses))
	}
	if s.sharesAddress(pod) {
		parts = append(parts, "shares "+pod.Name)
	}
	return strings.Join(append(parts, s.addresses(pod.Addresses)), "\n")
}

// addresses writes down which networks the addresses are in, and what they serve.
func (s *Space) addresses(addrs []netip.Addr) string {
	var parts []string
	for _, addr := range addrs {
		in := []string{"v6"}
		if addr.Is4() {
			in[0] = "v4"
		}
		for _, n := range s.nets {
			if n.Contains(addr) {
				in = append(in, n.String())
			}
		}
		in = append(in, slices.Sorted(maps.Keys(s.backends[addr]))...)
		parts = append(parts, strings.Join(in, " "))
	}
	return strings.Join(parts, ", ")
}

func (s *Space) sharesAddress(pod question.Party) bool {
	for _, world := range s.worlds {
		if endpoint, ok := world[pod.Endpoint].(*policy.WorkloadEndpoint); ok &&
			slices.ContainsFunc(endpoint.Addresses, func(a netip.Addr) bool { return s.holders[a] > 1 }) {
			return true
		}
	}
	return false
}
