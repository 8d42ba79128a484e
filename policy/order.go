// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"math"
	"strings"
)

// Compare orders keys by kind, namespace and name, bytewise: negative where k comes first, 0 where
// they are equal.
func (k Key) Compare(o Key) int {
	return cmp.Or(
		strings.Compare(string(k.Kind), string(o.Kind)),
		strings.Compare(k.Namespace, o.Namespace),
		strings.Compare(k.Name, o.Name),
	)
}

// ComparePolicies orders the policies of one tier by precedence: negative where a is
// looked at before b. Smaller orders come first, nil comes after every number, and ties are decided
// by the string "name/namespace/kind", bytewise. The tier itself is not looked at.
func ComparePolicies(a, b *Policy) int {
	if c := cmp.Compare(sortOrder(a.Order), sortOrder(b.Order)); c != 0 {
		return c
	}
	// Only if one name is the beginning of the other does the text behind it count, which takes memory.
	n := min(len(a.Name), len(b.Name))
	if c := strings.Compare(a.Name[:n], b.Name[:n]); c != 0 {
		return c
	}
	return strings.Compare(tieBreaker(a), tieBreaker(b))
}

// CompareTiers orders tiers by precedence: smaller orders first, nil after every number,
// ties by name. A tier without a resource is no Tier and sorts after all of them, by name.
func CompareTiers(a, b *Tier) int {
	return cmp.Or(
		cmp.Compare(sortOrder(a.Order), sortOrder(b.Order)),
		strings.Compare(a.Name, b.Name),
	)
}

// sortOrder maps nil, and what is not a number, to the end.
func sortOrder(order *float64) float64 {
	if order == nil || math.IsNaN(*order) {
		return math.Inf(1)
	}
	return *order
}

func tieBreaker(p *Policy) string {
	return p.Name + "/" + p.Namespace + "/" + string(p.Key().Kind)
}
