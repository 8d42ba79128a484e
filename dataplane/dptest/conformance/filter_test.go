// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// filter is a dataplane in memory that judges packets, independently of dptest.State.Judge. It
// keeps the events in its own tables, and translates the policy of an endpoint into a program with
// jumps. It finds an address in a set by one lookup for each prefix length. A flaw makes it a
// mutant.
type filter struct {
	memory
	flaw      string
	sets      map[dataplane.IPSetID]map[dataplane.Member]bool
	policies  map[policy.Key]*dataplane.Policy
	profiles  map[string]*dataplane.Profile
	endpoints map[policy.Key]*dataplane.Endpoint
	programs  map[end]program // of the state since the last batch
}

// end is a direction of an endpoint.
type end struct {
	endpoint policy.Key
	ingress  bool
}

func newFilter(m memory, flaw string) *filter {
	return &filter{
		memory: m, flaw: flaw,
		sets:      map[dataplane.IPSetID]map[dataplane.Member]bool{},
		policies:  map[policy.Key]*dataplane.Policy{},
		profiles:  map[string]*dataplane.Profile{},
		endpoints: map[policy.Key]*dataplane.Endpoint{},
	}
}

func (f *filter) Apply(ctx context.Context, b dataplane.Batch) error {
	for _, e := range b.Events {
		f.applyEvent(e)
	}
	f.programs = map[end]program{}
	return f.memory.Apply(ctx, b)
}

func (f *filter) applyEvent(e dataplane.Event) {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		f.sets[e.ID] = map[dataplane.Member]bool{}
		f.add(e.ID, e.Members)
	case *dataplane.IPSetDelta:
		f.add(e.ID, e.Added)
		for _, m := range e.Removed {
			if f.flaw != "members stay in sets" {
				delete(f.sets[e.ID], m)
			}
		}
	case *dataplane.IPSetRemove:
		delete(f.sets, e.ID)
	case *dataplane.PolicyUpdate:
		if f.policies[e.Key] == nil || f.flaw != "changes of policies are ignored" {
			f.policies[e.Key] = e.Policy
		}
	case *dataplane.PolicyRemove:
		delete(f.policies, e.Key)
	case *dataplane.ProfileUpdate:
		f.profiles[e.Name] = e.Profile
	case *dataplane.ProfileRemove:
		delete(f.profiles, e.Name)
	case *dataplane.EndpointUpdate:
		f.endpoints[e.Key] = e.Endpoint
	case *dataplane.EndpointRemove:
		delete(f.endpoints, e.Key)
	}
}

func (f *filter) add(id dataplane.IPSetID, members []dataplane.Member) {
	for _, m := range members {
		f.sets[id][m] = true
	}
}

// judge runs the programs of both ends.
func (f *filter) judge(p dptest.Packet) (bool, error) {
	switch {
	case f.flaw == "everything is allowed":
		return true, nil
	case f.flaw == "no packet can be judged":
		return false, errors.New("no verdict")
	case f.flaw == "everything is denied":
		return false, nil
	case f.flaw == "IPv6 is allowed" && p.Src.Is6():
		return true, nil
	}
	for key, ingress := range map[policy.Key]bool{p.From: false, p.To: true} {
		if key == (policy.Key{}) {
			continue
		}
		e := f.endpoints[key]
		if e.Down && f.flaw != "endpoints that are down are up" {
			return false, nil
		}
		at := end{key, ingress != (f.flaw == "ingress and egress are swapped")}
		if f.programs[at] == nil {
			f.programs[at] = f.program(e, at.ingress)
		}
		if !f.programs[at].run(p) {
			return false, nil
		}
	}
	return true, nil
}

// These targets of a jump end the program.
const (
	accept = -1
	reject = -2
)

// instruction jumps if all its tests hold. Otherwise the next instruction follows.
type instruction struct {
	tests []func(dptest.Packet) bool
	jump  int
}

type program []instruction

func (prog program) run(p dptest.Packet) bool {
	for at := 0; ; {
		next := at + 1
		if !slices.ContainsFunc(prog[at].tests, func(test func(dptest.Packet) bool) bool { return !test(p) }) {
			next = prog[at].jump
		}
		if next < 0 {
			return next == accept
		}
		at = next
	}
}

