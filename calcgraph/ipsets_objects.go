// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// object is what an endpoint or network set can put into sets. Most have one IPv4 address and no
// named port; they need no memory beside it.
type object struct {
	single bool    // addr is all that there is
	addr   [4]byte // the only address
	shared uint32  // how many of its prefixes others have too
	more   *holding
}

// holding is what other objects have.
type holding struct {
	nets     netList
	repeated bool                  // a prefix is in nets more than once
	ports    []policy.EndpointPort // sorted, each once
}

// list returns the prefixes of the object; one is room for it.
func (o *object) list(one *[narrow]byte) netList {
	switch {
	case o.more != nil:
		return o.more.nets
	case o.single:
		one[0] = 32
		copy(one[1:], o.addr[:])
		return netList{data: one[:]}
	default:
		return netList{}
	}
}

func (o *object) ports() []policy.EndpointPort {
	if o.more == nil {
		return nil
	}
	return o.more.ports
}

func (o *object) repeated() bool { return o.more != nil && o.more.repeated }

// hold replaces what the object has. The list is copied, the ports, which are the object's already,
// are not.
func (o *object) hold(nets netList, repeated bool, ports []policy.EndpointPort) {
	o.single = false
	if len(ports) == 0 && len(nets.data) <= narrow && !nets.wide {
		if nets.len() == 1 {
			if k := nets.at(0); k[0] == 32 {
				o.addr, o.single = [4]byte(k[1:5]), true
			}
		}
		if o.single || nets.len() == 0 {
			o.more = nil
			return
		}
	}
	if o.more == nil {
		o.more = &holding{}
	}
	if len(nets.data) == len(o.more.nets.data) {
		copy(o.more.nets.data, nets.data)
	} else {
		o.more.nets.data = slices.Clip(slices.Clone(nets.data))
	}
	o.more.nets.wide, o.more.repeated, o.more.ports = nets.wide, repeated, ports
}

// appendMembers appends what the object contributes to a set by one of its prefixes.
func (o *object) appendMembers(members []dataplane.Member, spec *IPSetSpec, k *netKey) []dataplane.Member {
	if spec.Type == dataplane.IPSetNets {
		return append(members, dataplane.Member{Prefix: k.prefix()})
	}
	for _, p := range o.ports() {
		if spec.wants(p) {
			members = append(members, dataplane.Member{Prefix: k.prefix(), Protocol: p.Protocol, Port: p.Port})
		}
	}
	return members
}

// setPorts replaces the ports of an object in the sets that it is in.
func (s *memberIndex) setPorts(number uint32, o *object, ports []policy.EndpointPort) {
	old, list := o.ports(), o.list(&s.one)
	if slices.Equal(old, ports) {
		return
	}
	keys, _ := list.keys(0, list.len())
	change := func(from, to []policy.EndpointPort, present bool) {
		for _, p := range from {
			if _, stays := slices.BinarySearchFunc(to, p, comparePorts); stays {
				continue
			}
			for _, set := range s.current {
				if set.spec.Type != dataplane.IPSetPorts || !set.spec.wants(p) {
					continue
				}
				for k := range keys {
					s.changeMember(set, o, &keys[k], p, present)
				}
			}
		}
	}
	change(ports, old, true)
	change(old, ports, false)
	o.hold(list, o.repeated(), ports)
}

// setNets replaces the prefixes of an object, in the sets that it is in too. What is the same at
// the beginning and at the end of both lists is not looked at any further.
func (s *memberIndex) setNets(number uint32, o *object, now netList) {
	old := o.list(&s.one)
	if old.equal(now) {
		return
	}
	if old.len() == 0 {
		s.setFirstNets(number, o, now)
		return
	}
	head, tail := old.common(now)
	if o.repeated() && max(old.len(), now.len())-head-tail > fewRepeated {
		head, tail = 0, 0
	}
	before, _ := old.keys(head, old.len()-tail)
	after, repeated := now.keys(head, now.len()-tail)
	if o.repeated() && head+tail > 0 {
		// What goes may stand at the beginning or at the end too, and so stay.
		before = slices.DeleteFunc(before, now.has)
		repeated = true
	}
	onlyKeys(after, before, func(k netKey) {
		if !s.claim(number, o, &k) {
			repeated = true // it stands at the beginning or at the end too
			return
		}
		for _, set := range s.current {
			s.change(set, o, &k, true)
		}
	})
	onlyKeys(before, after, func(k netKey) {
		for _, set := range s.current {
			s.change(set, o, &k, false)
		}
		s.release(number, o, &k)
	})
	o.hold(now, repeated, o.ports())
}

// fewRepeated is how many prefixes may change in a list that has some twice before it is quicker to
// sort it all than to search it for each.
const fewRepeated = 16

// setFirstNets gives prefixes to an object that has none.
func (s *memberIndex) setFirstNets(number uint32, o *object, now netList) {
	repeated := false
	for i := range now.len() {
		k := now.at(i)
		if !s.claim(number, o, &k) {
			repeated = true
			continue
		}
		for _, set := range s.current {
			s.change(set, o, &k, true)
		}
	}
	o.hold(now, repeated, o.ports())
}

// claim makes an object a contributor of a prefix, before it contributes it to any set. It reports false
// if it is one already.
func (s *memberIndex) claim(number uint32, o *object, k *netKey) bool {
	contributor, found := s.contributors.get(k)
	switch {
	case !found:
		s.contributors.set(k, number)
		return true
	case contributor == number:
		return false
	case contributor&groupBit != 0:
		if !s.contributors.addToGroup(contributor&^groupBit, number) {
			return false
		}
	default:
		group := s.contributors.newGroup(contributor, number)
		s.contributors.set(k, group|groupBit)
		other := s.objects.At(contributor)
		other.shared++
		s.recount(contributor, other, group, true)
	}
	o.shared++
	return true
}

// release ends that, once the object contributes the prefix to no set any more.
func (s *memberIndex) release(number uint32, o *object, k *netKey) {
	group, shared := s.contributors.group(k)
	if !shared {
		s.contributors.drop(k)
		return
	}
	o.shared--
	left, last := s.contributors.removeFromGroup(group, number)
	if left > 1 {
		return
	}
	other := s.objects.At(last)
	s.recount(last, other, group, false)
	other.shared--
	s.contributors.set(k, last)
	s.contributors.freeGroup(group)
}

// recount counts what the only contributor of a prefix contributes by it to the sets that it is in, or
// forgets the counts. The index is at rest meanwhile.
func (s *memberIndex) recount(number uint32, o *object, group uint32, present bool) {
	for n := range s.index.Selectors(number) {
		set := s.sets.At(n)
		if set.spec.Type == dataplane.IPSetNets {
			s.count(set, group, policy.EndpointPort{}, present)
			continue
		}
		for _, p := range o.ports() {
			if set.spec.wants(p) {
				s.count(set, group, p, present)
			}
		}
	}
}

// distinctPorts returns a copy of the ports, sorted and each once.
func distinctPorts(ports []policy.EndpointPort) []policy.EndpointPort {
	if len(ports) == 0 {
		return nil
	}
	return slices.Clip(sorted(slices.Clone(ports), comparePorts))
}

func comparePorts(a, b policy.EndpointPort) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
}
