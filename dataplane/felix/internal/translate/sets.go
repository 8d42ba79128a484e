// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
)

// maxMembers is the maximum number of members in a message. More members of a set are sent in
// further messages.
const maxMembers = 10_000

// set is a set of addresses or ports.
type set struct {
	typ     dataplane.IPSetType
	members map[dataplane.Member]struct{}
}

// applySet applies an event of a set. It returns false for other events.
func (t *Translator) applySet(e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		t.updateSet(e)
	case *dataplane.IPSetDelta:
		if s := t.sets[e.ID]; s != nil {
			t.changeSet(e.ID, s, e.Added, e.Removed)
		}
	case *dataplane.IPSetRemove:
		if t.sets[e.ID] != nil && t.send != nil {
			t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_IpsetRemove{
				IpsetRemove: &felixpb.IPSetRemove{Id: string(e.ID)},
			}})
		}
		delete(t.sets, e.ID)
	default:
		return false
	}
	return true
}

// updateSet adds or replaces a set. Of a set that exists, it sends only the differences, because
// rules use it.
func (t *Translator) updateSet(e *dataplane.IPSetUpdate) {
	s := t.sets[e.ID]
	if s == nil || s.typ != e.Type {
		s = &set{typ: e.Type, members: make(map[dataplane.Member]struct{}, len(e.Members))}
		t.sets[e.ID] = s
		for _, m := range e.Members {
			s.members[m] = struct{}{}
		}
		if t.send != nil {
			t.sendSet(e.ID, s)
		}
		return
	}
	wanted := make(map[dataplane.Member]struct{}, len(e.Members))
	for _, m := range e.Members {
		wanted[m] = struct{}{}
	}
	var removed []dataplane.Member
	for m := range s.members {
		if _, ok := wanted[m]; !ok {
			removed = append(removed, m)
		}
	}
	slices.SortFunc(removed, dataplane.Member.Compare)
	t.changeSet(e.ID, s, e.Members, removed)
}

// changeSet adds and removes members. It sends additions of members that were absent and removals
// of those present.
func (t *Translator) changeSet(id dataplane.IPSetID, s *set, add, remove []dataplane.Member) {
	var added, removed []string
	for _, m := range add {
		if _, ok := s.members[m]; !ok {
			s.members[m] = struct{}{}
			if t.send != nil {
				added = append(added, memberText(m))
			}
		}
	}
	for _, m := range remove {
		if _, ok := s.members[m]; ok {
			delete(s.members, m)
			if t.send != nil {
				removed = append(removed, memberText(m))
			}
		}
	}
	for len(added)+len(removed) > 0 {
		delta := &felixpb.IPSetDeltaUpdate{Id: string(id)}
		delta.AddedMembers, added = cut(added, maxMembers)
		delta.RemovedMembers, removed = cut(removed, maxMembers-len(delta.AddedMembers))
		t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_IpsetDeltaUpdate{IpsetDeltaUpdate: delta}})
	}
}

// cut returns the first n entries of a list, and the others.
func cut(list []string, n int) (first, rest []string) {
	n = min(n, len(list))
	return list[:n:n], list[n:]
}

// sendSet sends a set with all its members.
func (t *Translator) sendSet(id dataplane.IPSetID, s *set) {
	members := make([]string, 0, len(s.members))
	for _, m := range slices.SortedFunc(maps.Keys(s.members), dataplane.Member.Compare) {
		members = append(members, memberText(m))
	}
	update := &felixpb.IPSetUpdate{Id: string(id), Type: felixpb.IPSetUpdate_NET}
	if s.typ == dataplane.IPSetPorts {
		update.Type = felixpb.IPSetUpdate_IP_AND_PORT
	}
	update.Members, members = cut(members, maxMembers)
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_IpsetUpdate{IpsetUpdate: update}})
	for len(members) > 0 {
		delta := &felixpb.IPSetDeltaUpdate{Id: string(id)}
		delta.AddedMembers, members = cut(members, maxMembers)
		t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_IpsetDeltaUpdate{IpsetDeltaUpdate: delta}})
	}
}

// memberText returns "10.0.0.0/8" or "10.0.0.1,tcp:80".
func memberText(m dataplane.Member) string {
	if m.Port == 0 {
		return m.Prefix.String()
	}
	return m.Prefix.Addr().String() + "," + strings.ToLower(m.Protocol.String()) + ":" + strconv.Itoa(int(m.Port))
}
