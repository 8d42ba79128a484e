// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/policy"
)

// denyProfile is the last profile of each workload endpoint. It denies all packets.
const denyProfile = "wayleave/deny-all"

// backwards translates messages back to events, and collects the errors.
type backwards struct{ errs []error }

func (b *backwards) check(ok bool, format string, args ...any) {
	if !ok {
		b.errs = append(b.errs, fmt.Errorf(format, args...))
	}
}

func (b *backwards) prefix(text string) netip.Prefix {
	p, err := netip.ParsePrefix(text)
	b.check(err == nil, "prefix %q: %v", text, err)
	return p
}

func (b *backwards) addr(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	b.check(err == nil, "address %q: %v", text, err)
	return a
}

// back translates the driver's state into a state of Wayleave.
func (s *felixState) back() (dptest.State, error) {
	b, out := &backwards{}, dptest.NewState()
	out.InSync = s.inSync
	for id, set := range s.sets {
		typ := dataplane.IPSetNets
		if set.typ == felixpb.IPSetUpdate_IP_AND_PORT {
			typ = dataplane.IPSetPorts
		}
		members := []dataplane.Member{}
		for _, m := range set.members {
			members = append(members, dataplane.Member{
				Prefix: m.prefix, Protocol: policy.Protocol(m.protocol), Port: m.port,
			})
		}
		slices.SortFunc(members, dataplane.Member.Compare)
		out.Sets[dataplane.IPSetID(id)] = dptest.Set{Type: typ, Members: members}
	}
	for _, p := range s.policies {
		key := b.policyKey(s.kinds, p.Id)
		b.check(p.Policy.Namespace == key.Namespace, "namespace of %s", key)
		tier := p.Id.Tier
		if s.kinds {
			tier = p.Policy.Tier
		}
		out.Policies[key] = &dataplane.Policy{
			Tier: tier, Untracked: p.Policy.Untracked, PreDNAT: p.Policy.PreDnat,
			Ingress: b.rules(p.Policy.InboundRules), Egress: b.rules(p.Policy.OutboundRules),
		}
	}
	for name, p := range s.profiles {
		if name == denyProfile { // no profile of Wayleave
			want := []dataplane.Rule{{Action: policy.Deny}}
			in, eg := b.rules(p.InboundRules), b.rules(p.OutboundRules)
			b.check(reflect.DeepEqual([][]dataplane.Rule{want, want}, [][]dataplane.Rule{in, eg}), "rules of %s", name)
			continue
		}
		out.Profiles[name] = &dataplane.Profile{Ingress: b.rules(p.InboundRules), Egress: b.rules(p.OutboundRules)}
	}
	for id, e := range s.workloads {
		out.Endpoints[keyOf(policy.KindWorkloadEndpoint, id)] = b.endpoint(s.kinds, e)
	}
	for id, e := range s.hosts {
		out.HostEndpoints[keyOf(policy.KindHostEndpoint, id)] = b.host(s.kinds, e)
	}
	s.backNetwork(b, out)
	return out, errors.Join(b.errs...)
}

func keyOf(kind policy.Kind, id string) policy.Key {
	if namespace, name, ok := strings.Cut(id, "/"); ok {
		return policy.Key{Kind: kind, Namespace: namespace, Name: name}
	}
	return policy.Key{Kind: kind, Name: id}
}

func (b *backwards) policyKey(kinds bool, id *felixpb.PolicyID) policy.Key {
	if kinds {
		prefix := map[string]string{
			"KubernetesNetworkPolicy": "knp.default.", "KubernetesClusterNetworkPolicy": "kcnp.",
		}[id.Kind]
		return policy.Key{Kind: policy.KindPolicy, Namespace: id.Namespace, Name: prefix + id.Name}
	}
	return keyOf(policy.KindPolicy, id.Name)
}

