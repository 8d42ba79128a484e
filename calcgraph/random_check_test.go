// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
	"github.com/wayleave/wayleave/selector"
)

// valid returns the admitted resources of one kind.
func valid[R policy.Resource](world verdict.World) []R {
	var out []R
	for _, key := range slices.SortedFunc(maps.Keys(world), policy.Key.Compare) {
		admitted, _ := policy.Update{Key: key, Resource: world[key]}.Admit()
		if r, ok := admitted.(R); ok {
			out = append(out, r)
		}
	}
	return out
}

// forWorkloads returns a world with the same meaning for workloads, but without host endpoints, and
// without policies for host endpoints only. Host endpoints become workload endpoints of another
// node. If services is set, forWorkloads also replaces the rules that have services.
func forWorkloads(world verdict.World, services bool) verdict.World {
	out := verdict.World{}
	for key, r := range world {
		switch key.Kind {
		case policy.KindHostEndpoint, policy.KindPolicy, policy.KindStagedPolicy:
		default:
			out[key] = r
		}
	}
	for _, h := range valid[*policy.HostEndpoint](world) {
		out.Set(&policy.WorkloadEndpoint{
			Name: "host-" + h.Name, Node: "elsewhere", Interface: "eth0",
			Labels: h.Labels, Addresses: h.ExpectedIPs, Ports: h.Ports, Profiles: h.Profiles,
		})
	}
	parts := valid[*policy.ServiceBackends](world)
	for _, p := range valid[*policy.Policy](world) {
		if p.DoNotTrack || p.PreDNAT {
			continue // S40
		}
		c := *p
		c.Types = nil
		for _, dir := range []policy.Type{policy.Ingress, policy.Egress} {
			if p.AppliesTo(dir) {
				c.Types = append(c.Types, dir)
			}
		}
		if services {
			c.Ingress, c.Egress = writtenOut(p.Namespace, p.Ingress, parts), writtenOut(p.Namespace, p.Egress, parts)
		}
		out.Set(&c)
	}
	return out
}

// writtenOut replaces rules with services by rules with the addresses and ports of their backends
// (S77).
func writtenOut(namespace string, rules []policy.Rule, parts []*policy.ServiceBackends) []policy.Rule {
	var out []policy.Rule
	for _, r := range rules {
		service, side := r.Source.Services, &r.Source
		if r.Destination.Services != nil {
			service, side = r.Destination.Services, &r.Destination
		}
		if service == nil {
			out = append(out, r)
			continue
		}
		side.Services = nil
		for _, part := range parts {
			if part.Namespace != cmp.Or(service.Namespace, namespace) || part.Service != service.Name {
				continue
			}
			for _, addr := range part.Addresses {
				side.Nets = policy.Nets{netip.PrefixFrom(addr, addr.BitLen())}
				if side == &r.Source {
					out = append(out, r)
					continue
				}
				for _, port := range part.Ports {
					if r.Protocol == 0 || r.Protocol == port.Protocol {
						one := r
						one.Protocol, one.Destination.Ports = port.Protocol, []policy.Port{policy.PortNumber(port.Port)}
						out = append(out, one)
					}
				}
			}
		}
	}
	return out
}

// checkVerdicts compares the evaluator with the resolved state in the mirror, for flows between the
// endpoints of this node and all others.
func (r *run) checkVerdicts(flows int) error {
	evaluator, plain := verdict.New(forWorkloads(r.world, false)), verdict.New(forWorkloads(r.world, true))
	state := r.mirror.State()
	local := slices.SortedFunc(maps.Keys(state.Endpoints), policy.Key.Compare)
	if len(local) == 0 {
		return nil
	}
	none := policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "nobody"}
	for range flows {
		pkt := r.gen.Packet()
		from, to := worlds.Pick(r.gen.Generator, local), worlds.Pick(r.gen.Generator, local)
		// Most packets are between addresses of endpoints. The flow names the endpoints, because
		// addresses can be shared.
		pkt.Src = sameFamily(pkt.Src, state.Endpoints[from].Addresses)
		if r.gen.rng.IntN(3) > 0 {
			pkt.Dst = sameFamily(pkt.Dst, state.Endpoints[to].Addresses)
		}
		flow := verdict.Flow{
			SrcEndpoint: from, DstEndpoint: to, Src: pkt.Src, Dst: pkt.Dst, Protocol: pkt.Protocol,
			SrcPort: pkt.SrcPort, DstPort: pkt.DstPort, ICMPType: pkt.ICMPType, ICMPCode: pkt.ICMPCode,
			Header: pkt.Header,
		}
		packet := dptest.Packet{
			From: from, To: to, Src: pkt.Src, Dst: pkt.Dst, Protocol: pkt.Protocol,
			SrcPort: pkt.SrcPort, DstPort: pkt.DstPort, ICMPType: pkt.ICMPType, ICMPCode: pkt.ICMPCode,
			Header: pkt.Header,
		}
		switch r.gen.rng.IntN(5) {
		case 0:
			flow.SrcEndpoint, packet.From = none, policy.Key{}
		case 1:
			flow.DstEndpoint, packet.To = none, policy.Key{}
		}
		want, got := evaluator.Evaluate(flow), state.Judge(packet)
		if outcomes(want) != [2]string{action(got.Egress), action(got.Ingress)} {
			return fmt.Errorf("flow %s\n%s\nmirror: %+v\n%s", flow, evaluator.Explain(flow), got, state)
		}
		if written := plain.Evaluate(flow); outcomes(written) != outcomes(want) {
			return fmt.Errorf("flow %s: another verdict with the services written out\n%s", flow, plain.Explain(flow))
		}
	}
	return nil
}

