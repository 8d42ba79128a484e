// SPDX-License-Identifier: Apache-2.0

package match

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Merged stands for one rule, or for several neighbouring rules. It has their IDs.
type Merged struct {
	dataplane.Rule
	IDs []string
}

// Merge joins neighbouring rules with the same action that differ only in one list of prefixes or
// ports. The list of the joined rule contains both lists. Merge does not join Log rules, because
// each Log rule writes a log line of its own.
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

// Each returns the rules unchanged, without joining any.
func Each(rules []dataplane.Rule) []Merged {
	out := make([]Merged, len(rules))
	for i := range rules {
		out[i] = Merged{rules[i], []string{rules[i].ID}}
	}
	return out
}

// absorb joins the other rule to m if the two differ in at most one list. It reports whether it
// did.
func (m *Merged) absorb(o *dataplane.Rule) bool {
	if m.Action != o.Action || !slices.Equal(m.Source.Sets, o.Source.Sets) ||
		!slices.Equal(m.Destination.Sets, o.Destination.Sets) { // the usual difference, and cheap to detect
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

// union is the union of two lists.
type union[T any] struct {
	of     []T
	differ bool
	// may is set if a union of the lists can replace both. It is not set if only one of the lists
	// is empty, because an empty list matches everything.
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
