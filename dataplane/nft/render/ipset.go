// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// ipSets has the IP sets, and the policies and profiles whose rules refer to them.
type ipSets struct {
	lists *sets.Lists
	byID  map[dataplane.IPSetID]*sets.IPSet
	users map[*sets.IPSet]map[*ruleOwner]struct{}
	// dirty has the sets with new members. changed has the sets that the next flush must compare
	// with those in the kernel.
	dirty, changed *dirtySet[*sets.IPSet]
}

func newIPSets(lists *sets.Lists) *ipSets {
	return &ipSets{
		lists: lists,
		byID:  map[dataplane.IPSetID]*sets.IPSet{}, users: map[*sets.IPSet]map[*ruleOwner]struct{}{},
		dirty: newDirtySet[*sets.IPSet](), changed: newDirtySet[*sets.IPSet](),
	}
}

// get returns the IP set with the id. If there is none, it adds one that does not exist yet.
func (i *ipSets) get(id dataplane.IPSetID) *sets.IPSet {
	s := i.byID[id]
	if s == nil {
		s = sets.NewIPSet(id, i.lists)
		i.byID[id] = s
	}
	return s
}

// replace sets all members of a set. If the set does not exist, it is added.
func (i *ipSets) replace(e *dataplane.IPSetUpdate) {
	s := i.get(e.ID)
	s.Replace(e)
	i.dirty.mark(s)
}

// update adds members to a set and removes members from it.
func (i *ipSets) update(e *dataplane.IPSetDelta) {
	if s := i.byID[e.ID]; s != nil && s.Exists() { // without the set, the rules that refer to it fail
		s.Update(e)
		i.dirty.mark(s)
	}
}

// remove removes a set.
func (i *ipSets) remove(id dataplane.IPSetID) {
	if s := i.byID[id]; s != nil {
		s.Remove()
		i.dirty.mark(s)
	}
}

// copyFrom copies the sets that exist.
func (i *ipSets) copyFrom(from *ipSets) {
	for id, s := range from.byID {
		if s.Exists() {
			i.byID[id] = s.Clone(i.lists)
			i.dirty.mark(i.byID[id])
		}
	}
}

// forget drops an IP set that is of no further use. Such an IP set does not exist, no rule refers
// to it, and the next flush has no set of it to delete. The IP set may be forgotten already, and
// another one may have its id.
func (i *ipSets) forget(s *sets.IPSet) {
	if i.byID[s.ID] == s && s.Gone() && len(i.users[s]) == 0 {
		delete(i.byID, s.ID)
	}
}

// refer records the sets to which the rules of a policy or profile refer.
func (i *ipSets) refer(o *ruleOwner) {
	old := o.sets
	o.sets = map[*sets.IPSet]struct{}{}
	for _, dir := range []match.Direction{match.Ingress, match.Egress} {
		rules := o.Rules(dir)
		for j := range rules {
			for _, id := range match.SetIDs(&rules[j]) {
				s := i.get(id)
				if i.users[s] == nil {
					i.users[s] = map[*ruleOwner]struct{}{}
				}
				i.users[s][o] = struct{}{}
				o.sets[s] = struct{}{}
			}
		}
	}
	for s := range old {
		if _, ok := o.sets[s]; !ok {
			if delete(i.users[s], o); len(i.users[s]) == 0 {
				delete(i.users, s)
			}
			i.forget(s)
		}
	}
}

// markUsers calls changed for each policy and profile whose rules must be rendered again. These
// rules refer to a set that changed in more than its members: for example, the set became empty.
func (i *ipSets) markUsers(changed func(*ruleOwner)) {
	for s := range i.dirty.objects {
		if s.ComputeShape() {
			for o := range i.users[s] {
				changed(o)
			}
		}
		i.changed.mark(s)
	}
	i.dirty.clear()
}

// forgetUnused drops the changed sets that are of no further use.
func (i *ipSets) forgetUnused() {
	for s := range i.changed.objects {
		i.forget(s)
	}
}

// flush appends the changes of the sets in the kernel to the delta.
func (i *ipSets) flush(d *ruleset.Delta) {
	maps.Copy(i.changed.objects, i.lists.TakeUsageChanged())
	byID := func(a, b *sets.IPSet) int { return cmp.Compare(a.ID, b.ID) }
	for _, s := range slices.SortedFunc(maps.Keys(i.changed.objects), byID) {
		s.Flush(d)
		i.forget(s)
	}
	i.changed.clear()
}

// kernelSets returns the sets that the kernel should have, in no particular order.
func (i *ipSets) kernelSets() (out []*ruleset.Set) {
	for _, s := range i.byID {
		out = append(out, s.Kernel()...)
	}
	return out
}
