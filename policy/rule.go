// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Rule is one rule of a policy or profile. It matches a packet if all of its conditions match
// (AND). Entries of a list are alternatives (OR). If a field begins with Not, the packet must match
// none of its entries. A rule without conditions matches every packet. An empty list means the same
// as a missing one.
type Rule struct {
	// Action of the rule. Required.
	Action Action `json:"action"`
	// IPVersion limits the rule to IPv4 (4) or IPv6 (6). 0 means both, and JSON omits it.
	IPVersion int `json:"ipVersion,omitempty"`
	// Protocol of the packet, by name or number. ICMP matches IPv4 only, and ICMPv6 matches IPv6
	// only. 0 means any.
	Protocol Protocol `json:"protocol,omitzero"`
	// NotProtocol excludes a protocol. 0 means none.
	NotProtocol Protocol `json:"notProtocol,omitzero"`
	// HeaderMatch has the conditions on the packet's headers. In JSON, its fields are members of
	// the rule.
	HeaderMatch
	// Source of the packet. The zero value means any.
	Source EntityRule `json:"source,omitzero"`
	// Destination of the packet after destination NAT. In policies that are PreDNAT or DoNotTrack,
	// it is the destination before destination NAT. The zero value means any.
	Destination EntityRule `json:"destination,omitzero"`
	// Metadata is information for people and tools. It never changes a verdict. Nil means none.
	Metadata *RuleMetadata `json:"metadata,omitempty"`
	// Doubts are the reasons why the rule is closed (see Close): fields that are invalid or
	// unknown. A rule without Doubts is not closed. Problem.Field is the path of the field in the
	// original object. Only rules of policies can have Doubts.
	Doubts []Problem `json:"doubts,omitempty"`
}

// Action is what happens to a packet that a rule matches.
type Action string

// The actions.
const (
	// Allow accepts the packet in this direction.
	Allow Action = "Allow"
	// Deny drops the packet.
	Deny Action = "Deny"
	// Pass leaves the tier: the next tier decides. After the last tier, the profiles decide.
	Pass Action = "Pass"
	// Log writes a line to the kernel log. Evaluation continues with the next rule.
	Log Action = "Log"
)

// RuleMetadata is information about a rule for people and tools.
type RuleMetadata struct {
	// Annotations are arbitrary keys and values. The explanation of a verdict shows the annotations
	// of rules.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ruleScope is the context on which the meaning of a rule depends.
type ruleScope struct {
	direction Type
	namespace string // of the policy; empty in a global policy and in a profile
}

func (v *validator) rules(field string, rules []Rule, scope ruleScope) {
	if !v.atMost(field, len(rules), maxRules) {
		return
	}
	for i := range rules {
		v.enter(field, i)
		v.rule(&rules[i], scope)
		v.leave()
	}
}

func (v *validator) rule(r *Rule, scope ruleScope) {
	if why := r.Action.problem(); why != "" {
		v.add("action", "%s", why)
	}
	switch r.IPVersion {
	case 0, 4, 6:
	default:
		v.add("ipVersion", "want 4 or 6, not %d", r.IPVersion)
	}
	v.header(&r.HeaderMatch, r.Protocol)
	v.enter("source", -1)
	v.entityRule(&r.Source, r.Protocol)
	v.services(&r.Source, scope, Ingress)
	v.leave()
	v.enter("destination", -1)
	v.entityRule(&r.Destination, r.Protocol)
	v.services(&r.Destination, scope, Egress)
	v.leave()
	v.metadata(r.Metadata)
	v.doubts(r)
}

// problem returns why the action is invalid, or "".
func (a Action) problem() string {
	switch a {
	case Allow, Deny, Pass, Log:
		return ""
	case "":
		return "required"
	}
	return fmt.Sprintf("want Allow, Deny, Pass or Log, not %q", clip(string(a)))
}

func (v *validator) metadata(m *RuleMetadata) {
	if m != nil {
		v.annotations("metadata.annotations", m.Annotations)
	}
}

func (v *validator) annotations(field string, annotations map[string]string) {
	if !v.atMost(field, len(annotations), maxLabels) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		at := join(field, key)
		if key == "" {
			v.add(at, "an annotation needs a key")
		}
		v.text(at, key, maxName, "")
		v.text(at, annotations[key], maxAnnotation, "\t\r\n")
	}
}

func (d *digest) rule(r *Rule) {
	d.text(string(r.Action))
	d.buf = binary.AppendVarint(d.buf, int64(r.IPVersion))
	d.buf = append(d.buf, byte(r.Protocol), byte(r.NotProtocol))
	d.icmp(r.ICMP)
	d.icmp(r.NotICMP)
	d.entity(&r.Source)
	d.entity(&r.Destination)
	d.header(&r.HeaderMatch)
}
