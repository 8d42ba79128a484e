// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// boundaryPorts returns the ports that the rules of these tests distinguish from their neighbours.
func boundaryPorts() []uint16 {
	return []uint16{0, 1, 2, 79, 80, 81, 82, 442, 443, 444, 65533, 65534, 65535}
}

func randomPorts(rng *rand.Rand) (out []policy.Port) {
	all := boundaryPorts()
	for range rng.IntN(4) {
		a, b := all[rng.IntN(len(all))], all[rng.IntN(len(all))]
		out = append(out, policy.PortRange(min(a, b), max(a, b)))
	}
	return out
}

func randomPlainRule(rng *rand.Rand) dataplane.Rule {
	r := dataplane.Rule{Action: []policy.Action{policy.Allow, policy.Deny, policy.Pass}[rng.IntN(3)]}
	protos := []policy.Protocol{0, 0, 1, 6, 17, 132, 58, 253, 255}
	r.Protocol = protos[rng.IntN(len(protos))]
	if rng.IntN(3) == 0 {
		r.NotProtocol = protos[rng.IntN(len(protos))]
	}
	r.Destination.Ports, r.Destination.NotPorts = randomPorts(rng), randomPorts(rng)
	if rng.IntN(2) == 0 {
		r.Destination.NotPorts = nil
	}
	return r
}

// plainly reports whether a plain rule matches a protocol and destination port.
func plainly(r *dataplane.Rule, proto policy.Protocol, port uint16) bool {
	in := func(ports []policy.Port) bool {
		return slices.ContainsFunc(ports, func(p policy.Port) bool { return p.First <= port && port <= p.Last })
	}
	switch {
	case r.Protocol != 0 && r.Protocol != proto, r.NotProtocol != 0 && r.NotProtocol == proto:
		return false
	case proto.HasPorts():
		return (len(r.Destination.Ports) == 0 || in(r.Destination.Ports)) && !in(r.Destination.NotPorts)
	default:
		return len(r.Destination.Ports) == 0
	}
}

// matchesPlainly evaluates matches on protocol and destination port.
func matchesPlainly(t *testing.T, matches []ruleset.Match, proto policy.Protocol, port uint16) bool {
	value := func(f ruleset.Field) ruleset.Value {
		if f == ruleset.L4Proto {
			return ruleset.Byte(uint8(proto))
		}
		require.Equal(t, ruleset.Dport, f)
		require.True(t, proto.HasPorts(), "the protocol has no ports")
		return ruleset.Port(port)
	}
	within := func(v, first, last ruleset.Value) bool {
		if last == nil {
			last = first
		}
		return string(first) <= string(v) && string(v) <= string(last)
	}
	for _, m := range matches {
		switch m := m.(type) {
		case ruleset.Compare:
			if within(value(m.Field), m.Value, m.Last) == m.Not {
				return false
			}
		case ruleset.In:
			v := value(m.Fields[0])
			contains := func(e ruleset.Element) bool { return within(v, e.Key[0], e.Last) }
			if slices.ContainsFunc(m.Elements, contains) == m.Not {
				return false
			}
		default:
			t.Fatalf("match %T", m)
		}
	}
	return true
}

// The decisions of a list of rules equal those of evaluating each rule in turn, for every protocol
// and each port that the rules distinguish.
func TestDecisions(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var d decisions
		var table [256]map[uint16]decision // the expected decisions
		for p := range table {
			table[p] = map[uint16]decision{}
		}
		each := func(f func(proto policy.Protocol, port uint16, now *decision)) {
			for p := range table {
				for _, port := range boundaryPorts() {
					now := table[p][port]
					f(policy.Protocol(p), port, &now)
					table[p][port] = now
				}
			}
		}
		for range 1 + rng.IntN(7) {
			switch rng.IntN(6) {
			case 0:
				d.reopen()
				each(func(_ policy.Protocol, _ uint16, now *decision) {
					if *now == passed {
						*now = undecided
					}
				})
			case 1:
				if rng.IntN(3) == 0 {
					d.decideRest(denied)
					each(func(_ policy.Protocol, _ uint16, now *decision) {
						if *now == undecided {
							*now = denied
						}
					})
				}
			default:
				r := randomPlainRule(rng)
				d.rule(&r, sets.IPv4, decisionOf(r.Action))
				each(func(proto policy.Protocol, port uint16, now *decision) {
					if *now == undecided && plainly(&r, proto, port) {
						*now = decisionOf(r.Action)
					}
				})
			}
		}
		count := map[decision]int{}
		each(func(proto policy.Protocol, port uint16, now *decision) {
			count[*now]++
			for _, want := range []decision{allowed, denied, passed} {
				got := slices.ContainsFunc(
					d.matches(want, false), func(m []ruleset.Match) bool { return matchesPlainly(t, m, proto, port) },
				)
				require.Equal(
					t, *now == want, got, "seed %d: protocol %d port %d: %d, not %d", seed, proto, port, *now, want,
				)
			}
		})
		require.Equal(t, count[undecided]+count[passed] == 0, d.closed(), "seed %d", seed)
		require.Equal(t, count[passed] > 0, d.anyPassed(), "seed %d", seed)
		require.Equal(t, count[allowed] == 256*len(boundaryPorts()), d.every(allowed), "seed %d", seed)
	}
}

