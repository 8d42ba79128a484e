// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// mixedPeer returns one of few peers, so that rules share them. Lists have one or both families.
func (m *classModel) mixedPeer() (out dataplane.Match) {
	nets := [][]netip.Prefix{
		nfttest.Nets("10.0.0.0/8"), nfttest.Nets("10.0.0.0/24", "fd00::/64"), nfttest.Nets("0.0.0.0/0"),
		nfttest.Nets("fd00::/16"), nfttest.Nets("0.0.0.0/0", "fd00::/16"),
	}
	switch m.IntN(9) {
	case 0, 1:
		out.Nets = nfttest.Pick(m.World, nets)
	case 2:
		out.NotNets = nfttest.Pick(m.World, nets)
	case 3, 4:
		out.Sets = []dataplane.IPSetID{nfttest.Pick(m.World, nfttest.NetSets())}
	case 5:
		out.NotSets = []dataplane.IPSetID{nfttest.Pick(m.World, nfttest.NetSets())}
	case 6:
		out.Sets, out.NotSets = []dataplane.IPSetID{"s:a"}, []dataplane.IPSetID{"s:b"}
	case 7:
		out.Nets, out.NotNets = nets[0], nfttest.Nets("10.0.1.0/24")
	}
	return out
}

// mixedRest gives a rule another action, protocol and ports. Some of these rules are not plain.
func (m *classModel) mixedRest(r *dataplane.Rule, in bool) {
	peer := &r.Source
	if !in {
		peer = &r.Destination
	}
	*r = dataplane.Rule{ID: r.ID, Source: dataplane.Match{
		Nets: r.Source.Nets, NotNets: r.Source.NotNets, Sets: r.Source.Sets, NotSets: r.Source.NotSets,
	}, Destination: dataplane.Match{
		Nets: r.Destination.Nets, NotNets: r.Destination.NotNets,
		Sets: r.Destination.Sets, NotSets: r.Destination.NotSets,
	}, IPVersion: r.IPVersion}
	r.Action = nfttest.Pick(m.World, []policy.Action{policy.Allow, policy.Allow, policy.Deny, policy.Pass})
	if m.IntN(3) > 0 {
		r.Protocol = nfttest.Pick(m.World, []policy.Protocol{6, 17, 6, 17, 1})
	}
	if r.Protocol.HasPorts() {
		for range m.IntN(3) {
			r.Destination.Ports = append(r.Destination.Ports, policy.PortNumber(m.Port()))
		}
		if m.IntN(6) == 0 {
			r.Destination.NotPorts = []policy.Port{policy.PortNumber(m.Port())}
		}
	}
	switch m.IntN(14) {
	case 0:
		r.Action = policy.Log
	case 1:
		r.Source.Ports = []policy.Port{policy.PortNumber(m.Port())}
	case 2: // not plain: its chains depend on which kernel sets the IP set has
		r.Destination.PortSets = []dataplane.IPSetID{nfttest.Pick(m.World, nfttest.PortSets())}
	case 3:
		r.IPVersion = nfttest.Pick(m.World, []int{0, 4, 6})
	case 4:
		r.NotProtocol = 17
	case 5:
		r.Destination.NotPortSets = []dataplane.IPSetID{nfttest.Pick(m.World, nfttest.PortSets())}
	case 6: // it hides all rules behind it
		r.Protocol, r.Destination.Ports, r.Destination.NotPorts = 0, nil, nil
	}
	if m.IntN(12) == 0 {
		*peer = m.mixedPeer()
	}
}

func (m *classModel) mixedRules(name string, in bool) (out []dataplane.Rule) {
	for i := range m.IntN(4) {
		r := dataplane.Rule{ID: fmt.Sprintf("%s-%d", name, i)}
		if in {
			r.Source = m.mixedPeer()
		} else {
			r.Destination = m.mixedPeer()
		}
		m.mixedRest(&r, in)
		out = append(out, r)
	}
	return out
}

