// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// decision is what rules say about a packet.
type decision uint8

const (
	undecided decision = iota
	allowed
	denied
	passed // to the next tier
)

func decisionOf(a policy.Action) decision {
	switch a {
	case policy.Allow:
		return allowed
	case policy.Pass:
		return passed
	default:
		return denied
	}
}

// decisions are what a list of rules says about every protocol and destination port: the first that matches counts. The zero value
// says nothing.
type decisions struct {
	protos [256]decision // but for protocols with ports
	ports  [3]portDecisions
}

// portDecisions are those of one protocol with ports.
type portDecisions struct {
	begun bool
	open  []policy.Port // what is undecided, sorted and disjoint
	by    [passed + 1][]policy.Port
}

// everyProtocol yields the numbers of all protocols.
func everyProtocol() iter.Seq[policy.Protocol] {
	return func(yield func(policy.Protocol) bool) {
		for i := range 1 << 8 {
			if !yield(policy.Protocol(i)) {
				return
			}
		}
	}
}

func everyPort() []policy.Port { return []policy.Port{policy.PortRange(0, math.MaxUint16)} }

// portIndex returns where the decisions of a protocol with ports are.
func portIndex(p policy.Protocol) int { return slices.Index(withPorts(), p) }

// rule takes a rule in that asks for nothing but protocol and ports, as it is meant for a family.
func (d *decisions) rule(rule *dataplane.Rule, f family) {
	say := decisionOf(rule.Action)
	for _, class := range ruleClasses(rule, f) {
		protos := slices.Values(class.in)
		if class.in == nil {
			protos = everyProtocol()
		}
		for p := range protos {
			if slices.Contains(class.notIn, p) || rule.NotProtocol != 0 && p == rule.NotProtocol {
				continue
			}
			i := portIndex(p)
			switch {
			case i < 0:
				d.decide(p, say)
			case class.ports:
				d.ports[i].decide(rulePorts(&rule.Destination), say)
			default:
				d.ports[i].decide(everyPort(), say)
			}
		}
	}
}

// rulePorts returns the ports that a side asks for.
func rulePorts(m *dataplane.Match) []policy.Port {
	var want portDecisions
	want.decide(m.NotPorts, denied)
	if len(m.Ports) == 0 {
		want.decide(everyPort(), allowed)
	} else {
		want.decide(m.Ports, allowed)
	}
	return want.by[allowed]
}

func (d *decisions) decide(p policy.Protocol, say decision) {
	if d.protos[p] == undecided {
		d.protos[p] = say
	}
}

// decide decides about those of the ports that are undecided.
func (d *portDecisions) decide(ports []policy.Port, say decision) {
	if !d.begun {
		d.begun, d.open = true, everyPort()
	}
	for _, p := range ports {
		i, _ := slices.BinarySearchFunc(d.open, p.First, func(o policy.Port, first uint16) int { return cmp.Compare(o.Last, first) })
		j := i
		var rest []policy.Port
		for ; j < len(d.open) && d.open[j].First <= p.Last; j++ {
			o := d.open[j]
			if o.First < p.First {
				rest = append(rest, policy.PortRange(o.First, p.First-1))
			}
			if o.Last > p.Last {
				rest = append(rest, policy.PortRange(p.Last+1, o.Last))
			}
			d.by[say] = append(d.by[say], policy.PortRange(max(o.First, p.First), min(o.Last, p.Last)))
		}
		d.open = slices.Replace(d.open, i, j, rest...)
	}
}

// rest decides about all that is undecided.
func (d *decisions) rest(say decision) {
	for p := range everyProtocol() {
		if i := portIndex(p); i >= 0 {
			d.ports[i].decide(everyPort(), say)
		} else {
			d.decide(p, say)
		}
	}
}

// reopen makes undecided what has been passed.
func (d *decisions) reopen() {
	for p := range d.protos {
		if d.protos[p] == passed {
			d.protos[p] = undecided
		}
	}
	for i := range d.ports {
		if p := &d.ports[i]; len(p.by[passed]) > 0 {
			p.open = mergePorts(append(p.open, p.by[passed]...))
			p.by[passed] = nil
		}
	}
}

// wholly returns the protocols all of whose packets have that decision.
func (d *decisions) wholly(say decision) (whole []policy.Protocol) {
	for p := range everyProtocol() {
		i := portIndex(p)
		if i < 0 && d.protos[p] == say || i >= 0 && allPorts(mergePorts(d.ports[i].by[say])) {
			whole = append(whole, p)
		}
	}
	return whole
}

// every reports whether all packets have that decision.
func (d *decisions) every(say decision) bool { return len(d.wholly(say)) == len(d.protos) }

// closed reports whether nothing is undecided, and nothing passed.
func (d *decisions) closed() bool {
	for p := range d.protos {
		if portIndex(policy.Protocol(p)) < 0 && (d.protos[p] == undecided || d.protos[p] == passed) {
			return false
		}
	}
	for i := range d.ports {
		if p := &d.ports[i]; !p.begun || len(p.open)+len(p.by[passed]) > 0 {
			return false
		}
	}
	return true
}

// anyPassed reports whether some packets have been passed to the next tier.
func (d *decisions) anyPassed() bool {
	return slices.Contains(d.protos[:], passed) ||
		slices.ContainsFunc(d.ports[:], func(p portDecisions) bool { return len(p.by[passed]) > 0 })
}

// matches returns what packets with that decision match, as alternatives.
func (d *decisions) matches(say decision) (out [][]ruleset.Match) {
	whole := d.wholly(say)
	switch n := len(whole); {
	case n == len(d.protos):
		return [][]ruleset.Match{nil}
	case n > len(d.protos)/2:
		var others []policy.Protocol
		for p := range everyProtocol() {
			if !slices.Contains(whole, p) {
				others = append(others, p)
			}
		}
		out = append(out, protoMatches(others, true))
	case n > 0:
		out = append(out, protoMatches(whole, false))
	}
	for i, p := range withPorts() {
		ranges := mergePorts(d.ports[i].by[say])
		if len(ranges) == 0 || allPorts(ranges) {
			continue
		}
		same := []policy.Protocol{p}
		first := true
		for j, q := range withPorts() {
			if j != i && slices.Equal(mergePorts(d.ports[j].by[say]), ranges) {
				same = append(same, q)
				first = first && j > i
			}
		}
		if first {
			out = append(out, append(protoMatches(same, false), portMatch(ruleset.Dport, ranges, false)))
		}
	}
	return out
}
