// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// object is an endpoint, network set or ServiceBackends with its prefixes and ports. Most objects
// have one IPv4 address and no named port: these need no further memory.
type object struct {
	single bool    // addr is the only prefix, and there are no ports
	addr   [4]byte // the only address
	shared uint32  // number of its prefixes that other objects have, too
	more   *objectExtra
}

// objectExtra has the prefixes and ports of objects that need more than one address.
type objectExtra struct {
	nets     netList
	repeated bool                  // nets has duplicates
	ports    []policy.EndpointPort // sorted, without duplicates
}

// list returns the prefixes of the object. one is a buffer for a single address.
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

// store replaces the prefixes and ports of the object. It copies the list, but not the ports, which
// the object owns.
func (o *object) store(nets netList, repeated bool, ports []policy.EndpointPort) {
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
		o.more = &objectExtra{}
	}
	if len(nets.data) == len(o.more.nets.data) {
		copy(o.more.nets.data, nets.data)
	} else {
		o.more.nets.data = slices.Clip(slices.Clone(nets.data))
	}
	o.more.nets.wide, o.more.repeated, o.more.ports = nets.wide, repeated, ports
}

// appendMembers appends the members of a set for one of the object's prefixes.
func (o *object) appendMembers(members []dataplane.Member, spec *IPSetSpec, k *netKey) []dataplane.Member {
	if spec.Type == dataplane.IPSetNets {
		return append(members, dataplane.Member{Prefix: k.prefix()})
	}
	for _, p := range o.ports() {
		if spec.includes(p) {
			members = append(members, dataplane.Member{Prefix: k.prefix(), Protocol: p.Protocol, Port: p.Port})
		}
	}
	return members
}

// setPorts replaces the ports of an object, and updates its current sets.
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
				if set.spec.Type != dataplane.IPSetPorts || !set.spec.includes(p) {
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
	o.store(list, o.repeated(), ports)
}

// setNets replaces the prefixes of an object, and updates its current sets. It compares only the
// parts of both lists between the common prefix and suffix.
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
		// A removed prefix may also be in the common prefix or suffix: it then stays.
		before = slices.DeleteFunc(before, now.has)
		repeated = true
	}
	onlyKeys(after, before, func(k netKey) {
		if !s.addContributor(number, o, &k) {
			repeated = true // it is in the common prefix or suffix, too
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
		s.removeContributor(number, o, &k)
	})
	o.store(now, repeated, o.ports())
}

// fewRepeated is the number of changed prefixes up to which searching for duplicates is faster than
// sorting the list.
const fewRepeated = 16

// setFirstNets sets the prefixes of an object that has none.
func (s *memberIndex) setFirstNets(number uint32, o *object, now netList) {
	repeated := false
	for i := range now.len() {
		k := now.at(i)
		if !s.addContributor(number, o, &k) {
			repeated = true
			continue
		}
		for _, set := range s.current {
			s.change(set, o, &k, true)
		}
	}
	o.store(now, repeated, o.ports())
}

// addContributor makes an object a contributor of a prefix, before its members are added to sets.
// It reports false if the object already was one.
func (s *memberIndex) addContributor(number uint32, o *object, k *netKey) bool {
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

// removeContributor removes an object from the contributors of a prefix, after its members were
// removed from sets.
func (s *memberIndex) removeContributor(number uint32, o *object, k *netKey) {
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

// recount adds the counts of shared members for the only contributor of a prefix, in its sets, or
// removes them. The matches in the index must not change during the call.
func (s *memberIndex) recount(number uint32, o *object, group uint32, present bool) {
	for n := range s.index.Selectors(number) {
		set := s.sets.At(n)
		if set.spec.Type == dataplane.IPSetNets {
			s.count(set, group, policy.EndpointPort{}, present)
			continue
		}
		for _, p := range o.ports() {
			if set.spec.includes(p) {
				s.count(set, group, p, present)
			}
		}
	}
}

// distinctPorts returns a copy of the ports, sorted and without duplicates.
func distinctPorts(ports []policy.EndpointPort) []policy.EndpointPort {
	if len(ports) == 0 {
		return nil
	}
	return slices.Clip(sorted(slices.Clone(ports), comparePorts))
}

func comparePorts(a, b policy.EndpointPort) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
}
