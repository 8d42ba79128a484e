// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// services keeps the members of the sets of services. A member that several parts of a service
// contribute goes with the last of them (S78).
type services struct {
	out    MemberReceiver
	parts  map[policy.Key]*policy.ServiceBackends
	byName map[serviceName]*service
}

type serviceName struct{ namespace, name string }

// service is kept while it has a part or a set.
type service struct {
	parts map[policy.Key]struct{}
	sets  []*serviceSet // at most one of each type
}

type serviceSet struct {
	spec *IPSetSpec
	refs map[dataplane.Member]int // parts that contribute the member
}

func newServices(out MemberReceiver) services {
	return services{out: out, parts: map[policy.Key]*policy.ServiceBackends{}, byName: map[serviceName]*service{}}
}

func (s *services) service(name serviceName) *service {
	sv := s.byName[name]
	if sv == nil {
		sv = &service{parts: map[policy.Key]struct{}{}}
		s.byName[name] = sv
	}
	return sv
}

func (s *services) forgetUnused(name serviceName) {
	if sv := s.byName[name]; sv != nil && len(sv.parts) == 0 && len(sv.sets) == 0 {
		delete(s.byName, name)
	}
}

func (s *services) activate(spec *IPSetSpec) {
	sv := s.service(spec.service())
	set := &serviceSet{spec: spec, refs: map[dataplane.Member]int{}}
	sv.sets = append(sv.sets, set)
	for key := range sv.parts {
		s.add(set, backends(s.parts[key], spec.Type))
	}
}

func (s *services) deactivate(spec *IPSetSpec) {
	sv := s.service(spec.service())
	sv.sets = slices.DeleteFunc(sv.sets, func(set *serviceSet) bool {
		if set.spec.ID != spec.ID {
			return false
		}
		for m := range set.refs {
			s.out.MemberChanged(spec.ID, m, false)
		}
		return true
	})
	s.forgetUnused(spec.service())
}

func (s *services) members(spec *IPSetSpec) []dataplane.Member {
	if sv := s.byName[spec.service()]; sv != nil {
		for _, set := range sv.sets {
			if set.spec.ID == spec.ID {
				return slices.Collect(maps.Keys(set.refs))
			}
		}
	}
	return nil
}

// update replaces a part of a service; nil removes it. What stays is never withdrawn in between.
func (s *services) update(key policy.Key, part *policy.ServiceBackends) {
	old := s.parts[key]
	if part != nil {
		s.parts[key] = part
		sv := s.service(nameOf(part))
		sv.parts[key] = struct{}{}
		for _, set := range sv.sets {
			s.add(set, backends(part, set.spec.Type))
		}
	} else {
		delete(s.parts, key)
	}
	if old == nil {
		return
	}
	sv := s.service(nameOf(old))
	for _, set := range sv.sets {
		s.remove(set, backends(old, set.spec.Type))
	}
	if part == nil || nameOf(part) != nameOf(old) {
		delete(sv.parts, key)
		s.forgetUnused(nameOf(old))
	}
}

func (s *services) add(set *serviceSet, members []dataplane.Member) {
	for _, m := range members {
		if set.refs[m]++; set.refs[m] == 1 {
			s.out.MemberChanged(set.spec.ID, m, true)
		}
	}
}

func (s *services) remove(set *serviceSet, members []dataplane.Member) {
	for _, m := range members {
		if set.refs[m]--; set.refs[m] == 0 {
			delete(set.refs, m)
			s.out.MemberChanged(set.spec.ID, m, false)
		}
	}
}

func (s *IPSetSpec) service() serviceName { return serviceName{s.ServiceNamespace, s.ServiceName} }

func nameOf(part *policy.ServiceBackends) serviceName {
	return serviceName{part.Namespace, part.Service}
}

// backends returns what a part contributes to a set of the type, each once: every address serves
// every port.
func backends(part *policy.ServiceBackends, typ dataplane.IPSetType) []dataplane.Member {
	var out []dataplane.Member
	for _, addr := range part.Addresses {
		addr = addr.Unmap()
		prefix := netip.PrefixFrom(addr, addr.BitLen())
		if typ == dataplane.IPSetNets {
			out = append(out, dataplane.Member{Prefix: prefix})
			continue
		}
		for _, p := range part.Ports {
			out = append(out, dataplane.Member{Prefix: prefix, Protocol: p.Protocol, Port: p.Port})
		}
	}
	return sorted(out, dataplane.Member.Compare)
}
