// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// MemberReceiver receives the members of IP sets: a set before its first member, each member present
// once and absent once, and the set's removal after that of its last member. Members come in no
// particular order.
type MemberReceiver interface {
	IPSetAdded(id dataplane.IPSetID, typ dataplane.IPSetType)
	MemberChanged(id dataplane.IPSetID, m dataplane.Member, present bool)
	IPSetRemoved(id dataplane.IPSetID)
}

// IPSets keeps the members of the active IP sets: the addresses and ports of all endpoints, host
// endpoints and network sets, on whichever node, that match, and the backends of services. A member
// that several objects contribute goes with the last of them.
//
// The members themselves are not kept: they follow from what matches and from what each object has,
// and nearly every address is one object's alone. Only for those that several objects contribute is
// there a count for each set. So an object costs what its labels and addresses take, however many
// sets it is in.
//
// An IPSets is not safe for concurrent use.
type IPSets struct {
	selected *memberIndex // sets of selectors
	services *memberIndex // sets of services, over their parts
}

var _ IPSetReceiver = (*IPSets)(nil)

// NewIPSets returns an empty node that sends its output to out.
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

// serviceLabel is the label of the parts of a service with its name.
const serviceLabel = "service"

// IPSetActive starts a set, which must not be active.
func (s *IPSets) IPSetActive(spec *IPSetSpec) {
	if spec.Selector == nil {
		s.services.activate(spec, selector.Equal(serviceLabel, spec.ServiceNamespace+"/"+spec.ServiceName))
		return
	}
	s.selected.activate(spec, spec.Selector)
}

// IPSetInactive ends a set, if it is active.
func (s *IPSets) IPSetInactive(id dataplane.IPSetID) {
	s.selected.deactivate(id)
	s.services.deactivate(id)
}

// Members returns the members of an active set, sorted: a list that is made for the caller.
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

// UpdateHostEndpoint adds or replaces a host endpoint of any node. Its expected addresses count.
func (s *IPSets) UpdateHostEndpoint(h *policy.HostEndpoint) {
	list := appendAddrs(s.selected.nets, h.ExpectedIPs)
	s.selected.update(h.Key(), list, h.Ports, h.Labels, h.Profiles)
}

// UpdateNetworkSet adds or replaces a network set.
func (s *IPSets) UpdateNetworkSet(n *policy.NetworkSet) {
	list := appendNets(s.selected.nets, n.Nets)
	s.selected.update(n.Key(), list, nil, n.Labels, nil)
}

// UpdateService adds or replaces a part of a service.
func (s *IPSets) UpdateService(part *policy.ServiceBackends) {
	ports := make([]policy.EndpointPort, len(part.Ports))
	for i, p := range part.Ports {
		ports[i] = policy.EndpointPort{Protocol: p.Protocol, Port: p.Port}
	}
	labels := map[string]string{serviceLabel: part.Namespace + "/" + part.Service}
	s.services.update(part.Key(), appendAddrs(s.services.nets, part.Addresses), ports, labels, nil)
}

// UpdateProfile adds or replaces the labels that endpoints inherit from a profile. One whose name
// holds a slash, which is not valid, does not exist.
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

// Delete removes an endpoint, host endpoint, network set or part of a service, if it exists.
func (s *IPSets) Delete(key policy.Key) {
	if key.Kind == policy.KindServiceBackends {
		s.services.delete(key)
		return
	}
	s.selected.delete(key)
}
