// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/idtable"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// memberIndex computes the members of IP sets, either of selectors or of services.
type memberIndex struct {
	out          MemberReceiver
	index        *labelindex.Index[uint32, uint32] // of objects and sets by number
	namespaces   namespaces
	objects      idtable.Map[objectKey, object]
	contributors contributors
	shared       shrinkingMap[sharedMember, uint32]
	sets         idtable.Map[dataplane.IPSetID, ipSet]

	// Room to work in.
	parents []string
	nets    []byte
	one     [narrow]byte
	current []*ipSet
}

type ipSet struct {
	spec   *IPSetSpec
	number uint32
}

// sharedMember is a member of a set whose address or prefix several objects have. It is
// counted how many of those that match contribute it.
type sharedMember struct {
	set, group uint32
	protocol   policy.Protocol
	port       uint16
}

func newMemberIndex(out MemberReceiver) (*memberIndex, error) {
	seed := maphash.MakeSeed()
	hash := func(id dataplane.IPSetID) uint64 { return maphash.String(seed, string(id)) }
	s := &memberIndex{out: out, objects: newObjectTable(), sets: idtable.NewMap[dataplane.IPSetID, ipSet](hash)}
	index, err := labelindex.New(labelindex.Config[uint32, uint32]{
		CompareItems:     cmp.Compare[uint32],
		CompareSelectors: cmp.Compare[uint32],
		Started:          func(set, object uint32) { s.matchChanged(s.sets.At(set), object, true) },
		Stopped:          func(set, object uint32) { s.matchChanged(s.sets.At(set), object, false) },
	})
	if err != nil {
		return nil, err
	}
	s.index, s.namespaces = index, newNamespaces(index)
	return s, nil
}

// activate adds a set with the objects that a selector selects.
func (s *memberIndex) activate(spec *IPSetSpec, sel *selector.Selector) {
	_, hash, _ := s.sets.Find(spec.ID)
	number := s.sets.Add(spec.ID, hash)
	*s.sets.At(number) = ipSet{spec, number}
	s.out.IPSetAdded(spec.ID, spec.Type)
	s.index.UpdateSelector(number, sel)
}

// deactivate removes a set, if it is active.
func (s *memberIndex) deactivate(id dataplane.IPSetID) {
	number, _, active := s.sets.Find(id)
	if !active {
		return
	}
	s.index.DeleteSelector(number)
	s.sets.Remove(number)
	s.out.IPSetRemoved(id)
}

// members returns the members of a set, sorted, and whether it is active.
func (s *memberIndex) members(id dataplane.IPSetID) (members []dataplane.Member, active bool) {
	set, _, active := s.sets.Find(id)
	if !active {
		return nil, false
	}
	spec := s.sets.At(set).spec
	for number := range s.index.Items(set) {
		o := s.objects.At(number)
		list := o.list(&s.one)
		for i := range list.len() {
			k := list.at(i)
			members = o.appendMembers(members, spec, &k)
		}
	}
	return sorted(members, dataplane.Member.Compare), true
}

// delete removes an object, if it exists.
func (s *memberIndex) delete(key policy.Key) {
	namespace, ok := s.namespaces.find(key.Namespace)
	if !ok {
		return
	}
	number, _, ok := s.objects.Find(newObjectKey(key, namespace))
	if !ok {
		return
	}
	s.index.DeleteItem(number)
	o := s.objects.At(number)
	if list := o.list(&s.one); o.repeated() {
		keys, _ := list.keys(0, list.len())
		for i := range keys {
			s.release(number, o, &keys[i])
		}
	} else {
		for i := range list.len() {
			k := list.at(i)
			s.release(number, o, &k)
		}
	}
	s.objects.Remove(number)
	s.namespaces.release(namespace)
}

// update replaces what the object contributes to the sets that it is in, then its labels,
// which may put it into others. What it contributes before and after is never withdrawn
// in between.
func (s *memberIndex) update(
	key policy.Key, nets netList, ports []policy.EndpointPort, labels map[string]string, profiles []string,
) {
	namespace := s.namespaces.use(key.Namespace)
	number, hash, known := s.objects.Find(newObjectKey(key, namespace))
	if known {
		s.namespaces.release(namespace) // the object was counted when it came
	} else {
		number = s.objects.Add(newObjectKey(key, namespace), hash)
	}
	s.nets = nets.data // keeps the room that it has grown to
	o := s.objects.At(number)
	s.current = s.current[:0]
	ports = distinctPorts(ports)
	if old := o.list(&s.one); !old.equal(nets) || !slices.Equal(o.ports(), ports) {
		if known {
			for set := range s.index.Selectors(number) {
				s.current = append(s.current, s.sets.At(set))
			}
		}
		s.setPorts(number, o, ports)
		s.setNets(number, o, nets)
	}
	s.parents = s.namespaces.appendParents(s.parents[:0], namespace, profiles)
	s.index.UpdateItem(number, labels, s.parents)
	if cap(s.nets) > maxRoom {
		s.nets = nil
	}
}

// maxRoom is how many bytes of room to work in stay between calls.
const maxRoom = 1 << 20

// matchChanged adds all that an object contributes to a set, or removes it.
func (s *memberIndex) matchChanged(set *ipSet, number uint32, present bool) {
	o := s.objects.At(number)
	list := o.list(&s.one)
	if o.repeated() {
		keys, _ := list.keys(0, list.len())
		for i := range keys {
			s.change(set, o, &keys[i], present)
		}
		return
	}
	for i := range list.len() {
		k := list.at(i)
		s.change(set, o, &k, present)
	}
}

// change adds what an object contributes to a set by one of its prefixes, or removes it.
func (s *memberIndex) change(set *ipSet, o *object, k *netKey, present bool) {
	if set.spec.Type == dataplane.IPSetNets {
		s.changeMember(set, o, k, policy.EndpointPort{}, present)
		return
	}
	for _, p := range o.ports() {
		if set.spec.wants(p) {
			s.changeMember(set, o, k, p, present)
		}
	}
}

// changeMember adds or removes one member. It goes out if the object is the only one that
// contributes it, of those that match.
func (s *memberIndex) changeMember(set *ipSet, o *object, k *netKey, p policy.EndpointPort, present bool) {
	if o.shared > 0 {
		if group, ok := s.contributors.group(k); ok && !s.count(set, group, p, present) {
			return
		}
	}
	s.out.MemberChanged(set.spec.ID, dataplane.Member{Prefix: k.prefix(), Protocol: p.Protocol, Port: p.Port}, present)
}

// count counts a contribution more or less. It reports whether it is the first or was the last.
func (s *memberIndex) count(set *ipSet, group uint32, p policy.EndpointPort, present bool) bool {
	m := sharedMember{set.number, group, p.Protocol, p.Port}
	n := s.shared.m[m]
	switch {
	case present:
		s.shared.set(m, n+1)
		return n == 0
	case n > 1:
		s.shared.set(m, n-1)
		return false
	default:
		s.shared.drop(m)
		return true
	}
}