// program translates the policy of an endpoint in one direction.
func (f *filter) program(e *dataplane.Endpoint, ingress bool) (prog program) {
	tiers := e.Egress
	if ingress {
		tiers = e.Ingress
	}
	if tiers = slices.Clone(tiers); f.flaw == "the order of tiers is reversed" {
		slices.Reverse(tiers)
	}
	for _, t := range tiers {
		prog = f.tier(prog, t, ingress)
	}
	if f.flaw == "profiles are ignored" {
		return append(prog, instruction{jump: reject})
	}
	for _, name := range e.Profiles {
		rules := f.profiles[name].Egress
		if ingress {
			rules = f.profiles[name].Ingress
		}
		pass := reject
		if f.flaw == "Pass in a profile is Allow" {
			pass = accept
		}
		prog = f.rules(prog, rules, pass)
	}
	last := reject
	if f.flaw == "no verdict is Allow" {
		last = accept
	}
	return append(prog, instruction{jump: last})
}

// tier appends the instructions of a tier. Pass jumps behind them.
func (f *filter) tier(prog program, t dataplane.TierPolicies, ingress bool) program {
	const behind = -3
	keys := slices.Clone(t.Policies)
	if f.flaw == "the order of policies is reversed" {
		slices.Reverse(keys)
	}
	start, enforced := len(prog), 0
	for _, key := range keys {
		p := f.policies[key]
		if p.Staged && f.flaw != "staged policies are enforced" {
			continue
		}
		enforced++
		rules := p.Egress
		if ingress {
			rules = p.Ingress
		}
		prog = f.rules(prog, rules, behind)
	}
	deny := t.DefaultAction == policy.Deny && f.flaw != "the end of a tier passes" ||
		f.flaw == "the end of a tier denies"
	if (enforced > 0 || f.flaw == "staged policies have an end") && deny {
		prog = append(prog, instruction{jump: reject})
	}
	for i := start; i < len(prog); i++ {
		if prog[i].jump == behind {
			prog[i].jump = len(prog)
		}
		if f.flaw == "Pass is Allow" && prog[i].jump == len(prog) {
			prog[i].jump = accept
		}
	}
	return prog
}

func (f *filter) rules(prog program, rules []dataplane.Rule, pass int) program {
	rules = slices.Clone(rules)
	if f.flaw == "the order of rules is reversed" {
		slices.Reverse(rules)
	}
	for _, r := range rules {
		jump := map[policy.Action]int{policy.Allow: accept, policy.Deny: reject, policy.Pass: pass}
		to, decides := jump[r.Action]
		if !decides && f.flaw == "Log is Allow" {
			to, decides = accept, true
		}
		if decides {
			prog = append(prog, instruction{tests: f.tests(r), jump: to})
		}
	}
	return prog
}

// tests returns the conditions of a rule.
func (f *filter) tests(r dataplane.Rule) (tests []func(dptest.Packet) bool) {
	must := func(present bool, flaw string, test func(dptest.Packet) bool) {
		if present && f.flaw != flaw {
			tests = append(tests, test)
		}
	}
	must(r.IPVersion != 0, "IP versions are ignored", func(p dptest.Packet) bool {
		return p.Src.BitLen() == map[int]int{4: 32, 6: 128}[r.IPVersion]
	})
	must(r.Protocol != 0, "protocols are ignored", func(p dptest.Packet) bool { return p.Protocol == r.Protocol })
	must(r.NotProtocol != 0, "negated protocols are ignored", func(p dptest.Packet) bool {
		return p.Protocol != r.NotProtocol
	})
	must(r.ICMP != nil, "ICMP types are ignored", func(p dptest.Packet) bool { return f.icmp(r.ICMP, p) })
	must(r.NotICMP != nil, "negated ICMP types are ignored", func(p dptest.Packet) bool {
		return !f.icmp(r.NotICMP, p)
	})
	must(len(r.DSCP) > 0, "code points are ignored", func(p dptest.Packet) bool {
		return slices.Index(r.DSCP, p.DSCP) >= 0
	})
	must(len(r.NotDSCP) > 0, "negated code points are ignored", func(p dptest.Packet) bool {
		return slices.Index(r.NotDSCP, p.DSCP) < 0
	})
	for _, side := range []struct {
		match   dataplane.Match
		ignored string
		of      func(dptest.Packet) (netip.Addr, uint16)
	}{
		{r.Source, "sources are ignored", func(p dptest.Packet) (netip.Addr, uint16) {
			return p.Src, p.SrcPort
		}},
		{r.Destination, "destinations are ignored", func(p dptest.Packet) (netip.Addr, uint16) {
			return p.Dst, p.DstPort
		}},
	} {
		for _, test := range f.sideTests(side.match) {
			must(true, side.ignored, func(p dptest.Packet) bool {
				a, port := side.of(p)
				return test(p.Protocol, a, port)
			})
		}
	}
	return tests
}

