// SPDX-License-Identifier: Apache-2.0

package worldgen

import (
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// Corrupt makes one field of a rule invalid.
func (g *Gen) Corrupt(r *policy.Rule) {
	e := &r.Source
	if g.chance(2) {
		e = &r.Destination
	}
	badType := 255
	pick(g, append(corruptHeader(&r.HeaderMatch), []func(){
		func() { r.Action = "" },
		func() { r.Action = "Perhaps" },
		func() { r.IPVersion = 5 },
		func() { r.NotICMP = &policy.ICMP{} },
		func() { r.Protocol, r.ICMP = policy.ProtocolICMP, &policy.ICMP{Type: &badType} },
		func() { e.Nets = append(e.Nets[:len(e.Nets):len(e.Nets)], netip.Prefix{}) },
		func() { e.NotNets = policy.Nets{netip.MustParsePrefix("10.1.2.3/8")} },
		func() { e.Selector = "a ==" },
		func() { e.NotSelector = "(" },
		func() { e.NamespaceSelector = "has(" },
		func() { e.ServiceAccounts = &policy.ServiceAccounts{} },
		func() { e.Services = &policy.ServiceMatch{} },
		func() { e.Ports = append(e.Ports[:len(e.Ports):len(e.Ports)], policy.Port{}) },
		func() { e.NotPorts = []policy.Port{policy.PortRange(9, 8)} },
	}...))()
}

// corruptOne corrupts one of the rules, if there are any. The others may be shared.
func (g *Gen) corruptOne(rules []policy.Rule) {
	if len(rules) > 0 {
		g.Corrupt(&rules[g.rng.IntN(len(rules))])
	}
}
