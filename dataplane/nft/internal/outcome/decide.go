// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// decision is the result of rules for a packet. If each rule counts or logs, a decision also names
// the rule: firstTarget+i stands for the rule at index i of chainWriter.targets.
type decision uint32

const (
	undecided decision = iota
	allowed
	denied
	passed // passed to the next tier
	firstTarget
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

// decisions has the decisions of a list of rules, for every protocol and destination port. The
// first rule that matches decides. In the zero value, all packets are undecided.
type decisions struct {
	protos [256]decision // of protocols without ports
	ports  [3]portDecisions
}

// portDecisions has the decisions about the ports of one protocol.
type portDecisions struct {
	begun bool          // whether open is set; if not, all ports are undecided
	open  []policy.Port // the undecided ports, sorted and disjoint
	// ranges has the decided ports, disjoint.
	ranges []decidedRange
}

// decidedRange is a range of ports with one decision.
type decidedRange struct {
	policy.Port
	by decision
}

// with returns the ports with the given decision, sorted and merged.
func (d *portDecisions) with(result decision) []policy.Port {
	var ports []policy.Port
	for _, t := range d.ranges {
		if t.by == result {
			ports = append(ports, t.Port)
		}
	}
	return match.MergePorts(ports)
}

// any reports whether some ports have the given decision.
func (d *portDecisions) any(result decision) bool {
	return slices.ContainsFunc(d.ranges, func(t decidedRange) bool { return t.by == result })
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

// portIndex returns the index of a protocol in decisions.ports, or -1 if it has no ports.
func portIndex(p policy.Protocol) int { return slices.Index(match.WithPorts(), p) }

// rule adds a plain rule with its decision. The rule matches only protocol and ports. f is the
// family of the packets.
func (d *decisions) rule(rule *dataplane.Rule, f sets.Family, result decision) {
	for _, class := range match.ProtocolGroups(rule, f) {
		protos := slices.Values(class.In)
		if class.In == nil {
			protos = everyProtocol()
		}
		for p := range protos {
			if slices.Contains(class.NotIn, p) || rule.NotProtocol != 0 && p == rule.NotProtocol {
				continue
			}
			i := portIndex(p)
			switch {
			case i < 0:
				d.decide(p, result)
			case class.HasPorts:
				d.ports[i].decide(rulePorts(&rule.Destination), result)
			default:
				d.ports[i].decide(everyPort(), result)
			}
		}
	}
}

// rulePorts returns the ports that one side of a rule matches.
func rulePorts(m *dataplane.Match) []policy.Port {
	var want portDecisions
	want.decide(m.NotPorts, denied)
	if len(m.Ports) == 0 {
		want.decide(everyPort(), allowed)
	} else {
		want.decide(m.Ports, allowed)
	}
	return want.with(allowed)
}

func (d *decisions) decide(p policy.Protocol, result decision) {
	if d.protos[p] == undecided {
		d.protos[p] = result
	}
}

// decide sets the decision about those of the given ports that are undecided.
func (d *portDecisions) decide(ports []policy.Port, result decision) {
	if !d.begun {
		d.begun, d.open = true, everyPort()
	}
	for _, p := range ports {
		i, _ := slices.BinarySearchFunc(d.open, p.First, func(o policy.Port, first uint16) int {
			return cmp.Compare(o.Last, first)
		})
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
			part := policy.PortRange(max(o.First, p.First), min(o.Last, p.Last))
			d.ranges = append(d.ranges, decidedRange{part, result})
		}
		d.open = slices.Replace(d.open, i, j, rest...)
	}
}

// decideRest sets the decision about all undecided packets.
func (d *decisions) decideRest(result decision) {
	for p := range everyProtocol() {
		if i := portIndex(p); i >= 0 {
			d.ports[i].decide(everyPort(), result)
		} else {
			d.decide(p, result)
		}
	}
}

// reopen makes passed packets undecided, for the next tier.
func (d *decisions) reopen() {
	for p := range d.protos {
		if d.protos[p] == passed {
			d.protos[p] = undecided
		}
	}
	for i := range d.ports {
		if p := &d.ports[i]; p.any(passed) {
			p.open = match.MergePorts(append(p.open, p.with(passed)...))
			p.ranges = slices.DeleteFunc(p.ranges, func(t decidedRange) bool { return t.by == passed })
		}
	}
}

// wholly returns the protocols whose packets all have the given decision.
func (d *decisions) wholly(result decision) (whole []policy.Protocol) {
	for p := range everyProtocol() {
		i := portIndex(p)
		if i < 0 && d.protos[p] == result || i >= 0 && match.AllPorts(d.ports[i].with(result)) {
			whole = append(whole, p)
		}
	}
	return whole
}

// every reports whether all packets have the given decision.
func (d *decisions) every(result decision) bool { return len(d.wholly(result)) == len(d.protos) }

// closed reports whether all packets are allowed or denied.
func (d *decisions) closed() bool {
	for p := range d.protos {
		if portIndex(policy.Protocol(p)) < 0 && (d.protos[p] == undecided || d.protos[p] == passed) {
			return false
		}
	}
	for i := range d.ports {
		if p := &d.ports[i]; !p.begun || len(p.open) > 0 || p.any(passed) {
			return false
		}
	}
	return true
}

// anyPassed reports whether some packets are passed to the next tier.
func (d *decisions) anyPassed() bool {
	return slices.Contains(d.protos[:], passed) ||
		slices.ContainsFunc(d.ports[:], func(p portDecisions) bool { return p.any(passed) })
}

// matches returns alternative matches for the packets with the given decision. original is set if
// ports are those before destination NAT.
func (d *decisions) matches(result decision, original bool) (out [][]ruleset.Match) {
	field := ruleset.Dport
	if original {
		field = ruleset.CtOriginalDport
	}
	whole := d.wholly(result)
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
		out = append(out, match.Protocols(others, true))
	case n > 0:
		out = append(out, match.Protocols(whole, false))
	}
	for i, p := range match.WithPorts() {
		ranges := d.ports[i].with(result)
		if len(ranges) == 0 || match.AllPorts(ranges) {
			continue
		}
		same := []policy.Protocol{p}
		first := true
		for j, q := range match.WithPorts() {
			if j != i && slices.Equal(d.ports[j].with(result), ranges) {
				same = append(same, q)
				first = first && j > i
			}
		}
		if first {
			out = append(out, append(match.Protocols(same, false), match.Ports(field, ranges, false)))
		}
	}
	return out
}
