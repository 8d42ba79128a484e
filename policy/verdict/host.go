// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// passage is the way of one flow through one node.
type passage struct {
	judge
	from, to end
	// before is the packet as it is before destination NAT, after what it is then.
	before, after *packet
	// accepted means that an untracked or pre-DNAT policy has let the packet in: the
	// host endpoint that it came in by no longer applies (S122).
	accepted bool
	// state of the connection: none for what an untracked policy has let through.
	state  State
	stages []*Direction
}

// pass judges a flow at its node.
func (j judge) pass(f Flow) ([]*Direction, error) {
	p := &passage{judge: j}
	var err error
	if p.from, err = j.e.enters(f); err != nil {
		return nil, err
	}
	if p.to, err = j.e.leaves(f); err != nil {
		return nil, err
	}
	p.before, p.after = j.packet(f.beforeNAT()), j.packet(f)
	from, to := p.from, p.to
	if from.own() && to.own() || from.workload != nil && from.workload == to.workload && !f.translated() {
		return nil, nil // it does not leave the host, or the workload (S103)
	}
	p.state = f.stateAt(from.workload)
	if !from.own() {
		p.comeIn()
		p.checkEncapsulation()
	}
	if p.state == StateEstablished { // the receiver is not known before
		p.state = f.stateAt(from.workload, to.workload)
	}
	switch {
	case from.workload != nil:
		p.workload(StageWorkload, policy.Egress, from.workload)
	case from.own() && to.workload == nil:
		p.goOut()
	}
	switch {
	case to.own() && from.workload != nil:
		p.toHost()
	case to.own() && !p.accepted:
		p.hostEndpoint(StageHost, policy.Ingress, from, normal, p.after)
	case from.own() && to.workload != nil:
		p.fromHost()
	case !to.own() && !from.own():
		p.forward()
	}
	return p.stages, nil
}

// comeIn is what happens to every packet that enters the node, before it is known where it goes:
// untracked policy, of host interfaces alone, and pre-DNAT policy, where the host endpoint for all
// interfaces applies to what workloads send, too (S105).
func (p *passage) comeIn() {
	if p.from.iface != "" {
		d := p.hostEndpoint(StageUntracked, policy.Ingress, p.from, untracked, p.before)
		p.notTracked(d)
	}
	if !p.accepted && p.state != StateEstablished {
		d := p.hostEndpoint(StagePreDNAT, policy.Ingress, p.from, preDNAT, p.before)
		p.accepted = d != nil && d.Outcome == Allow
	}
}

// checkEncapsulation denies encapsulated packets to the node itself whose source is no address of a node.
func (p *passage) checkEncapsulation() {
	if !p.to.own() || p.from.iface == loopback || p.e.nodeAddresses[p.after.Src] {
		return
	}
	for _, c := range p.e.host.NodeEncapsulations() {
		if c.Carries(p.after.Protocol, p.after.DstPort) {
			p.stages = append(p.stages, &Direction{
				Stage: StageEncapsulation, Type: policy.Ingress, Outcome: Deny,
				Decision: Decision{By: ByEncapsulationSource, Detail: c.Name},
			})
		}
	}
}

// goOut judges what the node's own processes send through a host interface.
func (p *passage) goOut() {
	d := p.hostEndpoint(StageUntracked, policy.Egress, p.to, untracked, p.before)
	p.notTracked(d)
	if !p.accepted {
		p.hostEndpoint(StageHost, policy.Egress, p.to, normal, p.after)
	}
}

// notTracked notes that untracked policy has let the packet through, whose connection is
// then unknown. It is not translated either, so one that was cannot exist.
func (p *passage) notTracked(d *Direction) {
	if d == nil {
		return
	}
	if d.Outcome == Allow {
		p.accepted, p.state = true, StateNew
	}
	if p.after.translated() {
		refuse(&d.Outcome, &d.Decision)
		refuse(&d.IfStagedEnforced, &d.IfStagedDecision)
	}
}

// refuse makes what untracked policy allows a flow that cannot exist.
func refuse(o *Outcome, by *Decision) {
	if *o == Allow {
		*o, by.By, by.Detail = Deny, ByInvalidFlow, "what an untracked policy lets through is not translated"
	}
}

