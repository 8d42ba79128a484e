// SPDX-License-Identifier: Apache-2.0

package match

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Merged is a rule for one or more neighbouring rules, with their IDs.
type Merged struct {
	dataplane.Rule
	IDs []string
}

// Merge joins neighbouring rules of the same action that differ in one list of prefixes or ports: a packet
// is in the joined list if it is in one of the two. It joins no Log rules, because each writes its own
// log line.
func Merge(rules []dataplane.Rule) []Merged {
	out := make([]Merged, 0, len(rules))
	for i := range rules {
		if n := len(out); n > 0 && rules[i].Action != policy.Log && out[n-1].absorb(&rules[i]) {
			out[n-1].IDs = append(out[n-1].IDs, rules[i].ID)
			continue
		}
		out = append(out, Merged{rules[i], []string{rules[i].ID}})
	}
	return out
}

// Each returns the rules as they are.
func Each(rules []dataplane.Rule) []Merged {
	out := make([]Merged, len(rules))
	for i := range rules {
		out[i] = Merged{rules[i], []string{rules[i].ID}}
	}
	return out
}

// absorb takes the other rule in if the two differ in one list at most.
func (m *Merged) absorb(o *dataplane.Rule) bool {
	if m.Action != o.Action || !slices.Equal(m.Source.Sets, o.Source.Sets) ||
		!slices.Equal(m.Destination.Sets, o.Destination.Sets) { // the usual difference, and cheap to see
		return false
	}
	srcNets, srcPorts := lists(&m.Source, &o.Source)
	dstNets, dstPorts := lists(&m.Destination, &o.Destination)
	differ := 0
	for _, d := range [...]bool{srcNets.differ, srcPorts.differ, dstNets.differ, dstPorts.differ} {
		if d {
			differ++
		}
	}
	if differ > 1 || !srcNets.may || !srcPorts.may || !dstNets.may || !dstPorts.may {
		return false
	}
	joined := m.Rule
	joined.ID = o.ID
	joined.Source.Nets, joined.Source.Ports = srcNets.of, srcPorts.of
	joined.Destination.Nets, joined.Destination.Ports = dstNets.of, dstPorts.of
	rest := *o
	rest.Source.Nets, rest.Source.Ports = srcNets.of, srcPorts.of
	rest.Destination.Nets, rest.Destination.Ports = dstNets.of, dstPorts.of
	if !joined.Equal(&rest) {
		return false
	}
	m.Rule = joined
	return true
}

// union is what two lists make together.
type union[T any] struct {
	of     []T
	differ bool
	// may says that one list may stand for both: none of them is empty, which means no limit, but the other is not.
	may bool
}

func unite[T comparable](a, b []T) union[T] {
	if slices.Equal(a, b) {
		return union[T]{of: a, may: true}
	}
	return union[T]{of: slices.Concat(a, b), differ: true, may: len(a) > 0 && len(b) > 0}
}

func lists(a, b *dataplane.Match) (union[netip.Prefix], union[policy.Port]) {
	return unite(a.Nets, b.Nets), unite(a.Ports, b.Ports)
}
