// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"math"
	"strings"
)

// Compare orders keys by kind, namespace and name, bytewise. It returns a negative number if k
// comes before o, and 0 if k and o are equal.
func (k Key) Compare(o Key) int {
	return cmp.Or(
		strings.Compare(string(k.Kind), string(o.Kind)),
		strings.Compare(k.Namespace, o.Namespace),
		strings.Compare(k.Name, o.Name),
	)
}

// ComparePolicies orders the policies of one tier by precedence. It returns a negative number if a
// is evaluated before b. Policies with smaller orders come first, and those without an order (nil)
// come last. Policies with equal orders are sorted by the string "name/namespace/kind", bytewise.
// The tier is ignored.
func ComparePolicies(a, b *Policy) int {
	if c := cmp.Compare(sortOrder(a.Order), sortOrder(b.Order)); c != 0 {
		return c
	}
	// The rest of the string matters only if one name is a prefix of the other. It is left out
	// otherwise, because building it allocates.
	n := min(len(a.Name), len(b.Name))
	if c := strings.Compare(a.Name[:n], b.Name[:n]); c != 0 {
		return c
	}
	return strings.Compare(tieBreaker(a), tieBreaker(b))
}

// CompareTiers orders tiers by precedence. Tiers with smaller orders come first, and those without
// an order (nil) come last. Tiers with equal orders are sorted by name. A policy can also name a
// tier for which there is no Tier resource. CompareTiers takes only Tier resources. The caller must
// put the other tiers after these, sorted by name.
func CompareTiers(a, b *Tier) int {
	return cmp.Or(
		cmp.Compare(sortOrder(a.Order), sortOrder(b.Order)),
		strings.Compare(a.Name, b.Name),
	)
}

// sortOrder maps nil and NaN to the end.
func sortOrder(order *float64) float64 {
	if order == nil || math.IsNaN(*order) {
		return math.Inf(1)
	}
	return *order
}

func tieBreaker(p *Policy) string {
	return p.Name + "/" + p.Namespace + "/" + string(p.Key().Kind)
}
