// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
)

// lookup finds the members of a set that contain an address, in time that hardly depends on the number of members. It
// relies on their order.
type lookup struct {
	members []dataplane.Member
	// lengths are the lengths of the prefixes, of IPv4 and of IPv6.
	lengths [2][]int
}

func newLookup(members []dataplane.Member) *lookup {
	var seen [2][129]bool
	for _, m := range members {
		seen[family(m.Prefix.Addr())][m.Prefix.Bits()] = true
	}
	l := &lookup{members: members}
	for f := range seen {
		for bits, there := range seen[f] {
			if there {
				l.lengths[f] = append(l.lengths[f], bits)
			}
		}
	}
	return l
}

// family returns 0 for IPv4 and 1 for IPv6.
func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// isOf reports whether the lookup was made from this list of members.
func (l *lookup) isOf(members []dataplane.Member) bool {
	return len(l.members) == len(members) && (len(members) == 0 || &l.members[0] == &members[0])
}

// containing appends the members that contain an address.
func (l *lookup) containing(out []dataplane.Member, a netip.Addr) []dataplane.Member {
	for _, bits := range l.lengths[family(a)] {
		prefix := netip.PrefixFrom(a, bits).Masked()
		i, _ := slices.BinarySearchFunc(l.members, dataplane.Member{Prefix: prefix}, dataplane.Member.Compare)
		for ; i < len(l.members) && l.members[i].Prefix == prefix; i++ {
			out = append(out, l.members[i])
		}
	}
	return out
}

// lookups returns the lookups of the sets of a state. It reuses the lookups of unchanged sets of the previous state,
// which may be nil.
func lookups(objects dptest.State, before *State) map[dataplane.IPSetID]*lookup {
	all := make(map[dataplane.IPSetID]*lookup, len(objects.Sets))
	for id, set := range objects.Sets {
		if before != nil && before.lookups[id] != nil && before.lookups[id].isOf(set.Members) {
			all[id] = before.lookups[id]
		} else {
			all[id] = newLookup(set.Members)
		}
	}
	return all
}

// relevant returns the objects with sets that have only the members that contain an address of the packet. No rule can
// tell the difference. The addresses are valid and have their shortest form.
func (s *State) relevant(p dptest.Packet) dptest.State {
	objects := s.Objects
	objects.Sets = make(map[dataplane.IPSetID]dptest.Set, len(s.Objects.Sets))
	for id, set := range s.Objects.Sets {
		if l := s.lookups[id]; l != nil {
			set.Members = l.containing(l.containing(nil, p.Src), p.Dst)
		}
		objects.Sets[id] = set
	}
	return objects
}
