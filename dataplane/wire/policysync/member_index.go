// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
)

// memberIndex finds the members of a set that contain an address. The time that it takes hardly
// depends on the number of members. The members must be sorted.
type memberIndex struct {
	members []dataplane.Member
	// lengths are the lengths of the prefixes, of IPv4 and of IPv6.
	lengths [2][]int
}

func newMemberIndex(members []dataplane.Member) *memberIndex {
	var seen [2][129]bool
	for _, m := range members {
		seen[family(m.Prefix.Addr())][m.Prefix.Bits()] = true
	}
	x := &memberIndex{members: members}
	for f := range seen {
		for bits, there := range seen[f] {
			if there {
				x.lengths[f] = append(x.lengths[f], bits)
			}
		}
	}
	return x
}

// family returns 0 for IPv4 and 1 for IPv6.
func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// isOf reports whether the index was made from this list of members.
func (x *memberIndex) isOf(members []dataplane.Member) bool {
	return len(x.members) == len(members) && (len(members) == 0 || &x.members[0] == &members[0])
}

// containing appends the members that contain an address.
func (x *memberIndex) containing(out []dataplane.Member, a netip.Addr) []dataplane.Member {
	for _, bits := range x.lengths[family(a)] {
		prefix := netip.PrefixFrom(a, bits).Masked()
		i, _ := slices.BinarySearchFunc(x.members, dataplane.Member{Prefix: prefix}, dataplane.Member.Compare)
		for ; i < len(x.members) && x.members[i].Prefix == prefix; i++ {
			out = append(out, x.members[i])
		}
	}
	return out
}

// memberIndexes returns the indexes of the sets of a state. For unchanged sets, it reuses the
// indexes of the previous state, which may be nil.
func memberIndexes(objects dptest.State, before *State) map[dataplane.IPSetID]*memberIndex {
	all := make(map[dataplane.IPSetID]*memberIndex, len(objects.Sets))
	for id, set := range objects.Sets {
		if before != nil && before.memberIndexes[id] != nil && before.memberIndexes[id].isOf(set.Members) {
			all[id] = before.memberIndexes[id]
		} else {
			all[id] = newMemberIndex(set.Members)
		}
	}
	return all
}

// relevant returns the state's objects with smaller sets: each set has only those members that
// contain an address of the packet. For this packet, every rule has the same result with these
// sets. The addresses must be valid and have their shortest form.
func (s *State) relevant(p dptest.Packet) dptest.State {
	objects := s.Objects
	objects.Sets = make(map[dataplane.IPSetID]dptest.Set, len(s.Objects.Sets))
	for id, set := range s.Objects.Sets {
		if x := s.memberIndexes[id]; x != nil {
			set.Members = x.containing(x.containing(nil, p.Src), p.Dst)
		}
		objects.Sets[id] = set
	}
	return objects
}
