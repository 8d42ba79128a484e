// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/policy"
)

// The constant parts of a workload endpoint's identity. Felix uses them for pods.
const (
	orchestrator = "k8s"
	interfaceID  = "eth0"
)

func workloadID(key policy.Key) *felixpb.WorkloadEndpointID {
	return &felixpb.WorkloadEndpointID{OrchestratorId: orchestrator, WorkloadId: join(key), EndpointId: interfaceID}
}

func hostID(key policy.Key) *felixpb.HostEndpointID {
	return &felixpb.HostEndpointID{EndpointId: join(key)}
}

// Workload returns the key of the workload endpoint that id identifies. It also returns whether the
// orchestrator is "k8s" and the endpoint ID is "eth0", as in every id that this package sends.
func Workload(id *felixpb.WorkloadEndpointID) (policy.Key, bool) {
	ok := id.GetOrchestratorId() == orchestrator && id.GetEndpointId() == interfaceID
	return split(policy.KindWorkloadEndpoint, id.GetWorkloadId()), ok
}

// Host returns the key of the host endpoint that id identifies.
func Host(id *felixpb.HostEndpointID) policy.Key {
	return split(policy.KindHostEndpoint, id.GetEndpointId())
}

// sendEndpoint sends a workload endpoint. Its last profile is DenyProfile, because drivers may
// allow what neither a policy nor a profile decides. For an endpoint that must be down or is at
// fault, DenyProfile is the only profile, because drivers may ignore the state.
func (t *Translator) sendEndpoint(key policy.Key, e *dataplane.Endpoint) {
	t.requireDenyProfile()
	tiers, problems := t.tiers(e.Ingress, e.Egress)
	t.fault(key, problems)
	msg := &felixpb.WorkloadEndpoint{
		State: "inactive", Name: e.Interface, Mac: e.MAC, ProfileIds: []string{DenyProfile},
		AllowSpoofedSourcePrefixes: text(e.AllowedSources),
	}
	if !e.Down && len(problems) == 0 {
		msg.State, msg.Tiers, msg.ProfileIds = "active", tiers, append(slices.Clone(e.Profiles), DenyProfile)
	}
	for _, a := range e.Addresses {
		list := &msg.Ipv6Nets
		if a.Is4() {
			list = &msg.Ipv4Nets
		}
		*list = append(*list, netip.PrefixFrom(a, a.BitLen()).String())
	}
	for _, n := range e.NATs {
		list := &msg.Ipv6Nat
		if n.ExternalIP.Is4() {
			list = &msg.Ipv4Nat
		}
		*list = append(*list, &felixpb.NatInfo{ExtIp: n.ExternalIP.String(), IntIp: n.InternalIP.String()})
	}
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_WorkloadEndpointUpdate{
		WorkloadEndpointUpdate: &felixpb.WorkloadEndpointUpdate{Id: workloadID(key), Endpoint: msg},
	}})
}

func (t *Translator) removeEndpoint(key policy.Key) {
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_WorkloadEndpointRemove{
		WorkloadEndpointRemove: &felixpb.WorkloadEndpointRemove{Id: workloadID(key)},
	}})
}

// sendHost sends a host endpoint. Without a policy or a profile, drivers deny traffic of the host.
// DenyProfile is not in its profiles: VPP applies them to forwarded traffic, too, which passes
// without a policy.
func (t *Translator) sendHost(key policy.Key, h *dataplane.HostEndpoint) {
	msg := &felixpb.HostEndpoint{Name: h.Interface, ProfileIds: h.Profiles}
	for _, a := range h.Addresses {
		list := &msg.ExpectedIpv6Addrs
		if a.Is4() {
			list = &msg.ExpectedIpv4Addrs
		}
		*list = append(*list, a.String())
	}
	var problems []error
	for _, stage := range []struct {
		to              *[]*felixpb.TierInfo
		ingress, egress []dataplane.TierPolicies
	}{
		{&msg.Tiers, h.Ingress, h.Egress},
		{&msg.ForwardTiers, h.ForwardIngress, h.ForwardEgress},
		{&msg.UntrackedTiers, h.UntrackedIngress, h.UntrackedEgress},
		{&msg.PreDnatTiers, h.PreDNATIngress, nil},
	} {
		tiers, missing := t.tiers(stage.ingress, stage.egress)
		*stage.to, problems = tiers, append(problems, missing...)
	}
	t.fault(key, problems)
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostEndpointUpdate{
		HostEndpointUpdate: &felixpb.HostEndpointUpdate{Id: hostID(key), Endpoint: msg},
	}})
}

func (t *Translator) removeHost(key policy.Key) {
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_HostEndpointRemove{
		HostEndpointRemove: &felixpb.HostEndpointRemove{Id: hostID(key)},
	}})
}

// tiers merges the tiers of both directions into one list, which keeps the order of each direction.
// A tier of both directions occurs twice in it if the orders or the default actions differ.
func (t *Translator) tiers(ingress, egress []dataplane.TierPolicies) (out []*felixpb.TierInfo, problems []error) {
	add := func(in, eg *dataplane.TierPolicies) {
		info, missing := t.tier(in, eg)
		problems = append(problems, missing...)
		if len(info.IngressPolicies)+len(info.EgressPolicies) > 0 {
			out = append(out, info)
		}
	}
	for i := range ingress {
		in := &ingress[i]
		same := slices.IndexFunc(egress, func(eg dataplane.TierPolicies) bool {
			return eg.Tier == in.Tier && eg.DefaultAction == in.DefaultAction
		})
		if same < 0 {
			add(in, nil)
			continue
		}
		for j := range egress[:same] {
			add(nil, &egress[j])
		}
		add(in, &egress[same])
		egress = egress[same+1:]
	}
	for j := range egress {
		add(nil, &egress[j])
	}
	return out, problems
}

// tier translates a tier of one or both directions, without staged policies. If it cannot refer to
// a policy, it sets the default action Deny.
func (t *Translator) tier(in, eg *dataplane.TierPolicies) (*felixpb.TierInfo, []error) {
	var problems []error
	info := &felixpb.TierInfo{}
	for _, dir := range []struct {
		from *dataplane.TierPolicies
		to   *[][]byte
	}{{in, &info.IngressPolicies}, {eg, &info.EgressPolicies}} {
		if dir.from == nil {
			continue
		}
		info.Name, info.DefaultAction = dir.from.Tier, string(policy.Deny)
		if dir.from.DefaultAction == policy.Pass {
			info.DefaultAction = string(policy.Pass)
		}
		for _, key := range dir.from.Policies {
			p := t.policy.policies[key]
			switch {
			case p == nil:
				problems = append(problems, fmt.Errorf("%s does not exist", key))
			case p.Staged:
				continue
			case t.dialect == Tiers && p.Tier != dir.from.Tier:
				problems = append(problems, fmt.Errorf("%s is in tier %s, not in %s", key, p.Tier, dir.from.Tier))
			}
			*dir.to = append(*dir.to, t.reference(key))
		}
	}
	if len(problems) > 0 {
		info.DefaultAction = string(policy.Deny)
	}
	return info, problems
}

// reference returns how a tier refers to a policy.
func (t *Translator) reference(key policy.Key) []byte {
	if t.dialect == Tiers {
		return []byte(join(key))
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(kindID(key))
	if err != nil {
		return nil // the name is not valid UTF-8, so no policy has it
	}
	return data
}
