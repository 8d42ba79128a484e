// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"

	"github.com/wayleave/wayleave/policy"
)

// Stage is a place on a packet's way where rules are evaluated. At each stage, rules record their
// decision in the packet and return.
type Stage uint8

// The stages.
const (
	// StageNormal is policy of workloads, and normal policy of host endpoints, for the host's own
	// and for forwarded traffic.
	StageNormal Stage = iota
	// StageRaw is untracked policy, before connection tracking: packets that it allows are not
	// tracked.
	StageRaw
	// StagePreDNAT is pre-DNAT policy, before destination NAT.
	StagePreDNAT
	// StageRawRecheck repeats untracked policy to test whether it allowed the packet: no mark
	// records that. StagePreDNATRecheck does so for pre-DNAT policy, with the original destination
	// from connection tracking. Rules neither count nor log there.
	StageRawRecheck
	StagePreDNATRecheck
	// StageRawDNAT applies untracked policy to packets of the host with a translated destination. It
	// matches the outgoing interface and the original destination. It only denies: such packets
	// are already tracked.
	StageRawDNAT
)

// Name begins the names of the chains of a stage.
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

// Recheck reports whether the stage repeats another one.
func (s Stage) Recheck() bool { return s == StageRawRecheck || s == StagePreDNATRecheck }

// Partial reports whether the stage leaves packets that no rule decides about to later stages.
func (s Stage) Partial() bool { return s != StageNormal }

// Original reports whether rules match the original destination, from connection tracking: the
// packet has gone through destination NAT.
func (s Stage) Original() bool { return s == StagePreDNATRecheck || s == StageRawDNAT }

// Adapt adapts a rule to the stage, and reports whether the stage uses it. StageNormal, StageRaw
// and StagePreDNAT use all rules as they are. A stage that repeats another one uses only Allow and
// Pass rules: denied packets do not reach it, and a packet is logged once. StageRawDNAT uses all
// but Log rules.
//
// Named ports cannot be matched against an original destination. So a Pass rule at
// StagePreDNATRecheck and a Deny rule at StageRawDNAT match every port that these could be: less is
// allowed.
func (s Stage) Adapt(m *Merged) bool {
	d := &m.Destination
	switch {
	case s == StageRawDNAT:
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

// List identifies a list of rules of a policy, profile or endpoint: those for one direction at one
// stage.
type List struct {
	Dir   Direction
	Stage Stage
}

// Lists returns the lists that a policy or profile has rules for. It has none if it is staged.
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