// forward judges what goes on through the node: the host endpoints at both interfaces, by their
// apply-on-forward policy, and the workload that receives. The host endpoint for all interfaces
// stands at those of workloads too (S110).
func (p *passage) forward() {
	if !p.accepted {
		p.hostEndpoint(StageForward, policy.Ingress, p.from, forward, p.after)
	}
	p.hostEndpoint(StageForward, policy.Egress, p.to, forward, p.after)
	if p.to.workload != nil {
		p.workload(StageWorkload, policy.Ingress, p.to.workload)
	}
}

// toHost judges what a workload sends to its node, after its egress policy.
func (p *passage) toHost() {
	d := &Direction{Stage: StageEndpointToHost, Type: policy.Ingress, Endpoint: p.from.workload.key}
	p.stages = append(p.stages, d)
	p.hostAction(d, p.e.host.EndpointToHostAction)
}

// fromHost judges what the node's own processes send to a workload on it (S104).
func (p *passage) fromHost() {
	action := p.e.host.HostToEndpointAction
	if action == policy.HostReturn {
		p.workload(StageWorkload, policy.Ingress, p.to.workload)
		return
	}
	d := &Direction{Stage: StageHostToEndpoint, Type: policy.Ingress, Endpoint: p.to.workload.key}
	p.stages = append(p.stages, d)
	if p.to.workload.down() {
		d.Outcome, d.Decision = Deny, Decision{By: ByAdminState}
		return
	}
	p.hostAction(d, action)
}

// hostAction decides by a setting. Dropping does not end connections that were let through.
func (p *passage) hostAction(d *Direction, action policy.HostAction) {
	switch {
	case action == policy.HostAccept:
		d.Outcome, d.Decision = Allow, Decision{By: BySetting}
	case action == policy.HostReturn:
		d.Outcome, d.Decision = NotApplicable, Decision{By: BySetting}
	case p.state == StateEstablished:
		d.Outcome, d.Decision = Allow, Decision{By: ByEstablished}
	default:
		d.Outcome, d.Decision = Deny, Decision{By: BySetting}
	}
}

// workload adds the judgement of a workload endpoint's policy.
func (p *passage) workload(s Stage, dir policy.Type, o *object) {
	d := p.direction(walk{packet: p.after, endpoint: o, atNode: true, state: p.state}, dir)
	d.Stage = s
	p.stages = append(p.stages, d)
}

// hostEndpoint adds the judgement of one list of a host endpoint's policies, and returns it, or nil
// where there is no host endpoint or nothing of that kind to judge by.
func (p *passage) hostEndpoint(s Stage, dir policy.Type, at end, l policyList, packet *packet) *Direction {
	if at.host == nil {
		return nil
	}
	w := walk{packet: packet, endpoint: at.host, list: l, atNode: true, state: p.state, ungoverned: NotApplicable}
	if l == forward && at.workload == nil {
		w.ungoverned = Allow // S109
	}
	if l != forward && p.from.workload == nil { // S111
		w.failsafe = p.e.nodes[p.after.Node].holds(localAddr(dir, packet))
	}
	d := p.direction(w, dir)
	if d.Outcome == NotApplicable && d.Decision.By == ByNoPolicy && len(d.Tiers) == 0 {
		return nil
	}
	d.Stage = s
	p.stages = append(p.stages, d)
	return d
}

// localAddr is the address of the packet on the host's side.
func localAddr(dir policy.Type, p *packet) netip.Addr {
	if dir == policy.Egress {
		return p.Src
	}
	return p.Dst
}

// failsafePort returns the failsafe port that the packet is for or, where untracked policy sees
// each direction of a connection by itself, that it comes from (S114).
func (w *walk) failsafePort() (policy.Failsafe, bool) {
	p := w.packet
	peer, out, back := p.Src, w.e.host.FailsafeInbound, w.e.host.FailsafeOutbound
	if w.to.Type == policy.Egress {
		peer, out, back = p.Dst, back, out
	}
	match := func(list []policy.Failsafe, port uint16) (policy.Failsafe, bool) {
		for _, f := range list {
			if f.Protocol == p.Protocol && f.Port == port && (!f.Net.IsValid() || f.Net.Contains(peer)) {
				return f, true
			}
		}
		return policy.Failsafe{}, false
	}
	if f, ok := match(out, p.DstPort); ok {
		return f, true
	}
	if w.list == untracked {
		return match(back, p.SrcPort)
	}
	return policy.Failsafe{}, false
}