func (b *backwards) rules(list []*felixpb.Rule) (out []dataplane.Rule) {
	for _, r := range list {
		rule := dataplane.Rule{
			ID: r.RuleId, IPVersion: int(r.IpVersion),
			Protocol: b.protocol(r.Protocol), NotProtocol: b.protocol(r.NotProtocol),
			Source: dataplane.Match{
				Nets: b.prefixes(r.SrcNet), NotNets: b.prefixes(r.NotSrcNet), Sets: setIDs(r.SrcIpSetIds),
				NotSets: setIDs(r.NotSrcIpSetIds), Ports: portsOf(r.SrcPorts), NotPorts: portsOf(r.NotSrcPorts),
				PortSets: setIDs(r.SrcNamedPortIpSetIds), NotPortSets: setIDs(r.NotSrcNamedPortIpSetIds),
			},
			Destination: dataplane.Match{
				Nets: b.prefixes(r.DstNet), NotNets: b.prefixes(r.NotDstNet), Sets: setIDs(r.DstIpSetIds),
				NotSets: setIDs(r.NotDstIpSetIds), Ports: portsOf(r.DstPorts), NotPorts: portsOf(r.NotDstPorts),
				PortSets:    setIDs(append(r.DstNamedPortIpSetIds, r.DstIpPortSetIds...)),
				NotPortSets: setIDs(r.NotDstNamedPortIpSetIds),
			},
		}
		rule.Action = map[string]policy.Action{
			"allow": policy.Allow, "deny": policy.Deny, "next-tier": policy.Pass, "log": policy.Log,
		}[r.Action]
		switch m := r.Icmp.(type) {
		case *felixpb.Rule_IcmpType:
			rule.ICMP = icmpOf(m.IcmpType, nil)
		case *felixpb.Rule_IcmpTypeCode:
			rule.ICMP = icmpOf(m.IcmpTypeCode.Type, &m.IcmpTypeCode.Code)
		}
		switch m := r.NotIcmp.(type) {
		case *felixpb.Rule_NotIcmpType:
			rule.NotICMP = icmpOf(m.NotIcmpType, nil)
		case *felixpb.Rule_NotIcmpTypeCode:
			rule.NotICMP = icmpOf(m.NotIcmpTypeCode.Type, &m.NotIcmpTypeCode.Code)
		}
		out = append(out, rule)
	}
	return out
}

func icmpOf(typ int32, code *int32) *policy.ICMP {
	t := int(typ)
	i := &policy.ICMP{Type: &t}
	if code != nil {
		c := int(*code)
		i.Code = &c
	}
	return i
}

func (b *backwards) protocol(p *felixpb.Protocol) policy.Protocol {
	if p == nil {
		return 0
	}
	n := numberOf(p)
	b.check(n > 0 && n < 256, "protocol %v", p)
	return policy.Protocol(n)
}

func (b *backwards) prefixes(list []string) (out []netip.Prefix) {
	for _, text := range list {
		out = append(out, b.prefix(text))
	}
	return out
}

func setIDs(list []string) (out []dataplane.IPSetID) {
	for _, id := range list {
		out = append(out, dataplane.IPSetID(id))
	}
	return out
}

func portsOf(list []*felixpb.PortRange) (out []policy.Port) {
	for _, r := range list {
		out = append(out, policy.Port{First: uint16(r.First), Last: uint16(r.Last)})
	}
	return out
}

func (b *backwards) tiers(kinds bool, list []*felixpb.TierInfo) (ingress, egress []dataplane.TierPolicies) {
	for _, info := range list {
		for _, dir := range []struct {
			refs [][]byte
			to   *[]dataplane.TierPolicies
		}{{info.IngressPolicies, &ingress}, {info.EgressPolicies, &egress}} {
			if len(dir.refs) == 0 {
				continue
			}
			tier := dataplane.TierPolicies{Tier: info.Name, DefaultAction: policy.Action(info.DefaultAction)}
			for _, ref := range dir.refs {
				id := &felixpb.PolicyID{Name: string(ref)}
				if kinds {
					b.check(proto.Unmarshal(ref, id) == nil, "reference %q", ref)
				}
				tier.Policies = append(tier.Policies, b.policyKey(kinds, id))
			}
			*dir.to = append(*dir.to, tier)
		}
	}
	return ingress, egress
}

