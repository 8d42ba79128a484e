// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// traversal is the evaluation of a flow on its way through a node.
type traversal struct {
	evaluation
	from, to end
	// before is the packet before destination NAT, and after the packet after it.
	before, after *packet
	// accepted means that an untracked or pre-DNAT policy has allowed the packet: the host endpoint
	// at which it entered no longer applies (S122).
	accepted bool
	// state is the connection tracking state. It is StateNew if an untracked policy has allowed the
	// packet.
	state  State
	stages []*Direction
}

// stages evaluates a flow at its node.
func (v evaluation) stages(f Flow) ([]*Direction, error) {
	p := &traversal{evaluation: v}
	var err error
	if p.from, err = v.e.entry(f); err != nil {
		return nil, err
	}
	if p.to, err = v.e.exit(f); err != nil {
		return nil, err
	}
	p.before, p.after = v.packet(f.beforeNAT()), v.packet(f)
	from, to := p.from, p.to
	if from.isProcess() && to.isProcess() || from.workload != nil && from.workload == to.workload && !f.translated() {
		return nil, nil // it does not leave the host or the workload (S103)
	}
	p.state = f.stateAt(from.workload)
	if !from.isProcess() {
		p.evalIncoming()
		p.checkEncapsulation()
	}
	if p.state == StateEstablished { // before this point, the receiver is unknown
		p.state = f.stateAt(from.workload, to.workload)
	}
	switch {
	case from.workload != nil:
		p.evalWorkload(StageWorkload, policy.Egress, from.workload)
	case from.isProcess() && to.workload == nil:
		p.evalOutgoing()
	}
	switch {
	case to.isProcess() && from.workload != nil:
		p.evalToHost()
	case to.isProcess() && !p.accepted:
		p.evalHostEndpoint(StageHost, policy.Ingress, from, normal, p.after)
	case from.isProcess() && to.workload != nil:
		p.evalFromHost()
	case !to.isProcess() && !from.isProcess():
		p.evalForwarded()
	}
	return p.stages, nil
}

// evalIncoming evaluates the stages of a packet that enters the node, before its destination is
// known: untracked policy, of host interfaces only, and pre-DNAT policy. The host endpoint for all
// interfaces has pre-DNAT policy for packets from workloads, too (S105).
func (p *traversal) evalIncoming() {
	if p.from.iface != "" {
		d := p.evalHostEndpoint(StageUntracked, policy.Ingress, p.from, untracked, p.before)
		p.markUntracked(d)
	}
	if !p.accepted && p.state != StateEstablished {
		d := p.evalHostEndpoint(StagePreDNAT, policy.Ingress, p.from, preDNAT, p.before)
		p.accepted = d != nil && d.Outcome == Allow
	}
}

// checkEncapsulation denies encapsulated packets to the node itself whose source is not an address
// of a node.
func (p *traversal) checkEncapsulation() {
	if !p.to.isProcess() || p.from.iface == loopback || p.e.nodeAddresses[p.after.Src] {
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

// evalOutgoing evaluates a packet from the node's own processes to a host interface.
func (p *traversal) evalOutgoing() {
	d := p.evalHostEndpoint(StageUntracked, policy.Egress, p.to, untracked, p.before)
	p.markUntracked(d)
	if !p.accepted {
		p.evalHostEndpoint(StageHost, policy.Egress, p.to, normal, p.after)
	}
}

// markUntracked marks the packet as untracked if untracked policy has allowed it. Its connection
// then has no state. NAT does not translate untracked packets, so a translated one cannot exist.
func (p *traversal) markUntracked(d *Direction) {
	if d == nil {
		return
	}
	if d.Outcome == Allow {
		p.accepted, p.state = true, StateNew
	}
	if p.after.translated() {
		makeInvalid(&d.Outcome, &d.Decision)
		makeInvalid(&d.IfStagedEnforced, &d.IfStagedDecision)
	}
}

// makeInvalid changes Allow to Deny, because the flow cannot exist.
func makeInvalid(o *Outcome, by *Decision) {
	if *o == Allow {
		*o, by.By, by.Detail = Deny, ByInvalidFlow, "a packet that an untracked policy allows is not translated"
	}
}

// evalForwarded evaluates forwarded packets: the apply-on-forward policy of the host endpoints at
// both interfaces, and the ingress policy of the workload. The host endpoint for all interfaces
// applies at interfaces of workloads, too (S110).
func (p *traversal) evalForwarded() {
	if !p.accepted {
		p.evalHostEndpoint(StageForward, policy.Ingress, p.from, forward, p.after)
	}
	p.evalHostEndpoint(StageForward, policy.Egress, p.to, forward, p.after)
	if p.to.workload != nil {
		p.evalWorkload(StageWorkload, policy.Ingress, p.to.workload)
	}
}

// evalToHost evaluates a packet from a workload to its node, after the egress policy.
func (p *traversal) evalToHost() {
	d := &Direction{Stage: StageEndpointToHost, Type: policy.Ingress, Endpoint: p.from.workload.key}
	p.stages = append(p.stages, d)
	p.hostAction(d, p.e.host.EndpointToHostAction)
}

// evalFromHost evaluates a packet from the node's own processes to a workload of the node (S104).
func (p *traversal) evalFromHost() {
	action := p.e.host.HostToEndpointAction
	if action == policy.HostReturn {
		p.evalWorkload(StageWorkload, policy.Ingress, p.to.workload)
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

// hostAction decides by a setting. HostDrop does not end established connections.
func (p *traversal) hostAction(d *Direction, action policy.HostAction) {
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

// evalWorkload evaluates the policy of a workload endpoint and adds the stage.
func (p *traversal) evalWorkload(s Stage, dir policy.Type, o *object) {
	d := p.direction(walk{packet: p.after, endpoint: o, atNode: true, state: p.state}, dir)
	d.Stage = s
	p.stages = append(p.stages, d)
}

// evalHostEndpoint evaluates one list of a host endpoint's policies, adds the stage and returns it.
// It returns nil if there is no host endpoint, or no policy in the list.
func (p *traversal) evalHostEndpoint(s Stage, dir policy.Type, at end, l policyList, packet *packet) *Direction {
	if at.host == nil {
		return nil
	}
	w := walk{packet: packet, endpoint: at.host, list: l, atNode: true, state: p.state, noPolicyOutcome: NotApplicable}
	if l == forward && at.workload == nil {
		w.noPolicyOutcome = Allow // S109
	}
	if l != forward && p.from.workload == nil { // S111
		w.failsafe = p.e.nodes[p.after.Node].hasAddress(localAddr(dir, packet))
	}
	d := p.direction(w, dir)
	if d.Outcome == NotApplicable && d.Decision.By == ByNoPolicy && len(d.Tiers) == 0 {
		return nil
	}
	d.Stage = s
	p.stages = append(p.stages, d)
	return d
}

// localAddr returns the address on the host's side.
func localAddr(dir policy.Type, p *packet) netip.Addr {
	if dir == policy.Egress {
		return p.Src
	}
	return p.Dst
}

// failsafePort returns the failsafe port that is the packet's destination. Untracked policy
// evaluates each direction of a connection, so there it also returns the failsafe port that is the
// source (S114).
func (w *walk) failsafePort() (policy.Failsafe, bool) {
	p := w.packet
	peer, out, back := p.Src, w.e.host.FailsafeInbound, w.e.host.FailsafeOutbound
	if w.result.Type == policy.Egress {
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
