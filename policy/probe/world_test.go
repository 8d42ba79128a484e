// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

// twoWorlds returns two random worlds with the same pods, some of them replicas, and different
// policies. They have few addresses of replicas, networks, ports and messages, so that these often
// match.
func twoWorlds(seed uint64) (before, after verdict.World) {
	gen, rng := worlds.New(worlds.Config{Seed: seed}), rand.New(rand.NewPCG(seed, 4))
	before = verdict.World{}
	for range 15 + rng.IntN(30) {
		// Policies that deny hide the effect of others: half of the worlds have only the narrow
		// policies.
		if u := gen.Update(); seed%2 == 0 || u.Key.Kind != policy.KindPolicy {
			before.Apply(u)
		}
	}
	all := []policy.Rule{{Action: policy.Allow}}
	before.Set(&policy.Profile{Name: "open", Ingress: all, Egress: all})
	clean(before)
	addReplicas(before, rng)
	for i := range 10 {
		before.Set(narrow(rng, i))
	}
	for i := range 3 {
		before.Set(backends(rng, i))
	}
	after = maps.Clone(before)
	after.Set(backends(rng, rng.IntN(3)))
	for range 4 {
		if u := gen.Update(); u.Key.Kind != policy.KindWorkloadEndpoint && seed%2 == 0 {
			after.Apply(u)
		}
		after.Set(narrow(rng, rng.IntN(10)))
	}
	clean(before)
	clean(after)
	return before, after
}

// addReplicas gives some pods replicas, which have addresses in 10.1.0.0/26 and fd01::/122.
func addReplicas(w verdict.World, rng *rand.Rand) {
	next := byte(0)
	for _, key := range slices.SortedFunc(maps.Keys(w), policy.Key.Compare) {
		original, ok := w[key].(*policy.WorkloadEndpoint)
		if !ok || next > 50 {
			continue
		}
		for range 1 + rng.IntN(4) {
			next++
			replica := *original
			replica.Name = fmt.Sprintf("%s-replica%d", original.Name, next)
			replica.Profiles = []string{"open"}
			replica.Interface = fmt.Sprintf("rep%d", next)
			replica.Addresses = []netip.Addr{
				netip.AddrFrom4([4]byte{10, 1, 0, next}), netip.AddrFrom16([16]byte{0: 0xfd, 1: 1, 15: next}),
			}
			if next%16 == 7 { // shared with the previous one
				replica.Addresses[0] = replica.Addresses[0].Prev()
			}
			w.Set(&replica)
		}
	}
}

// clean removes resources that are absent for the evaluator.
func clean(w verdict.World) {
	for key := range verdict.New(w).Rejected() {
		delete(w, key)
	}
}

// backends returns a ServiceBackends with some of the replicas.
func backends(rng *rand.Rand, i int) policy.Resource {
	s := &policy.ServiceBackends{Namespace: "a", Name: fmt.Sprint("part-", i), Service: fmt.Sprint("service-", i/2)}
	first, count := 1+rng.IntN(40), rng.IntN(30)
	for n := first; n < first+count; n++ {
		s.Addresses = append(s.Addresses, netip.AddrFrom4([4]byte{10, 1, 0, byte(n)}))
	}
	s.Ports = []policy.ServicePort{{Protocol: policy.ProtocolTCP, Port: uint16(1 + rng.IntN(20))}}
	return s
}

// narrow returns a policy for all endpoints with many distinctions. It comes first, and leaves the
// decision to later policies if its rules do not match.
func narrow(rng *rand.Rand, i int) policy.Resource {
	order := float64(-i)
	rules := []policy.Rule{narrowRule(rng), narrowRule(rng)}
	p := &policy.Policy{Tier: policy.KubeAdminTier, Name: fmt.Sprint("narrow-", i), Order: &order, Ingress: rules}
	if rng.IntN(2) == 0 {
		p.Ingress, p.Egress = nil, rules
	}
	if rng.IntN(8) == 0 {
		return &policy.Profile{Name: "p1", Ingress: rules, Egress: rules}
	}
	return p
}

