// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// MemberReceiver receives the members of IP sets. IPSetAdded is called before the first member of a
// set is added, and IPSetRemoved after the last one is removed. A member is added only if it is not
// in the set, and removed only if it is in the set. The order of members is unspecified.
type MemberReceiver interface {
	IPSetAdded(id dataplane.IPSetID, typ dataplane.IPSetType)
	MemberChanged(id dataplane.IPSetID, m dataplane.Member, present bool)
	IPSetRemoved(id dataplane.IPSetID)
}

// IPSets computes the members of the active IP sets. For a selector, these are the addresses or
// ports of all endpoints, host endpoints and network sets of the cluster that match it. For a
// service, these are its backends. If several objects have the same member, the member stays in the
// set until the last of these objects no longer has it.
//
// IPSets stores no lists of members. It computes them from the selectors of the sets, and from the
// labels and prefixes of the objects. So the memory for an object depends on its labels and
// addresses, and not on the number of sets that it is in. IPSets stores counts only for a prefix
// that several objects have: for each set, how many of these objects are in the set.
//
// An IPSets is not safe for concurrent use.
type IPSets struct {
	selected *memberIndex // sets of selectors
	services *memberIndex // sets of services; its objects are ServiceBackends
}

var _ IPSetReceiver = (*IPSets)(nil)

// NewIPSets returns an empty IPSets, which sends its output to out.
func NewIPSets(out MemberReceiver) (*IPSets, error) {
	selected, err := newMemberIndex(out)
	if err != nil {
		return nil, err
	}
	services, err := newMemberIndex(out)
	if err != nil {
		return nil, err
	}
	return &IPSets{selected, services}, nil
}

// serviceLabel is the label of ServiceBackends with the name of the service.
const serviceLabel = "service"

// IPSetActive adds a set, which must not be active.
func (s *IPSets) IPSetActive(spec *IPSetSpec) {
	if spec.Selector == nil {
		s.services.activate(spec, selector.Equal(serviceLabel, spec.ServiceNamespace+"/"+spec.ServiceName))
		return
	}
	s.selected.activate(spec, spec.Selector)
}

// IPSetInactive removes a set, if it is active.
func (s *IPSets) IPSetInactive(id dataplane.IPSetID) {
	s.selected.deactivate(id)
	s.services.deactivate(id)
}

// Members returns the members of an active set, sorted. The caller may change the list.
func (s *IPSets) Members(id dataplane.IPSetID) []dataplane.Member {
	if members, active := s.selected.members(id); active {
		return members
	}
	members, _ := s.services.members(id)
	return members
}

// UpdateEndpoint adds or replaces an endpoint of any node.
func (s *IPSets) UpdateEndpoint(w *policy.WorkloadEndpoint) {
	list := appendAddrs(s.selected.nets, w.Addresses)
	s.selected.update(w.Key(), list, w.Ports, w.Labels, w.Profiles)
}

// UpdateHostEndpoint adds or replaces a host endpoint of any node. Its addresses are ExpectedIPs.
func (s *IPSets) UpdateHostEndpoint(h *policy.HostEndpoint) {
	list := appendAddrs(s.selected.nets, h.ExpectedIPs)
	s.selected.update(h.Key(), list, h.Ports, h.Labels, h.Profiles)
}

// UpdateNetworkSet adds or replaces a network set.
func (s *IPSets) UpdateNetworkSet(n *policy.NetworkSet) {
	list := appendNets(s.selected.nets, n.Nets)
	s.selected.update(n.Key(), list, nil, n.Labels, nil)
}

// UpdateService adds or replaces some of the backends of a service: those of one ServiceBackends
// resource.
func (s *IPSets) UpdateService(part *policy.ServiceBackends) {
	ports := make([]policy.EndpointPort, len(part.Ports))
	for i, p := range part.Ports {
		ports[i] = policy.EndpointPort{Protocol: p.Protocol, Port: p.Port}
	}
	labels := map[string]string{serviceLabel: part.Namespace + "/" + part.Service}
	s.services.update(part.Key(), appendAddrs(s.services.nets, part.Addresses), ports, labels, nil)
}

// UpdateProfile adds or replaces the labels that endpoints inherit from a profile. It ignores a
// profile whose name has a slash, because such a name is invalid.
func (s *IPSets) UpdateProfile(p *policy.Profile) {
	if isProfileName(p.Name) {
		s.selected.index.UpdateParent(p.Name, p.LabelsToApply)
	}
}

// DeleteProfile removes a profile, if it exists.
func (s *IPSets) DeleteProfile(name string) {
	if isProfileName(name) {
		s.selected.index.DeleteParent(name)
	}
}

// Delete removes an endpoint, host endpoint, network set or ServiceBackends, if it exists.
func (s *IPSets) Delete(key policy.Key) {
	if key.Kind == policy.KindServiceBackends {
		s.services.delete(key)
		return
	}
	s.selected.delete(key)
}