func outcomes(r verdict.Result) [2]string {
	name := func(o verdict.Outcome) string {
		if o == verdict.NotApplicable {
			return ""
		}
		return string(o)
	}
	return [2]string{name(r.Egress), name(r.Ingress)}
}

func action(d dptest.Decision) string { return string(d.Action) }

// sameFamily returns the first of the addresses that is of the family of addr, or addr.
func sameFamily(addr netip.Addr, addrs []netip.Addr) netip.Addr {
	for _, a := range addrs {
		if a.Is4() == addr.Is4() {
			return a
		}
	}
	return addr
}

// checkHosts compares the host endpoints of the mirror with their definition. It evaluates every
// policy for every host endpoint of the node, and sorts the lists from scratch (S36 to S40).
func (r *run) checkHosts() error {
	want := map[policy.Key]*dataplane.HostEndpoint{}
	for _, h := range valid[*policy.HostEndpoint](r.world) {
		if h.Node != r.node || h.InterfaceName == "" && len(h.ExpectedIPs) == 0 {
			continue
		}
		want[h.Key()] = r.hostEndpoint(h)
	}
	got := r.mirror.State().HostEndpoints
	if !maps.EqualFunc(want, got, (*dataplane.HostEndpoint).Equal) {
		return fmt.Errorf("host endpoints: want %v, not %v", want, got)
	}
	return nil
}

func (r *run) hostEndpoint(h *policy.HostEndpoint) *dataplane.HostEndpoint {
	labels := selector.Map{}
	for i := len(h.Profiles) - 1; i >= 0; i-- {
		for _, p := range valid[*policy.Profile](r.world) {
			if p.Name == h.Profiles[i] {
				maps.Copy(labels, p.LabelsToApply)
			}
		}
	}
	maps.Copy(labels, h.Labels)
	tiers := map[string]*policy.Tier{}
	for _, t := range valid[*policy.Tier](r.world) {
		tiers[t.Name] = t
	}
	var policies []*policy.Policy
	for _, p := range valid[*policy.Policy](r.world) {
		if b, ok := policy.BuiltinTier(p.TierName()); ok {
			tiers[b.Name] = b
		}
		if sel, err := calcgraph.PolicySelector(p); err == nil && sel.Match(labels) {
			policies = append(policies, p)
		}
	}
	slices.SortFunc(policies, func(a, b *policy.Policy) int {
		if c := compareTierNames(tiers, a.TierName(), b.TierName()); c != 0 {
			return c
		}
		return policy.ComparePolicies(a, b)
	})
	list := func(dir policy.Type, pass bool, fits func(p *policy.Policy) bool) []dataplane.TierPolicies {
		return listed(tiers, policies, pass, func(p *policy.Policy) bool { return fits(p) && p.AppliesTo(dir) })
	}
	normal := func(p *policy.Policy) bool { return !p.DoNotTrack && !p.PreDNAT }
	forward := func(p *policy.Policy) bool { return normal(p) && p.ApplyOnForward }
	untracked := func(p *policy.Policy) bool { return p.DoNotTrack }
	return &dataplane.HostEndpoint{
		Interface: h.InterfaceName, Addresses: h.ExpectedIPs, Profiles: h.Profiles,
		Ingress: list(policy.Ingress, false, normal), Egress: list(policy.Egress, false, normal),
		ForwardIngress: list(policy.Ingress, false, forward), ForwardEgress: list(policy.Egress, false, forward),
		UntrackedIngress: list(policy.Ingress, true, untracked), UntrackedEgress: list(policy.Egress, true, untracked),
		PreDNATIngress: list(policy.Ingress, true, func(p *policy.Policy) bool { return p.PreDNAT }),
	}
}

// compareTierNames orders existing tiers first, then the others by name (S9, S10).
func compareTierNames(tiers map[string]*policy.Tier, a, b string) int {
	ta, tb := tiers[a], tiers[b]
	switch {
	case ta != nil && tb != nil:
		return policy.CompareTiers(ta, tb)
	case ta != nil:
		return -1
	case tb != nil:
		return 1
	default:
		return cmp.Compare(a, b)
	}
}

// listed groups the wanted policies of a sorted list by tier.
func listed(
	tiers map[string]*policy.Tier, policies []*policy.Policy, pass bool, fits func(p *policy.Policy) bool,
) []dataplane.TierPolicies {
	var out []dataplane.TierPolicies
	for _, p := range policies {
		if !fits(p) {
			continue
		}
		if len(out) == 0 || out[len(out)-1].Tier != p.TierName() {
			action := tiers[p.TierName()].Action()
			if pass {
				action = policy.Pass
			}
			out = append(out, dataplane.TierPolicies{Tier: p.TierName(), DefaultAction: action})
		}
		last := &out[len(out)-1]
		last.Policies = append(last.Policies, p.Key())
	}
	return out
}
