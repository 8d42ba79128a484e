// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// editRules returns rules with other actions, ports and protocols for the same peers. Sometimes one
// rule has another peer, is missing, or has another position.
func (m *classModel) editRules(rules []dataplane.Rule) []dataplane.Rule {
	out := slices.Clone(rules)
	for i := range out {
		r := &out[i]
		if m.IntN(2) == 0 {
			continue
		}
		other := m.State() // source of random parts of rules
		for _, k := range slices.SortedFunc(maps.Keys(other.Policies), policy.Key.Compare) {
			for _, from := range slices.Concat(other.Policies[k].Ingress, other.Policies[k].Egress) {
				if m.IntN(3) > 0 {
					continue
				}
				r.Action, r.Protocol, r.NotProtocol = from.Action, from.Protocol, from.NotProtocol
				r.ICMP, r.NotICMP = from.ICMP, from.NotICMP
				r.Destination.Ports, r.Destination.NotPorts = from.Destination.Ports, from.Destination.NotPorts
				r.Source.Ports, r.IPVersion = from.Source.Ports, from.IPVersion
				if m.IntN(8) == 0 {
					r.Source, r.Destination = from.Source, from.Destination
				}
			}
		}
	}
	if len(out) > 1 && m.IntN(4) == 0 {
		i := m.IntN(len(out) - 1)
		out[i], out[i+1] = out[i+1], out[i]
	}
	if len(out) > 1 && m.IntN(6) == 0 {
		out = out[:len(out)-1]
	}
	return out
}

// editPolicies edits rules of half of the policies and profiles.
func (m *classModel) editPolicies(s dptest.State) {
	for _, k := range slices.SortedFunc(maps.Keys(s.Policies), policy.Key.Compare) {
		if p := *s.Policies[k]; m.IntN(2) == 0 {
			p.Ingress, p.Egress = m.editRules(p.Ingress), m.editRules(p.Egress)
			s.Policies[k] = &p
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Profiles)) {
		if p := *s.Profiles[k]; m.IntN(2) == 0 {
			p.Ingress, p.Egress = m.editRules(p.Ingress), m.editRules(p.Egress)
			s.Profiles[k] = &p
		}
	}
}

// Like TestClassModel, but only rules of policies and profiles change, often back to earlier ones,
// and several endpoints have the same policies. Classes keep their outcomes, which lead to other
// chains.
func TestEditsModel(t *testing.T) {
	for _, seed := range worldFlags.Seeds(60, 10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newClassModel(t, seed)
			last := m.State()
			m.play(dptest.Transition(dptest.NewState(), last).Events)
			states := []dptest.State{last}
			for range 8 {
				next := last.Clone()
				if m.IntN(3) == 0 {
					next = states[m.IntN(len(states))].Clone()
				}
				m.editPolicies(next)
				m.play(dptest.Transition(last, next).Events)
				table := m.check(next)
				m.judge(next, table, 60)
				last = next
				states = append(states, next)
			}
			m.play(dptest.Transition(last, dptest.NewState()).Events)
			empty := m.fresh()
			empty.Flush()
			require.Equal(t, empty.ClassStats(), m.r.ClassStats())
			require.Equal(t, sizes(empty), sizes(m.r), "entries are left")
		})
	}
}