func narrowRule(rng *rand.Rand) policy.Rule {
	r := policy.Rule{Action: []policy.Action{policy.Allow, policy.Deny, policy.Pass}[rng.IntN(3)]}
	side := &r.Source
	if rng.IntN(2) == 0 {
		side = &r.Destination
	}
	if rng.IntN(2) == 0 {
		addr := netip.AddrFrom4([4]byte{10, 1, 0, byte(rng.IntN(64))})
		side.Nets = policy.Nets{netip.PrefixFrom(addr, 26+rng.IntN(7)).Masked()}
	}
	if rng.IntN(4) == 0 {
		addr := netip.AddrFrom16([16]byte{0: 0xfd, 1: 1, 15: byte(rng.IntN(64))})
		side.NotNets = policy.Nets{netip.PrefixFrom(addr, 122+rng.IntN(7)).Masked()}
	}
	switch rng.IntN(4) {
	case 0:
		r.Protocol = []policy.Protocol{policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP}[rng.IntN(3)]
		first := uint16(1 + rng.IntN(15))
		ports := []policy.Port{policy.PortRange(first, first+uint16(rng.IntN(6)))}
		if rng.IntN(3) == 0 {
			r.Destination.NotPorts = ports
		} else {
			r.Destination.Ports = ports
		}
	case 1:
		r.Protocol = []policy.Protocol{policy.ProtocolICMP, policy.ProtocolICMPv6}[rng.IntN(2)]
		typ, code := []int{0, 3, 8, 128}[rng.IntN(4)], rng.IntN(3)
		r.ICMP = &policy.ICMP{Type: &typ}
		if rng.IntN(2) == 0 {
			r.ICMP.Code = &code
		}
		if rng.IntN(3) == 0 {
			r.ICMP, r.NotICMP = nil, r.ICMP
		}
	case 2:
		r.NotProtocol = policy.Protocol(240 + rng.IntN(14))
	case 3:
		if rng.IntN(2) == 0 {
			*side = policy.EntityRule{
				Services: &policy.ServiceMatch{Namespace: "a", Name: fmt.Sprint("service-", rng.IntN(2))},
			}
		}
	}
	return r
}

// packet returns a random port to query.
func packet(rng *rand.Rand) probe.Port {
	switch rng.IntN(8) {
	case 0:
		return probe.Port{
			Protocol: policy.ProtocolICMP, Typed: true, Type: uint8(rng.IntN(10)), Code: uint8(rng.IntN(4)),
		}
	case 1:
		return probe.Port{
			Protocol: policy.ProtocolICMPv6, Typed: true, Type: uint8([]int{0, 3, 8, 77, 128}[rng.IntN(5)]),
			Code: uint8(rng.IntN(4)),
		}
	case 2:
		return probe.Port{Protocol: policy.Protocol(240 + rng.IntN(15))}
	}
	protocols := []policy.Protocol{policy.ProtocolTCP, policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP}
	p := probe.Port{Protocol: protocols[rng.IntN(len(protocols))], Number: uint16(1 + rng.IntN(24))}
	if rng.IntN(4) == 0 {
		p.Number = uint16(1 + rng.IntN(65535))
	}
	return p
}

// address returns addresses in and around the networks of the worlds, and far from them.
func address(rng *rand.Rand) netip.Addr {
	b := [16]byte{15: byte(rng.IntN(70))}
	switch rng.IntN(6) {
	case 0:
		return netip.AddrFrom4([4]byte{10, 0, 0, b[15]})
	case 1:
		return netip.AddrFrom4([4]byte{10, 1, 0, b[15]})
	case 2:
		return netip.AddrFrom4([4]byte{byte(rng.IntN(256)), byte(rng.IntN(256)), 0, b[15]})
	case 3:
		b[0] = 0xfd
	case 4:
		b[0], b[1] = 0xfd, 1
	default:
		b[0], b[9] = byte(rng.IntN(256)), 7
	}
	return netip.AddrFrom16(b)
}
