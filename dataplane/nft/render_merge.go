// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// mergedRule is one rule that stands for several neighbours.
type mergedRule struct {
	dataplane.Rule
	ids []string
}

// mergeRules makes one rule of neighbours with one action that differ in nothing but one list of prefixes or ports: a
// packet that is on the one list or on the other is on both together. Log rules stay as they are, for each
// has a line of its own to write.
func mergeRules(rules []dataplane.Rule) []mergedRule {
	out := make([]mergedRule, 0, len(rules))
	for i := range rules {
		if n := len(out); n > 0 && rules[i].Action != policy.Log && out[n-1].absorb(&rules[i]) {
			out[n-1].ids = append(out[n-1].ids, rules[i].ID)
			continue
		}
		out = append(out, mergedRule{rules[i], []string{rules[i].ID}})
	}
	return out
}

// eachRule takes the rules as they are.
func eachRule(rules []dataplane.Rule) []mergedRule {
	out := make([]mergedRule, len(rules))
	for i := range rules {
		out[i] = mergedRule{rules[i], []string{rules[i].ID}}
	}
	return out
}

// absorb takes the other rule in if the two differ in one list at most.
func (m *mergedRule) absorb(o *dataplane.Rule) bool {
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
