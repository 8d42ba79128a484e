// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// If each rule counts or logs, it has a chain of its own, which all outcomes share. Rules on
// protocol and port are still merged, into verdict maps that lead to the chain of the rule that
// decides:
//
//	tcp dport vmap { 80 : goto allow/A, 443 : goto allow/B }
//	meta l4proto vmap { tcp : goto deny/C, udp : goto allow/D }

// target is a rule that decides about packets, and counts or logs them.
type target struct {
	verdict ruleset.Verdict // leads to the chain of the rule
	denies  bool
}

// writeTargets writes lookups that lead packets to the chains of the rules that decided. It reports
// whether these lookups decide about all packets.
func (w *chainWriter) writeTargets() (all bool) {
	if len(w.targets) == 0 {
		return false
	}
	whole := w.decided.protos
	var ports [3][]decidedRange
	for i, p := range match.WithPorts() {
		ports[i], whole[p] = w.byRule(&w.decided.ports[i])
	}
	w.portTargets(ports)
	all = w.protocolTargets(&whole)
	w.decided, w.targets = decisions{}, nil
	return all
}

// byRule returns the ports and the rules that decide about them, sorted by port. If all ports are
// decided, byRule may leave out the ports of one rule. It then returns that rule as the result
// others, and the rule decides about all remaining packets. The function chooses the only rule, or
// else the rule that denies and has the most ranges. It never chooses a rule that allows only some
// of the ports: others would then allow packets whose port cannot be read.
func (w *chainWriter) byRule(d *portDecisions) (ports []decidedRange, others decision) {
	sorted := slices.SortedFunc(slices.Values(d.ranges), func(a, b decidedRange) int {
		return cmp.Compare(a.First, b.First)
	})
	for _, t := range sorted {
		if i := len(ports) - 1; i >= 0 && ports[i].by == t.by && ports[i].Last+1 == t.First {
			ports[i].Last = t.Last
			continue
		}
		ports = append(ports, t)
	}
	if !d.begun || len(d.open) > 0 {
		return ports, undecided
	}
	if len(ports) == 1 {
		return nil, ports[0].by
	}
	counts := map[decision]int{}
	for _, t := range ports {
		if w.targets[t.by-firstTarget].denies {
			counts[t.by]++
		}
	}
	others = mostFrequent(counts)
	return slices.DeleteFunc(ports, func(t decidedRange) bool { return t.by == others }), others
}

// mostFrequent returns the rule with the highest count. If several have it, it returns the last
// one. If there are no counts, it returns undecided.
func mostFrequent(counts map[decision]int) (rule decision) {
	for by, n := range counts {
		if best := counts[rule]; n > best || n == best && by > rule {
			rule = by
		}
	}
	return rule
}

// portTargets writes the lookups by destination port. Protocols with the same ports and rules share
// a lookup.
func (w *chainWriter) portTargets(ports [3][]decidedRange) {
	protos, field := match.WithPorts(), ruleset.Dport
	if w.list.Stage.Original() {
		field = ruleset.CtOriginalDport
	}
	for i, list := range ports {
		var same []policy.Protocol
		first := len(list) > 0
		for j, p := range protos {
			if slices.EqualFunc(ports[j], list, decidedRange.equal) {
				same = append(same, p)
				first = first && j >= i
			}
		}
		if !first {
			continue
		}
		matches := match.Protocols(same, false)
		elements := make([]ruleset.Element, len(list))
		for k, t := range list {
			elements[k] = sets.Element(w.verdict(t.by), ruleset.Port(t.First))
			if t.Last != t.First {
				elements[k].Last = ruleset.Port(t.Last)
			}
		}
		if !sameVerdict(elements) {
			w.writeMap(matches, field, elements)
			continue
		}
		ranges := make([]policy.Port, len(list))
		for k := range list {
			ranges[k] = list[k].Port
		}
		w.writeRule(list[0].by, append(matches, match.Ports(field, ranges, false))...)
	}
}

func (t decidedRange) equal(o decidedRange) bool {
	return t.by == o.by && t.First == o.First && t.Last == o.Last
}

// protocolTargets writes the lookups by protocol. It reports whether they decide about all packets,
// including those whose protocol cannot be read. A rule that allows only some of the protocols does
// not decide about these.
func (w *chainWriter) protocolTargets(whole *[1 << 8]decision) (all bool) {
	counts := map[decision]int{}
	open := 0
	for _, by := range whole {
		if by == undecided {
			open++
		} else {
			counts[by]++
		}
	}
	others := mostFrequent(counts)
	if open > 0 && counts[others] <= len(whole)/2 {
		others = undecided
	}
	// protos has the protocols of the other rules. rest has all protocols about which others does
	// not decide.
	var protos, rest []policy.Protocol
	var elements []ruleset.Element
	for p := range everyProtocol() {
		by := whole[p]
		if by != others {
			rest = append(rest, p)
		}
		if by != others && by != undecided {
			protos = append(protos, p)
			elements = append(elements, sets.Element(w.verdict(by), ruleset.Byte(uint8(p))))
		}
	}
	switch {
	case len(elements) == 0:
	case sameVerdict(elements):
		w.writeRule(whole[protos[0]], match.Protocols(protos, false)...)
	default:
		w.writeMap(nil, ruleset.L4Proto, elements)
	}
	if others == undecided {
		return false
	}
	all = open == 0 && (len(rest) == 0 || w.targets[others-firstTarget].denies)
	if all {
		rest = nil
	}
	w.writeRule(others, match.Protocols(rest, true)...)
	return all
}

// verdict returns the verdict that leads to the chain of a rule.
func (w *chainWriter) verdict(by decision) *ruleset.Verdict {
	return &w.targets[by-firstTarget].verdict
}

// sameVerdict reports whether all elements have the same verdict.
func sameVerdict(elements []ruleset.Element) bool {
	return !slices.ContainsFunc(elements, func(e ruleset.Element) bool { return *e.Verdict != *elements[0].Verdict })
}

// writeRule writes a rule that leads packets to the chain of the rule that decides.
func (w *chainWriter) writeRule(by decision, matches ...ruleset.Match) {
	w.rules = append(w.rules, build.When(*w.verdict(by), matches...))
}

// writeMap writes a rule that looks up a field in a verdict map.
func (w *chainWriter) writeMap(matches []ruleset.Match, f ruleset.Field, elements []ruleset.Element) {
	w.rules = append(w.rules, ruleset.Rule{
		Matches: matches, Statements: []ruleset.Statement{ruleset.VMap{Fields: []ruleset.Field{f}, Elements: elements}},
	})
}