func (f *filter) icmp(m *policy.ICMP, p dptest.Packet) bool {
	if int(p.ICMPType) != *m.Type {
		return false
	}
	return m.Code == nil || f.flaw == "ICMP codes are ignored" || int(p.ICMPCode) == *m.Code
}

type sideTest func(policy.Protocol, netip.Addr, uint16) bool

// sideTests returns the conditions on one side of the packet.
func (f *filter) sideTests(m dataplane.Match) (tests []sideTest) {
	if len(m.Nets) > 0 && f.flaw != "nets are ignored" {
		tests = append(tests, func(_ policy.Protocol, a netip.Addr, _ uint16) bool { return within(a, m.Nets) })
	}
	if f.flaw != "negated nets are ignored" {
		tests = append(tests, func(_ policy.Protocol, a netip.Addr, _ uint16) bool { return !within(a, m.NotNets) })
	}
	for i, id := range m.Sets {
		if f.flaw == "sets are ignored" || f.flaw == "only the first set is used" && i > 0 {
			continue
		}
		tests = append(tests, func(_ policy.Protocol, a netip.Addr, _ uint16) bool { return f.member(id, a) })
	}
	for _, id := range m.NotSets {
		if f.flaw != "negated sets are ignored" {
			tests = append(tests, func(_ policy.Protocol, a netip.Addr, _ uint16) bool { return !f.member(id, a) })
		}
	}
	if len(m.Ports)+len(m.PortSets) > 0 && f.flaw != "ports are ignored" {
		tests = append(tests, f.portTest(m.Ports, m.PortSets))
	}
	if f.flaw != "negated ports are ignored" {
		not := f.portTest(m.NotPorts, m.NotPortSets)
		tests = append(tests, func(proto policy.Protocol, a netip.Addr, port uint16) bool {
			return !not(proto, a, port)
		})
	}
	return tests
}

// portTest returns a test of whether a port is in one of the ranges or the sets.
func (f *filter) portTest(ranges []policy.Port, sets []dataplane.IPSetID) sideTest {
	return func(proto policy.Protocol, a netip.Addr, port uint16) bool {
		if proto != 6 && proto != 17 && proto != 132 {
			return false
		}
		for _, r := range ranges {
			low, high := int(r.First), int(r.Last)
			switch {
			case f.flaw == "ranges lack their end" && low < high:
				high--
			case f.flaw == "ranges have a port too many":
				high++
			}
			if low <= int(port) && int(port) <= high {
				return true
			}
		}
		for _, id := range sets {
			switch {
			case f.flaw == "named ports are any port":
				return true
			case f.flaw == "named ports are of any address" && f.named(id, proto, port):
				return true
			case f.sets[id][dataplane.Member{Prefix: netip.PrefixFrom(a, a.BitLen()), Protocol: proto, Port: port}] &&
				f.flaw != "named ports match nothing":
				return true
			}
		}
		return false
	}
}

// named reports whether some address has the port in a set.
func (f *filter) named(id dataplane.IPSetID, proto policy.Protocol, port uint16) bool {
	for m := range f.sets[id] {
		if m.Protocol == proto && m.Port == port {
			return true
		}
	}
	return false
}

// member looks for every prefix that an address is in.
func (f *filter) member(id dataplane.IPSetID, a netip.Addr) bool {
	for bits := range a.BitLen() + 1 {
		if prefix, err := a.Prefix(bits); err == nil && f.sets[id][dataplane.Member{Prefix: prefix}] {
			return true
		}
	}
	return false
}

// within reports whether the address with its host bits cleared is one of the prefixes.
func within(a netip.Addr, nets []netip.Prefix) bool {
	for _, n := range nets {
		if masked, err := a.Prefix(n.Bits()); err == nil && masked == n {
			return true
		}
	}
	return false
}
