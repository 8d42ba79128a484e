// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// Selection is a group of policies that have the same selector, and so select the same endpoints.
// Clusters have many policies and few distinct selectors. ActiveRules computes matches once for
// each selection, not for each policy.
//
// A Selection is not safe for concurrent use.
type Selection struct {
	sel      *selector.Selector
	policies []*policy.Policy // sorted by tier, order and name
	matches  int              // counted by ActiveRules
}

// NewSelection returns a selection that has no policies yet. ActiveRules makes its own selections.
// Call NewSelection only to use a PolicyResolver without ActiveRules.
func NewSelection(sel *selector.Selector) *Selection { return &Selection{sel: sel} }

// Selector returns the selector of the policies. It is evaluated on the effective labels of
// endpoints.
func (s *Selection) Selector() *selector.Selector { return s.sel }

// Policies returns the policies, sorted by the name of the tier and then by precedence. The list
// must not be changed. It is valid until the next Replace.
func (s *Selection) Policies() []*policy.Policy { return s.policies }

// Replace replaces the policy old by p. The pointer old must be the one that was added before. If
// old is nil, Replace adds p. If p is nil, Replace removes old. Replace returns false if old and p
// differ only in their rules. Otherwise it returns true, because the lists of policies of endpoints
// may change.
func (s *Selection) Replace(old, p *policy.Policy) bool {
	if old != nil && p != nil && samePosition(old, p) {
		if at, ok := s.find(old); ok {
			s.policies[at] = p
			return false
		}
	}
	if old != nil {
		if at, ok := s.find(old); ok {
			s.policies = slices.Delete(s.policies, at, at+1)
		}
	}
	if p != nil {
		at, _ := s.find(p)
		s.policies = slices.Insert(s.policies, at, p)
	}
	return true
}

// find returns the index of a policy, or the index to insert it at.
func (s *Selection) find(p *policy.Policy) (int, bool) {
	// Policies are often added in order.
	if n := len(s.policies); n > 0 && compareInSelection(s.policies[n-1], p) < 0 {
		return n, false
	}
	return slices.BinarySearchFunc(s.policies, p, compareInSelection)
}

// samePosition reports whether both states of a policy have the same position in the policy lists
// of endpoints.
func samePosition(a, b *policy.Policy) bool {
	return compareInSelection(a, b) == 0 &&
		a.ApplyOnForward == b.ApplyOnForward && a.DoNotTrack == b.DoNotTrack && a.PreDNAT == b.PreDNAT &&
		a.AppliesTo(policy.Ingress) == b.AppliesTo(policy.Ingress) &&
		a.AppliesTo(policy.Egress) == b.AppliesTo(policy.Egress)
}

func compareInSelection(a, b *policy.Policy) int {
	if c := strings.Compare(a.TierName(), b.TierName()); c != 0 {
		return c
	}
	return policy.ComparePolicies(a, b)
}
