// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
)

// felixState is the state of a driver. Objects are messages, by their identities.
type felixState struct {
	// dialect is "tiers", "kinds" or "kinds-v4v6". kinds is set if policies are identified by kind,
	// namespace and name, and not by tier and name.
	dialect  string
	kinds    bool
	started  bool
	inSync   bool
	config   map[string]string
	sets     map[string]felixSet
	policies map[string]*felixpb.ActivePolicyUpdate
	profiles map[string]*felixpb.Profile
	// workloads by workload id, and hosts by endpoint id.
	workloads map[string]*felixpb.WorkloadEndpoint
	hosts     map[string]*felixpb.HostEndpoint
	vteps     map[string]*felixpb.VXLANTunnelEndpointUpdate
	routes    map[string]*felixpb.RouteUpdate
	nodes     map[string]felixNode
	// hosts4 and hosts6 are the addresses of nodes in messages for each family, nodes those with
	// both.
	hosts4, hosts6 map[string]string
	pools          map[string]*felixpb.IPAMPool
	namespaces     map[string]map[string]string
	accounts       map[[2]string]map[string]string
	encapsulation  *felixpb.Encapsulation
}

// felixSet is a set. A member is an address or prefix, or "address,protocol:port".
type felixSet struct {
	typ     felixpb.IPSetUpdate_IPSetType
	members map[string]felixMember
}

type felixMember struct {
	prefix   netip.Prefix
	protocol int32
	port     uint16
}

// felixNode is a message of a node with the addresses of both families.
type felixNode interface {
	GetIpv4Addr() string
	GetIpv6Addr() string
	GetLabels() map[string]string
}

func newFelixState(dialect string) felixState {
	return felixState{
		dialect: dialect, kinds: dialect != "tiers",
		sets: map[string]felixSet{}, policies: map[string]*felixpb.ActivePolicyUpdate{},
		profiles: map[string]*felixpb.Profile{}, workloads: map[string]*felixpb.WorkloadEndpoint{},
		hosts: map[string]*felixpb.HostEndpoint{}, vteps: map[string]*felixpb.VXLANTunnelEndpointUpdate{},
		routes: map[string]*felixpb.RouteUpdate{}, nodes: map[string]felixNode{},
		hosts4: map[string]string{}, hosts6: map[string]string{},
		pools: map[string]*felixpb.IPAMPool{}, namespaces: map[string]map[string]string{},
		accounts: map[[2]string]map[string]string{},
	}
}

// apply applies a message to the state. Errors: the message breaks the protocol.
func (s *felixState) apply(m *felixpb.ToDataplane) error {
	config, first := m.Payload.(*felixpb.ToDataplane_ConfigUpdate)
	if first == s.started {
		return errors.New("the first message, and no other, is ConfigUpdate")
	}
	s.started = true
	switch p := m.Payload.(type) {
	case *felixpb.ToDataplane_ConfigUpdate:
		s.config = config.ConfigUpdate.Config
		for _, raw := range config.ConfigUpdate.SourceToRawConfig {
			if fmt.Sprint(raw.Config) != fmt.Sprint(s.config) {
				return errors.New("the settings of the sources differ")
			}
		}
	case *felixpb.ToDataplane_InSync:
		if s.inSync {
			return errors.New("a second InSync")
		}
		s.inSync = true
	case *felixpb.ToDataplane_IpsetUpdate:
		s.sets[p.IpsetUpdate.Id] = felixSet{p.IpsetUpdate.Type, map[string]felixMember{}}
		return s.change(p.IpsetUpdate.Id, p.IpsetUpdate.Members, nil)
	case *felixpb.ToDataplane_IpsetDeltaUpdate:
		return s.change(p.IpsetDeltaUpdate.Id, p.IpsetDeltaUpdate.AddedMembers, p.IpsetDeltaUpdate.RemovedMembers)
	case *felixpb.ToDataplane_IpsetRemove:
		if user := s.userOfSet(p.IpsetRemove.Id); user != "" {
			return errors.New(user + " uses the set")
		}
		return drop(s.sets, p.IpsetRemove.Id)
	default:
		return errors.Join(s.applyPolicy(m), s.applyNetwork(m))
	}
	return nil
}

// change adds and removes members.
func (s *felixState) change(id string, added, removed []string) error {
	set, ok := s.sets[id]
	if !ok {
		return errors.New("no set " + id)
	}
	for _, text := range added {
		m, err := parseMember(set.typ, text)
		if err != nil {
			return err
		}
		if _, ok := set.members[text]; ok {
			return errors.New("the member exists: " + text)
		}
		set.members[text] = m
	}
	for _, text := range removed {
		if err := drop(set.members, text); err != nil {
			return err
		}
	}
	return nil
}