// editMixed returns rules of which some have another action, protocol and ports. A few are missing,
// or have other positions.
func (m *classModel) editMixed(rules []dataplane.Rule, in bool) []dataplane.Rule {
	out := slices.Clone(rules)
	for i := range out {
		if m.IntN(2) == 0 {
			m.mixedRest(&out[i], in)
		}
	}
	if len(out) > 1 && m.IntN(8) == 0 {
		i := m.IntN(len(out) - 1)
		out[i], out[i+1] = out[i+1], out[i]
	}
	if len(out) > 1 && m.IntN(10) == 0 {
		out = out[1:]
	}
	return out
}

// mixedTiers returns one or two tiers of policies whose names begin with the prefix.
func (m *classModel) mixedTiers(prefix string, partial bool) (out []dataplane.TierPolicies) {
	for tier := range m.IntN(3) {
		t := dataplane.TierPolicies{Tier: fmt.Sprint("t", tier), DefaultAction: policy.Deny}
		if partial || m.IntN(3) == 0 {
			t.DefaultAction = policy.Pass
		}
		for i := range 3 {
			if m.IntN(3) > 0 {
				t.Policies = append(t.Policies, nfttest.PolicyKey(fmt.Sprint(prefix, (tier+i)%3)))
			}
		}
		if len(t.Policies) > 0 {
			out = append(out, t)
		}
	}
	return out
}

func (m *classModel) mixedPolicy(prefix, name string) *dataplane.Policy {
	return &dataplane.Policy{
		Tier: "t", Staged: m.IntN(10) == 0, Untracked: prefix == "u", PreDNAT: prefix == "d",
		Ingress: m.mixedRules(name+"-in", true), Egress: m.mixedRules(name+"-out", false),
	}
}

func (m *classModel) mixedEndpoint(name string) *dataplane.Endpoint {
	return &dataplane.Endpoint{
		Interface: name, Addresses: nfttest.AddrPool(),
		Ingress: m.mixedTiers("n", false), Egress: m.mixedTiers("n", false),
		Profiles: nfttest.Pick(m.World, [][]string{nil, {"a"}, {"a", "b"}, {"b"}}),
	}
}

func (m *classModel) mixedHost(iface string) *dataplane.HostEndpoint {
	return &dataplane.HostEndpoint{
		Interface: iface, Profiles: nfttest.Pick(m.World, [][]string{nil, {"a"}}),
		Ingress: m.mixedTiers("n", false), Egress: m.mixedTiers("n", false),
		ForwardIngress: m.mixedTiers("n", false), ForwardEgress: m.mixedTiers("n", false),
		UntrackedIngress: m.mixedTiers("u", true), UntrackedEgress: m.mixedTiers("u", true),
		PreDNATIngress: m.mixedTiers("d", true),
	}
}

func hostKey(name string) policy.Key { return policy.Key{Kind: policy.KindHostEndpoint, Name: name} }

// mixedState returns a state of policies for all stages, some for ingress and egress of one
// endpoint.
func (m *classModel) mixedState(hosts bool) dptest.State {
	s := m.State()
	clear(s.Policies)
	clear(s.Endpoints)
	for _, prefix := range []string{"n", "u", "d"} {
		for i := range 3 {
			name := fmt.Sprint(prefix, i)
			s.Policies[nfttest.PolicyKey(name)] = m.mixedPolicy(prefix, name)
		}
	}
	for _, name := range []string{"a", "b"} {
		s.Profiles[name] = &dataplane.Profile{
			Ingress: m.mixedRules(name+"-in", true), Egress: m.mixedRules(name+"-out", false),
		}
	}
	for i := range 4 {
		name := fmt.Sprint("way", i)
		s.Endpoints[nfttest.EndpointKey(name)] = m.mixedEndpoint(name)
	}
	if hosts {
		for _, iface := range []string{"eth0", "eth1", policy.AllInterfaces} {
			s.HostEndpoints[hostKey(iface)] = m.mixedHost(iface)
		}
	}
	return s
}