func (b *backwards) endpoint(kinds bool, e *felixpb.WorkloadEndpoint) *dataplane.Endpoint {
	profiles, last := e.ProfileIds, len(e.ProfileIds)-1
	if last < 0 || profiles[last] != denyProfile {
		b.check(false, "the last profile of %s does not deny everything", e.Name)
	} else {
		profiles = profiles[:last]
	}
	out := &dataplane.Endpoint{
		Interface: e.Name, MAC: e.Mac, Down: e.State == "inactive", Profiles: profiles,
		AllowedSources: b.prefixes(e.AllowSpoofedSourcePrefixes),
	}
	b.check(e.State == "active" || e.State == "inactive", "state %q", e.State)
	for _, text := range append(slices.Clone(e.Ipv4Nets), e.Ipv6Nets...) {
		out.Addresses = append(out.Addresses, b.prefix(text).Addr())
	}
	for _, n := range append(slices.Clone(e.Ipv4Nat), e.Ipv6Nat...) {
		out.NATs = append(out.NATs, policy.IPNAT{ExternalIP: b.addr(n.ExtIp), InternalIP: b.addr(n.IntIp)})
	}
	out.Ingress, out.Egress = b.tiers(kinds, e.Tiers)
	return out
}

func (b *backwards) host(kinds bool, e *felixpb.HostEndpoint) *dataplane.HostEndpoint {
	out := &dataplane.HostEndpoint{Interface: e.Name, Profiles: e.ProfileIds}
	for _, text := range append(slices.Clone(e.ExpectedIpv4Addrs), e.ExpectedIpv6Addrs...) {
		out.Addresses = append(out.Addresses, b.addr(text))
	}
	out.Ingress, out.Egress = b.tiers(kinds, e.Tiers)
	out.ForwardIngress, out.ForwardEgress = b.tiers(kinds, e.ForwardTiers)
	out.UntrackedIngress, out.UntrackedEgress = b.tiers(kinds, e.UntrackedTiers)
	var egress []dataplane.TierPolicies
	out.PreDNATIngress, egress = b.tiers(kinds, e.PreDnatTiers)
	b.check(len(egress) == 0, "a pre-DNAT policy of egress")
	return out
}

// backNetwork translates the other objects.
func (s *felixState) backNetwork(b *backwards, out dptest.State) {
	for _, r := range s.routes {
		route := b.route(s.kinds, r)
		out.Routes[route.Dst] = route
	}
	for node, v := range s.vteps {
		for _, t := range []dataplane.Tunnel{
			{Node: node, IPVersion: 4, MAC: v.Mac}, {Node: node, IPVersion: 6, MAC: v.MacV6},
		} {
			addr, parent := v.Ipv4Addr, v.ParentDeviceIp
			if t.IPVersion == 6 {
				addr, parent = v.Ipv6Addr, v.ParentDeviceIpv6
			}
			if addr != "" {
				t.Address, t.ParentAddress = b.addr(addr), b.addr(parent)
				out.Tunnels[t.Key()] = &t
			}
		}
	}
	for name, n := range s.nodes {
		node := &dataplane.Node{Name: name, Labels: n.GetLabels()}
		v4, v6 := "", ""
		if text := n.GetIpv4Addr(); text != "" {
			node.Addresses = append(node.Addresses, b.prefix(text))
			v4 = b.prefix(text).Addr().String()
		}
		if text := n.GetIpv6Addr(); text != "" {
			node.Addresses = append(node.Addresses, b.prefix(text))
			v6 = b.prefix(text).Addr().String()
		}
		out.Nodes[name] = node
		b.check(s.kinds || s.hosts4[name] == v4 && s.hosts6[name] == v6, "the messages of node %s differ", name)
	}
	for _, names := range [][]string{slices.Collect(maps.Keys(s.hosts4)), slices.Collect(maps.Keys(s.hosts6))} {
		for _, name := range names {
			b.check(s.nodes[name] != nil, "node %s was not removed", name)
		}
	}
	s.backPools(b, out)
	for name, labels := range s.namespaces {
		out.Namespaces[name] = &dataplane.Namespace{Name: name, Labels: labels}
	}
	for id, labels := range s.accounts {
		key := dataplane.ServiceAccountKey{Namespace: id[0], Name: id[1]}
		out.ServiceAccounts[key] = &dataplane.ServiceAccount{Key: key, Labels: labels}
	}
}

