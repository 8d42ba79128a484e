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

// memberIndex computes the members of IP sets, either for selectors or for services.
type memberIndex struct {
	out          MemberReceiver
	index        *labelindex.Index[uint32, uint32] // objects and sets, by number
	namespaces   namespaces
	objects      idtable.Map[objectKey, object]
	contributors contributors
	shared       shrinkingMap[sharedMember, uint32]
	sets         idtable.Map[dataplane.IPSetID, ipSet]

	// Buffers.
	parents []string
	nets    []byte
	one     [narrow]byte
	current []*ipSet
}

type ipSet struct {
	spec   *IPSetSpec
	number uint32
}

// sharedMember is a member of a set with a prefix of several objects. Matching objects that have it
// are counted.
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

// activate adds a set with the members that a selector matches.
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

// members returns the members of a set, sorted, and reports whether the set is active.
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
			s.removeContributor(number, o, &keys[i])
		}
	} else {
		for i := range list.len() {
			k := list.at(i)
			s.removeContributor(number, o, &k)
		}
	}
	s.objects.Remove(number)
	s.namespaces.release(namespace)
}

// update replaces the prefixes and ports of an object in its current sets, then its labels, which
// may change its sets. Members that the object has before and after are never removed in between.
func (s *memberIndex) update(
	key policy.Key, nets netList, ports []policy.EndpointPort, labels map[string]string, profiles []string,
) {
	namespace := s.namespaces.use(key.Namespace)
	number, hash, known := s.objects.Find(newObjectKey(key, namespace))
	if known {
		s.namespaces.release(namespace) // the existing object already has a reference
	} else {
		number = s.objects.Add(newObjectKey(key, namespace), hash)
	}
	s.nets = nets.data // keep the grown buffer
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
	if cap(s.nets) > maxBuffer {
		s.nets = nil
	}
}

// maxBuffer is the size in bytes up to which the buffer is kept between calls.
const maxBuffer = 1 << 20

// matchChanged adds or removes all members of an object in a set.
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

// change adds or removes the members of an object with one of its prefixes in a set.
func (s *memberIndex) change(set *ipSet, o *object, k *netKey, present bool) {
	if set.spec.Type == dataplane.IPSetNets {
		s.changeMember(set, o, k, policy.EndpointPort{}, present)
		return
	}
	for _, p := range o.ports() {
		if set.spec.includes(p) {
			s.changeMember(set, o, k, p, present)
		}
	}
}

// changeMember adds or removes one member. It sends the change if no other matching object has the
// member.
func (s *memberIndex) changeMember(set *ipSet, o *object, k *netKey, p policy.EndpointPort, present bool) {
	if o.shared > 0 {
		if group, ok := s.contributors.group(k); ok && !s.count(set, group, p, present) {
			return
		}
	}
	s.out.MemberChanged(set.spec.ID, dataplane.Member{Prefix: k.prefix(), Protocol: p.Protocol, Port: p.Port}, present)
}

// count increments or decrements the count of a shared member. It reports whether the member is now
// added or removed.
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
