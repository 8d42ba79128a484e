// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"

	"github.com/wayleave/wayleave/policy"
)

// Stage is a place on a packet's way where policy is evaluated, for example before connection
// tracking. At each stage, a rule that decides about a packet records the decision in the packet's
// priority (skb->priority), and returns. The base chain then acts on the decision: for example, it
// drops a denied packet.
type Stage uint8

// The stages.
const (
	// StageNormal is normal policy: all policy of workloads, and policy of host endpoints for
	// traffic of the host itself and for forwarded traffic.
	StageNormal Stage = iota
	// StageRaw is untracked policy, before connection tracking. Packets that it allows are not
	// tracked.
	StageRaw
	// StagePreDNAT is pre-DNAT policy, before destination NAT.
	StagePreDNAT
	// StageRawRecheck repeats untracked policy at a later place on a packet's way, because no mark
	// records whether untracked policy allowed the packet. StagePreDNATRecheck does the same for
	// pre-DNAT policy, with the original destination from connection tracking. At these stages,
	// rules neither count nor log.
	StageRawRecheck
	StagePreDNATRecheck
	// StageRawDNAT applies untracked policy to packets of the host whose destination was
	// translated. It matches the outgoing interface and the original destination. It can only deny,
	// because such packets are already tracked.
	StageRawDNAT
)

// Name returns the beginning of the names of a stage's chains.
func (s Stage) Name() string {
	switch s {
	case StageRaw:
		return "raw-"
	case StagePreDNAT:
		return "prednat-"
	case StageRawRecheck:
		return "recheck-raw-"
	case StagePreDNATRecheck:
		return "recheck-prednat-"
	case StageRawDNAT:
		return "dnat-raw-"
	default:
		return ""
	}
}

// Recheck reports whether the stage repeats the rules of an earlier stage.
func (s Stage) Recheck() bool { return s == StageRawRecheck || s == StagePreDNATRecheck }

// Partial reports whether later stages decide about packets that no rule of this stage matches.
func (s Stage) Partial() bool { return s != StageNormal }

// Original reports whether packets have passed destination NAT before the stage. If so, rules match
// the original destination, which connection tracking has kept.
func (s Stage) Original() bool { return s == StagePreDNATRecheck || s == StageRawDNAT }

// Adapt adapts a rule to the stage, and reports whether the stage uses the rule:
//
//   - StageNormal, StageRaw and StagePreDNAT use all rules without a change.
//   - StageRawRecheck and StagePreDNATRecheck use only Allow and Pass rules. They need no Deny
//     rules, because packets that the earlier stage denied do not reach them. They need no Log
//     rules, because the earlier stage has already logged the packet.
//   - StageRawDNAT uses all rules except Log rules.
//
// At StagePreDNATRecheck and StageRawDNAT, rules match the original destination. If the destination
// of a packet was translated, the kernel cannot look up the original port in a set. So a rule with
// a named port does not match such a packet. For an Allow rule this is safe: policy then allows
// less. But if a Deny or Pass rule does not match, policy could allow more. So at these two stages,
// Adapt removes the named ports from Deny and Pass rules. A rule that matches a named port then
// matches all ports, and a rule that excludes a named port no longer excludes it. All other
// conditions stay. The action of such a rule depends on the stage:
//
//   - At StageRawDNAT, a Deny rule stays a Deny rule, and a Pass rule becomes a Deny rule.
//   - At StagePreDNATRecheck, which has no Deny rules, a Pass rule stays a Pass rule.
func (s Stage) Adapt(m *Merged) bool {
	d := &m.Destination
	switch {
	case s == StageRawDNAT:
		if m.Action == policy.Pass && len(d.PortSets)+len(d.NotPortSets) > 0 {
			m.Action = policy.Deny // a later rule may allow what a later tier denies
		}
		if m.Action == policy.Deny && len(d.PortSets) > 0 {
			d.Ports, d.PortSets = []policy.Port{policy.PortRange(0, math.MaxUint16)}, nil
		}
		if m.Action == policy.Deny {
			d.NotPortSets = nil
		}
		return m.Action != policy.Log
	case !s.Recheck():
		return true
	case s == StagePreDNATRecheck && m.Action == policy.Pass && len(d.PortSets)+len(d.NotPortSets) > 0:
		if len(d.PortSets) > 0 {
			d.Ports = nil
		}
		d.PortSets, d.NotPortSets = nil, nil
	}
	return m.Action == policy.Allow || m.Action == policy.Pass
}

// List identifies a list of rules of a policy, profile or endpoint: the rules for one direction at
// one stage.
type List struct {
	Dir   Direction
	Stage Stage
}

// Lists returns the direction and stage of each list in which a policy or profile can have rules.
// For a staged policy, it returns nil.
func (o *Owner) Lists() []List {
	switch p := o.Policy; {
	case o.Staged():
		return nil
	case p != nil && p.Untracked:
		return []List{
			{Ingress, StageRaw},
			{Egress, StageRaw},
			{Ingress, StageRawRecheck},
			{Egress, StageRawRecheck},
			{Egress, StageRawDNAT},
		}
	case p != nil && p.PreDNAT:
		return []List{{Ingress, StagePreDNAT}, {Ingress, StagePreDNATRecheck}}
	default:
		return []List{{Ingress, StageNormal}, {Egress, StageNormal}}
	}
}