// mix changes several objects of a state at once.
func (m *classModel) mix(s dptest.State) {
	for _, k := range slices.SortedFunc(maps.Keys(s.Policies), policy.Key.Compare) {
		p := *s.Policies[k]
		switch n := m.IntN(20); {
		case n < 10:
			p.Ingress, p.Egress = m.editMixed(p.Ingress, true), m.editMixed(p.Egress, false)
		case n == 10:
			p.Staged = !p.Staged
		case n == 11: // two policies exchange positions
			other := nfttest.PolicyKey(fmt.Sprint(k.Name[:1], m.IntN(3)))
			p, s.Policies[other] = *s.Policies[other], s.Policies[k]
		case n == 12:
			p = *m.mixedPolicy(k.Name[:1], k.Name)
		}
		s.Policies[k] = &p
	}
	for _, name := range []string{"a", "b"} {
		if p := *s.Profiles[name]; m.IntN(3) == 0 {
			p.Ingress, p.Egress = m.editMixed(p.Ingress, true), m.editMixed(p.Egress, false)
			s.Profiles[name] = &p
		}
	}
	if m.IntN(3) == 0 { // another order, default action or set of policies
		name := fmt.Sprint("way", m.IntN(4))
		s.Endpoints[nfttest.EndpointKey(name)] = m.mixedEndpoint(name)
	}
	if m.IntN(8) == 0 {
		delete(s.Endpoints, nfttest.EndpointKey(fmt.Sprint("way", m.IntN(4))))
	}
	if len(s.HostEndpoints) > 0 && m.IntN(4) == 0 {
		iface := nfttest.Pick(m.World, []string{"eth0", "eth1", policy.AllInterfaces})
		s.HostEndpoints[hostKey(iface)] = m.mixedHost(iface)
	}
	if m.IntN(2) == 0 { // classes are added and removed
		other := m.State()
		for _, id := range slices.Concat(nfttest.NetSets(), nfttest.PortSets()) {
			if m.IntN(3) == 0 {
				s.Sets[id] = other.Sets[id]
			}
			if m.IntN(8) == 0 {
				s.Sets[id] = dptest.Set{Type: s.Sets[id].Type}
			}
		}
	}
}

// Rules, peers, sets, tiers, kinds of policies and endpoints change in one flush, at all stages and
// under limits. The table and the costs equal those of a new Renderer.
func TestMixedEditsModel(t *testing.T) {
	for _, seed := range worldFlags.Seeds(60, 10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newClassModel(t, seed)
			m.cfg.VerdictLog = render.VerdictLog{Enabled: m.IntN(6) == 0, Group: 7}
			if m.IntN(2) == 0 { // groups cross the limits often
				m.cfg.Classes.MaxPerGroup = nfttest.Pick(m.World, []int{0, 12, 30, 60, 120, 240})
				m.cfg.Classes.MaxTotal = nfttest.Pick(m.World, []int{0, 60, 150, 400, 800})
			}
			m.r = m.fresh()
			hosts := seed%3 > 0
			last := dptest.NewState()
			next := m.mixedState(hosts)
			states := []dptest.State{}
			for range 8 {
				events := dptest.Transition(last, next).Events
				if m.IntN(2) == 0 {
					m.shuffle(events)
				}
				m.play(append(events, m.again(next)...))
				table := m.check(next)
				if !hosts {
					m.judge(next, table, 40)
				}
				last = next
				states = append(states, next)
				next = last.Clone()
				if m.IntN(4) == 0 {
					next = states[m.IntN(len(states))].Clone()
				}
				m.mix(next)
			}
			m.play(dptest.Transition(last, dptest.NewState()).Events)
			empty := m.fresh()
			empty.Flush()
			require.Equal(t, empty.ClassStats(), m.r.ClassStats())
			require.Equal(t, sizes(empty), sizes(m.r), "entries are left")
		})
	}
}
