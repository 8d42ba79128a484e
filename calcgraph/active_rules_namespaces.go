// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// policiesByNamespace has namespaced policies.
type policiesByNamespace struct {
	byNamespace map[string][]*policy.Policy // sorted by key
	n           int
}

func newPoliciesByNamespace() policiesByNamespace {
	return policiesByNamespace{byNamespace: map[string][]*policy.Policy{}}
}

// find returns the index of a policy in the list of its namespace, or the index to insert it at.
func (s *policiesByNamespace) find(key policy.Key) ([]*policy.Policy, int, bool) {
	list := s.byNamespace[key.Namespace]
	at, found := slices.BinarySearchFunc(list, key, func(p *policy.Policy, key policy.Key) int {
		return p.Key().Compare(key)
	})
	return list, at, found
}

// set adds or replaces a policy.
func (s *policiesByNamespace) set(key policy.Key, p *policy.Policy) {
	list, at, found := s.find(key)
	if found {
		list[at] = p
		return
	}
	s.n++
	s.byNamespace[key.Namespace] = slices.Insert(list, at, p)
}

// remove removes a policy, if it exists.
func (s *policiesByNamespace) remove(key policy.Key) {
	list, at, found := s.find(key)
	if !found {
		return
	}
	s.n--
	if len(list) == 1 {
		delete(s.byNamespace, key.Namespace)
	} else {
		s.byNamespace[key.Namespace] = slices.Delete(list, at, at+1)
	}
}

// take removes the policies of a namespace and returns them, sorted.
func (s *policiesByNamespace) take(namespace string) []*policy.Policy {
	list := s.byNamespace[namespace]
	s.n -= len(list)
	delete(s.byNamespace, namespace)
	return list
}