func parseMember(typ felixpb.IPSetUpdate_IPSetType, text string) (m felixMember, err error) {
	switch typ {
	case felixpb.IPSetUpdate_NET:
		m.prefix, err = netip.ParsePrefix(text)
		return m, err
	case felixpb.IPSetUpdate_IP_AND_PORT:
		addr, rest, _ := strings.Cut(text, ",")
		name, port, _ := strings.Cut(rest, ":")
		a, err := netip.ParseAddr(addr)
		if err != nil {
			return m, err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		m = felixMember{netip.PrefixFrom(a, a.BitLen()), protocolNumbers()[name], uint16(n)}
		if m.protocol == 0 || m.port == 0 {
			err = errors.New("no protocol or port: " + text)
		}
		return m, err
	}
	return m, errors.New("unexpected type of a set")
}

func drop[K comparable, V any](m map[K]V, k K) error {
	if _, ok := m[k]; !ok {
		return fmt.Errorf("removes %v, which does not exist", k)
	}
	delete(m, k)
	return nil
}

// policyID returns the identity of a policy as text.
func (s *felixState) policyID(id *felixpb.PolicyID) (string, error) {
	if s.kinds {
		namespaced, known := map[string]bool{
			"NetworkPolicy": true, "KubernetesNetworkPolicy": true,
			"GlobalNetworkPolicy": false, "KubernetesClusterNetworkPolicy": false,
		}[id.Kind]
		if id.Tier != "" || id.Name == "" || !known || namespaced != (id.Namespace != "") {
			return "", fmt.Errorf("not the identity of a policy: %v", id)
		}
		return id.Kind + "/" + id.Namespace + "/" + id.Name, nil
	}
	if id.Tier == "" || id.Name == "" || id.Kind+id.Namespace != "" {
		return "", fmt.Errorf("not the identity of a policy: %v", id)
	}
	return id.Tier + "|" + id.Name, nil
}

// reference returns the identity of a policy in a tier.
func (s *felixState) reference(tier string, ref []byte) (string, error) {
	if !s.kinds {
		return s.policyID(&felixpb.PolicyID{Tier: tier, Name: string(ref)})
	}
	id := &felixpb.PolicyID{}
	if err := proto.Unmarshal(ref, id); err != nil {
		return "", err
	}
	return s.policyID(id)
}

func (s *felixState) applyPolicy(m *felixpb.ToDataplane) error {
	switch p := m.Payload.(type) {
	case *felixpb.ToDataplane_ActivePolicyUpdate:
		id, err := s.policyID(p.ActivePolicyUpdate.Id)
		if err != nil {
			return err
		}
		s.policies[id] = p.ActivePolicyUpdate
		return s.checkRules(p.ActivePolicyUpdate.Policy)
	case *felixpb.ToDataplane_ActivePolicyRemove:
		id, err := s.policyID(p.ActivePolicyRemove.Id)
		if err != nil {
			return err
		}
		if user := s.userOf(id, ""); user != "" {
			return errors.New(user + " uses the policy")
		}
		return drop(s.policies, id)
	case *felixpb.ToDataplane_ActiveProfileUpdate:
		s.profiles[p.ActiveProfileUpdate.Id.Name] = p.ActiveProfileUpdate.Profile
		return s.checkRules(p.ActiveProfileUpdate.Profile)
	case *felixpb.ToDataplane_ActiveProfileRemove:
		if user := s.userOf("", p.ActiveProfileRemove.Id.Name); user != "" {
			return errors.New(user + " uses the profile")
		}
		return drop(s.profiles, p.ActiveProfileRemove.Id.Name)
	case *felixpb.ToDataplane_WorkloadEndpointUpdate:
		id, e := p.WorkloadEndpointUpdate.Id, p.WorkloadEndpointUpdate.Endpoint
		if id.OrchestratorId != "k8s" || id.EndpointId != "eth0" || e.Name == "" {
			return errors.New("not the identity of a pod, or no interface")
		}
		s.workloads[id.WorkloadId] = e
		return s.checkReferences(e.ProfileIds, e.Tiers)
	case *felixpb.ToDataplane_WorkloadEndpointRemove:
		return drop(s.workloads, p.WorkloadEndpointRemove.Id.WorkloadId)
	case *felixpb.ToDataplane_HostEndpointUpdate:
		e := p.HostEndpointUpdate.Endpoint
		s.hosts[p.HostEndpointUpdate.Id.EndpointId] = e
		return s.checkReferences(e.ProfileIds, e.Tiers, e.UntrackedTiers, e.PreDnatTiers, e.ForwardTiers)
	case *felixpb.ToDataplane_HostEndpointRemove:
		return drop(s.hosts, p.HostEndpointRemove.Id.EndpointId)
	}
	return nil
}

// ruled is a policy or a profile.
type ruled interface {
	GetInboundRules() []*felixpb.Rule
	GetOutboundRules() []*felixpb.Rule
}

// setsOf returns the sets of a rule.
func setsOf(r *felixpb.Rule) (ids []string) {
	for _, list := range [][]string{
		r.SrcIpSetIds, r.DstIpSetIds, r.NotSrcIpSetIds, r.NotDstIpSetIds,
		r.SrcNamedPortIpSetIds, r.DstNamedPortIpSetIds,
		r.NotSrcNamedPortIpSetIds, r.NotDstNamedPortIpSetIds, r.DstIpPortSetIds,
	} {
		ids = append(ids, list...)
	}
	return ids
}

// checkRules checks that sets exist.
func (s *felixState) checkRules(p ruled) error {
	for _, list := range [][]*felixpb.Rule{p.GetInboundRules(), p.GetOutboundRules()} {
		for _, r := range list {
			for _, id := range setsOf(r) {
				if _, ok := s.sets[id]; !ok {
					return errors.New("no set " + id)
				}
			}
		}
	}
	return nil
}

func (s *felixState) userOfSet(id string) string {
	uses := func(p ruled) bool {
		sub := felixState{sets: map[string]felixSet{}}
		for other := range s.sets {
			if other != id {
				sub.sets[other] = felixSet{}
			}
		}
		return sub.checkRules(p) != nil
	}
	for name, p := range s.policies {
		if uses(p.Policy) {
			return name
		}
	}
	for name, p := range s.profiles {
		if uses(p) {
			return name
		}
	}
	return ""
}

// checkReferences checks that policies and profiles exist.
func (s *felixState) checkReferences(profiles []string, lists ...[]*felixpb.TierInfo) error {
	for _, name := range profiles {
		if s.profiles[name] == nil {
			return errors.New("no profile " + name)
		}
	}
	for _, tiers := range lists {
		for _, tier := range tiers {
			if tier.DefaultAction != "Deny" && tier.DefaultAction != "Pass" {
				return errors.New("no default action")
			}
			for _, ref := range append(append([][]byte(nil), tier.IngressPolicies...), tier.EgressPolicies...) {
				id, err := s.reference(tier.Name, ref)
				if err != nil {
					return err
				}
				if s.policies[id] == nil {
					return errors.New("no policy " + id)
				}
			}
		}
	}
	return nil
}

// userOf returns an endpoint that uses a policy or profile.
func (s *felixState) userOf(policy, profile string) string {
	sub := newFelixState(s.dialect)
	for id, p := range s.policies {
		if id != policy {
			sub.policies[id] = p
		}
	}
	for id, p := range s.profiles {
		if id != profile {
			sub.profiles[id] = p
		}
	}
	for id, e := range s.workloads {
		if sub.checkReferences(e.ProfileIds, e.Tiers) != nil {
			return id
		}
	}
	for id, e := range s.hosts {
		if sub.checkReferences(e.ProfileIds, e.Tiers, e.UntrackedTiers, e.PreDnatTiers, e.ForwardTiers) != nil {
			return id
		}
	}
	return ""
}

// applyNetwork applies a message about neither sets nor policy.
func (s *felixState) applyNetwork(m *felixpb.ToDataplane) error {
	switch p := m.Payload.(type) {
	case *felixpb.ToDataplane_RouteUpdate:
		s.routes[p.RouteUpdate.Dst] = p.RouteUpdate
	case *felixpb.ToDataplane_RouteRemove:
		return drop(s.routes, p.RouteRemove.Dst)
	case *felixpb.ToDataplane_VtepUpdate:
		s.vteps[p.VtepUpdate.Node] = p.VtepUpdate
	case *felixpb.ToDataplane_VtepRemove:
		return drop(s.vteps, p.VtepRemove.Node)
	case *felixpb.ToDataplane_IpamPoolUpdate:
		s.pools[p.IpamPoolUpdate.Id] = p.IpamPoolUpdate.Pool
	case *felixpb.ToDataplane_IpamPoolRemove:
		return drop(s.pools, p.IpamPoolRemove.Id)
	case *felixpb.ToDataplane_Encapsulation:
		s.encapsulation = p.Encapsulation
	case *felixpb.ToDataplane_NamespaceUpdate:
		s.namespaces[p.NamespaceUpdate.Id.Name] = p.NamespaceUpdate.Labels
	case *felixpb.ToDataplane_NamespaceRemove:
		return drop(s.namespaces, p.NamespaceRemove.Id.Name)
	case *felixpb.ToDataplane_ServiceAccountUpdate:
		id := p.ServiceAccountUpdate.Id
		s.accounts[[2]string{id.Namespace, id.Name}] = p.ServiceAccountUpdate.Labels
	case *felixpb.ToDataplane_ServiceAccountRemove:
		id := p.ServiceAccountRemove.Id
		return drop(s.accounts, [2]string{id.Namespace, id.Name})
	case nil:
		return errors.New("a message without content")
	}
	return s.applyNode(m)
}

// applyNode applies a message of a node. A dialect does not have the messages of the others.
func (s *felixState) applyNode(m *felixpb.ToDataplane) error {
	unknown := fmt.Errorf("dialect %s does not have this message", s.dialect)
	switch p := m.Payload.(type) {
	case *felixpb.ToDataplane_HostMetadataV4V6Update:
		if s.dialect == "kinds" {
			return unknown
		}
		s.nodes[p.HostMetadataV4V6Update.Hostname] = p.HostMetadataV4V6Update
	case *felixpb.ToDataplane_HostMetadataV4V6Remove:
		if s.dialect == "kinds" {
			return unknown
		}
		return drop(s.nodes, p.HostMetadataV4V6Remove.Hostname)
	case *felixpb.ToDataplane_HostMetadataUpdate:
		switch s.dialect {
		case "tiers":
			s.hosts4[p.HostMetadataUpdate.Hostname] = p.HostMetadataUpdate.Ipv4Addr
		case "kinds":
			s.nodes[p.HostMetadataUpdate.Hostname] = p.HostMetadataUpdate
		default:
			return unknown
		}
	case *felixpb.ToDataplane_HostMetadataRemove:
		switch s.dialect {
		case "tiers":
			return drop(s.hosts4, p.HostMetadataRemove.Hostname)
		case "kinds":
			return drop(s.nodes, p.HostMetadataRemove.Hostname)
		}
		return unknown
	case *felixpb.ToDataplane_HostMetadataV6Update:
		if s.dialect != "tiers" {
			return unknown
		}
		s.hosts6[p.HostMetadataV6Update.Hostname] = p.HostMetadataV6Update.Ipv6Addr
	case *felixpb.ToDataplane_HostMetadataV6Remove:
		return drop(s.hosts6, p.HostMetadataV6Remove.Hostname)
	}
	return nil
}

// report returns the statuses that the driver sends after a message. After InSync, these are the
// statuses of all endpoints, and later the status of the endpoint that has changed.
func (s *felixState) report(m *felixpb.ToDataplane) (out []*felixpb.FromDataplane) {
	up, down := &felixpb.EndpointStatus{Status: "up"}, &felixpb.EndpointStatus{Status: "down"}
	workload := func(id string) {
		status := up
		if s.workloads[id].State == "inactive" {
			status = down
		}
		out = append(out, &felixpb.FromDataplane{Payload: &felixpb.FromDataplane_WorkloadEndpointStatusUpdate{
			WorkloadEndpointStatusUpdate: &felixpb.WorkloadEndpointStatusUpdate{
				Id:     &felixpb.WorkloadEndpointID{OrchestratorId: "k8s", WorkloadId: id, EndpointId: "eth0"},
				Status: status,
			},
		}})
	}
	host := func(id string) {
		out = append(out, &felixpb.FromDataplane{Payload: &felixpb.FromDataplane_HostEndpointStatusUpdate{
			HostEndpointStatusUpdate: &felixpb.HostEndpointStatusUpdate{
				Id: &felixpb.HostEndpointID{EndpointId: id}, Status: up,
			},
		}})
	}
	switch p := m.Payload.(type) {
	case *felixpb.ToDataplane_InSync:
		for id := range s.workloads {
			workload(id)
		}
		for id := range s.hosts {
			host(id)
		}
		out = append(out, &felixpb.FromDataplane{Payload: &felixpb.FromDataplane_DataplaneInSync{}})
	case *felixpb.ToDataplane_WorkloadEndpointUpdate:
		if s.inSync {
			workload(p.WorkloadEndpointUpdate.Id.WorkloadId)
		}
	case *felixpb.ToDataplane_HostEndpointUpdate:
		if s.inSync {
			host(p.HostEndpointUpdate.Id.EndpointId)
		}
	case *felixpb.ToDataplane_WorkloadEndpointRemove:
		out = append(out, &felixpb.FromDataplane{Payload: &felixpb.FromDataplane_WorkloadEndpointStatusRemove{
			WorkloadEndpointStatusRemove: &felixpb.WorkloadEndpointStatusRemove{Id: p.WorkloadEndpointRemove.Id},
		}})
	case *felixpb.ToDataplane_HostEndpointRemove:
		out = append(out, &felixpb.FromDataplane{Payload: &felixpb.FromDataplane_HostEndpointStatusRemove{
			HostEndpointStatusRemove: &felixpb.HostEndpointStatusRemove{Id: p.HostEndpointRemove.Id},
		}})
	}
	return out
}