func (s *felixState) backPools(b *backwards, out dptest.State) {
	want := &felixpb.Encapsulation{}
	for id, p := range s.pools {
		b.check(id == strings.Replace(p.Cidr, "/", "-", 1), "id %s of pool %s", id, p.Cidr)
		pool := &dataplane.Pool{Name: p.Cidr, CIDR: b.prefix(p.Cidr), NATOutgoing: p.Masquerade}
		var known bool
		pool.Type, known = map[[2]string]dataplane.PoolType{
			{"", ""}: dataplane.PoolDirect, {"always", ""}: dataplane.PoolIPIP,
			{"cross-subnet", ""}: dataplane.PoolIPIPCrossSubnet,
			{"", "always"}:       dataplane.PoolVXLAN, {"", "cross-subnet"}: dataplane.PoolVXLANCrossSubnet,
		}[[2]string{p.IpipMode, p.VxlanMode}]
		b.check(known, "modes of pool %s", id)
		out.Pools[pool.Name] = pool
		want.IpipEnabled = want.IpipEnabled || p.IpipMode != ""
		want.VxlanEnabled = want.VxlanEnabled || p.VxlanMode != "" && pool.CIDR.Addr().Is4()
		want.VxlanEnabledV6 = want.VxlanEnabledV6 || p.VxlanMode != "" && pool.CIDR.Addr().Is6()
		want.NoEncapEnabled = want.NoEncapEnabled || p.IpipMode+p.VxlanMode == ""
	}
	b.check(!s.inSync || proto.Equal(s.encapsulation, want), "encapsulation %v, want %v", s.encapsulation, want)
}

func (b *backwards) route(kinds bool, r *felixpb.RouteUpdate) *dataplane.Route {
	out := &dataplane.Route{
		Dst: b.prefix(r.Dst), Node: r.DstNodeName, SameSubnet: r.SameSubnet,
		Borrowed: r.Borrowed, NATOutgoing: r.NatOutgoing,
		Pool: map[felixpb.IPPoolType]dataplane.PoolType{
			felixpb.IPPoolType_NO_ENCAP: dataplane.PoolDirect, felixpb.IPPoolType_VXLAN: dataplane.PoolVXLAN,
			felixpb.IPPoolType_IPIP: dataplane.PoolIPIP,
		}[r.IpPoolType],
	}
	if r.DstNodeIp != "" {
		out.NodeAddress = b.addr(r.DstNodeIp)
	}
	types := []dataplane.RouteType{
		dataplane.RoutePool, dataplane.RouteRemoteWorkload, dataplane.RouteRemoteHost, dataplane.RouteBlackhole,
		dataplane.RouteLocalHost, dataplane.RouteRemoteTunnel, dataplane.RouteLocalTunnel,
	}
	number := slices.Index([]int32{0, 1, 2, 4, 8, 16, 32}, r.Types)
	if number < 0 {
		b.check(false, "types %d", r.Types)
		return out
	}
	out.Type = types[number]
	b.check(kinds && r.Type == 0 || !kinds && int(r.Type) == number, "type %v and types %d", r.Type, r.Types)
	if r.LocalWorkload {
		b.check(out.Type == dataplane.RouteBlackhole, "a local workload of type %v", r.Type)
		out.Type = dataplane.RouteLocalWorkload
	}
	tunnel := out.Type == dataplane.RouteLocalTunnel || out.Type == dataplane.RouteRemoteTunnel
	b.check(tunnel == (r.TunnelType != nil) && r.TunnelType.GetVxlan() == (tunnel && out.Pool == dataplane.PoolVXLAN) &&
		r.TunnelType.GetIpip() == (tunnel && out.Pool == dataplane.PoolIPIP), "type of tunnel %v", r.TunnelType)
	return out
}