// targetWriter is a Writer of which only Target is used.
type targetWriter struct{ Writer }

func (targetWriter) Target(rule *match.Merged) ruleset.Verdict { return build.Goto(rule.ID) }

// leadsTo returns the verdict of the first rule that has one for a protocol and destination port.
func leadsTo(t *testing.T, rules []ruleset.Rule, proto policy.Protocol, port uint16) string {
	for _, r := range rules {
		if !matchesPlainly(t, r.Matches, proto, port) {
			continue
		}
		require.Len(t, r.Statements, 1)
		switch s := r.Statements[0].(type) {
		case ruleset.Verdict:
			return s.Chain
		case ruleset.VMap:
			for _, e := range s.Elements {
				m := ruleset.In{Fields: s.Fields, Elements: []ruleset.Element{e}}
				if matchesPlainly(t, []ruleset.Match{m}, proto, port) {
					return e.Verdict.Chain
				}
			}
		}
	}
	return ""
}

// With counters, each packet is led to the first rule that matches it, for every protocol and each
// port that the rules distinguish. Only a rule for all ports, or one that denies, is led to without
// a match on the port.
func TestTargets(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 6))
		w := &chainWriter{
			cfg: &Config{EachRule: true, Writer: targetWriter{}}, compiled: &compiled{}, family: sets.IPv4,
		}
		var rules []dataplane.Rule
		for i := range 1 + rng.IntN(6) {
			r := randomPlainRule(rng)
			r.ID = strconv.Itoa(i)
			rules = append(rules, r)
			w.plain(&match.Merged{Rule: r, IDs: []string{r.ID}})
		}
		all := w.writeTargets()
		open := 0
		for p := range everyProtocol() {
			for _, port := range boundaryPorts() {
				want := ""
				if i := slices.IndexFunc(rules, func(r dataplane.Rule) bool { return plainly(&r, p, port) }); i >= 0 {
					want = rules[i].ID
				} else {
					open++
				}
				require.Equal(t, want, leadsTo(t, w.rules, p, port), "seed %d: protocol %d port %d", seed, p, port)
			}
		}
		require.False(t, all && open > 0, "seed %d", seed)
		for _, p := range match.WithPorts() {
			id := leadsTo(t, portless(w.rules), p, 0)
			if i, err := strconv.Atoi(id); err == nil {
				anyPort := match.AllPorts(rulePorts(&rules[i].Destination))
				require.True(t, anyPort || rules[i].Action == policy.Deny, "seed %d: protocol %d rule %d", seed, p, i)
			}
		}
	}
}

// portless returns the rules that do not depend on a port.
func portless(rules []ruleset.Rule) (out []ruleset.Rule) {
	for _, r := range rules {
		loads := func(m ruleset.Match) bool {
			c, ok := m.(ruleset.Compare)
			in, isIn := m.(ruleset.In)
			return ok && c.Field == ruleset.Dport || isIn && in.Fields[0] == ruleset.Dport
		}
		m, ok := r.Statements[0].(ruleset.VMap)
		if !slices.ContainsFunc(r.Matches, loads) && (!ok || m.Fields[0] != ruleset.Dport) {
			out = append(out, r)
		}
	}
	return out
}
