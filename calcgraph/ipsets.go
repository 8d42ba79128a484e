// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// MemberReceiver is told the members of IP sets: a set before its first member, each member
// present once and absent once, and the set's removal after that of its last member.
type MemberReceiver interface {
	IPSetAdded(id dataplane.IPSetID, typ dataplane.IPSetType)
	MemberChanged(id dataplane.IPSetID, m dataplane.Member, present bool)
	IPSetRemoved(id dataplane.IPSetID)
}

// IPSets keeps the members of the active IP sets: the addresses and ports of all endpoints and
// network sets, on whichever node, that match. A member that several objects contribute goes with
// the last of them.
//
// An IPSets is not safe for concurrent use.
type IPSets struct {
	out     MemberReceiver
	index   *labelindex.Index[policy.Key, dataplane.IPSetID]
	members map[policy.Key]member
	sets    map[dataplane.IPSetID]*ipSet
}

type ipSet struct {
	spec *IPSetSpec
	// refs counts for each member the objects that contribute it.
	refs map[dataplane.Member]int
}

var _ IPSetReceiver = (*IPSets)(nil)

// NewIPSets returns an empty node that sends its output to out.
func NewIPSets(out MemberReceiver) (*IPSets, error) {
	s := &IPSets{
		out:     out,
		members: map[policy.Key]member{},
		sets:    map[dataplane.IPSetID]*ipSet{},
	}
	index, err := labelindex.New(labelindex.Config[policy.Key, dataplane.IPSetID]{
		CompareItems:     policy.Key.Compare,
		CompareSelectors: compareIDs,
		Started:          s.matchStarted,
		Stopped:          s.matchStopped,
	})
	if err != nil {
		return nil, err
	}
	s.index = index
	return s, nil
}

// IPSetActive starts a set.
func (s *IPSets) IPSetActive(spec *IPSetSpec) {
	s.sets[spec.ID] = &ipSet{spec: spec, refs: map[dataplane.Member]int{}}
	s.out.IPSetAdded(spec.ID, spec.Type)
	s.index.UpdateSelector(spec.ID, spec.Selector)
}

// IPSetInactive ends a set.
func (s *IPSets) IPSetInactive(id dataplane.IPSetID) {
	if s.sets[id] == nil {
		return
	}
	s.index.DeleteSelector(id)
	delete(s.sets, id)
	s.out.IPSetRemoved(id)
}

// UpdateEndpoint adds or replaces an endpoint of any node.
func (s *IPSets) UpdateEndpoint(w *policy.WorkloadEndpoint) {
	s.update(w.Key(), endpointMember(w), effectiveLabels(w.Namespace, w.Labels), distinct(w.Profiles))
}

// UpdateNetworkSet adds or replaces a network set.
func (s *IPSets) UpdateNetworkSet(n *policy.NetworkSet) {
	s.update(n.Key(), member{nets: n.Nets}, effectiveLabels(n.Namespace, n.Labels), nil)
}

// Delete removes an endpoint or network set, if it exists.
func (s *IPSets) Delete(key policy.Key) {
	s.index.DeleteItem(key)
	delete(s.members, key)
}

// UpdateProfile adds or replaces the labels that endpoints inherit from a profile.
func (s *IPSets) UpdateProfile(p *policy.Profile) { s.index.UpdateParent(p.Name, p.LabelsToApply) }

// DeleteProfile removes a profile, if it exists.
func (s *IPSets) DeleteProfile(name string) { s.index.DeleteParent(name) }

// update replaces what the object contributes to the sets that it is in, then its labels,
// which may put it into others. What it contributes before and after is never withdrawn
// in between.
func (s *IPSets) update(key policy.Key, m member, labels map[string]string, profiles []string) {
	old, known := s.members[key]
	s.members[key] = m
	if known && !old.equal(m) {
		for id := range s.index.Selectors(key) {
			set := s.sets[id]
			s.add(set, m.contribution(set.spec))
			s.remove(set, old.contribution(set.spec))
		}
	}
	s.index.UpdateItem(key, labels, profiles)
}

func (s *IPSets) matchStarted(id dataplane.IPSetID, key policy.Key) {
	set := s.sets[id]
	s.add(set, s.members[key].contribution(set.spec))
}

func (s *IPSets) matchStopped(id dataplane.IPSetID, key policy.Key) {
	set := s.sets[id]
	s.remove(set, s.members[key].contribution(set.spec))
}

func (s *IPSets) add(set *ipSet, members []dataplane.Member) {
	for _, m := range members {
		if set.refs[m]++; set.refs[m] == 1 {
			s.out.MemberChanged(set.spec.ID, m, true)
		}
	}
}

func (s *IPSets) remove(set *ipSet, members []dataplane.Member) {
	for _, m := range members {
		if set.refs[m]--; set.refs[m] == 0 {
			delete(set.refs, m)
			s.out.MemberChanged(set.spec.ID, m, false)
		}
	}
}

func compareIDs(a, b dataplane.IPSetID) int { return cmp.Compare(a, b) }
