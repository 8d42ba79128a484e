// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// World is a state of the cluster: its resources by key. The zero value of an entry (a
// nil Resource) is the same as no entry. It is an ordinary map, and as little
// safe for concurrent use.
type World map[policy.Key]policy.Resource

// Set adds the resources, or replaces those of the same key. They must not be changed afterwards.
func (w World) Set(resources ...policy.Resource) {
	for _, r := range resources {
		w[r.Key()] = r
	}
}

// Delete removes the resources with the given keys, if they are there.
func (w World) Delete(keys ...policy.Key) {
	for _, k := range keys {
		delete(w, k)
	}
}

// Apply brings the world up to date: an update with a nil Resource deletes.
func (w World) Apply(updates ...policy.Update) {
	for _, u := range updates {
		if u.Resource == nil {
			delete(w, u.Key)
		} else {
			w[u.Key] = u.Resource
		}
	}
}

// Flow is the first packet of a connection. It is a plain value.
type Flow struct {
	// SrcEndpoint names the workload endpoint that sends. The zero key means: the
	// endpoint that holds Src. A key that the world does not hold means: none.
	SrcEndpoint policy.Key `json:"srcEndpoint,omitzero"`
	// DstEndpoint names the workload endpoint that receives. The zero key means: the
	// endpoint that holds Dst. A key that the world does not hold means: none.
	DstEndpoint policy.Key `json:"dstEndpoint,omitzero"`
	// Src and Dst are the addresses, of one family. IPv4-mapped IPv6 counts as IPv4.
	Src netip.Addr `json:"src"`
	Dst netip.Addr `json:"dst"`
	// Protocol is the IP protocol.
	Protocol policy.Protocol `json:"protocol"`
	// SrcPort and DstPort count for protocols that have ports (TCP, UDP, SCTP).
	SrcPort uint16 `json:"srcPort,omitempty"`
	DstPort uint16 `json:"dstPort,omitempty"`
	// ICMPType and ICMPCode count for ICMP over IPv4 and ICMPv6 over IPv6.
	ICMPType uint8 `json:"icmpType,omitempty"`
	ICMPCode uint8 `json:"icmpCode,omitempty"`
}

// Validate says why the flow cannot exist, if it cannot.
func (f Flow) Validate() error {
	switch {
	case !f.Src.IsValid():
		return errors.New("verdict: flow has no source address")
	case !f.Dst.IsValid():
		return errors.New("verdict: flow has no destination address")
	case f.Src.Unmap().Is4() != f.Dst.Unmap().Is4():
		return errors.New("verdict: flow has addresses of two families")
	}
	return nil
}

// String describes the flow in one line, as in "TCP 10.0.0.1:31245 -> 10.0.0.2:80".
func (f Flow) String() string {
	f = f.canonical()
	switch {
	case f.Protocol.HasPorts():
		return fmt.Sprintf("%s %s -> %s", f.Protocol,
			netip.AddrPortFrom(f.Src, f.SrcPort), netip.AddrPortFrom(f.Dst, f.DstPort))
	case f.isICMP():
		return fmt.Sprintf("%s type %d code %d %s -> %s", f.Protocol, f.ICMPType, f.ICMPCode, f.Src, f.Dst)
	default:
		return fmt.Sprintf("%s %s -> %s", f.Protocol, f.Src, f.Dst)
	}
}

// canonical returns the flow with its addresses in the form that resources use.
func (f Flow) canonical() Flow {
	f.Src, f.Dst = f.Src.Unmap().WithZone(""), f.Dst.Unmap().WithZone("")
	return f
}

// ipVersion is 4 or 6.
func (f Flow) ipVersion() int {
	if f.Src.Is4() {
		return 4
	}
	return 6
}

func (f Flow) isICMP() bool {
	return protocolFits(f.Protocol, f.ipVersion()) &&
		(f.Protocol == policy.ProtocolICMP || f.Protocol == policy.ProtocolICMPv6)
}

// protocolFits reports whether a protocol exists in an IP version: each has an ICMP of its own.
func protocolFits(proto policy.Protocol, ipVersion int) bool {
	switch proto {
	case policy.ProtocolICMP:
		return ipVersion == 4
	case policy.ProtocolICMPv6:
		return ipVersion == 6
	default:
		return true
	}
}

// Outcome is what policy says of a flow, in one direction or both. It is a plain value.
type Outcome string

// The outcomes.
const (
	// Allow: policy lets the flow pass.
	Allow Outcome = "Allow"
	// Deny: policy drops the flow.
	Deny Outcome = "Deny"
	// NotApplicable: there is no endpoint on this side, and so no policy.
	NotApplicable Outcome = "NotApplicable"
)

// Result is the outcome for a flow. It is a plain value.
type Result struct {
	// Egress is the outcome at the source endpoint.
	Egress Outcome `json:"egress"`
	// Ingress is the outcome at the destination endpoint. It is computed even where Egress is Deny.
	Ingress Outcome `json:"ingress"`
	// Combined is Deny if either side denies, NotApplicable if neither side has an
	// endpoint, and Allow otherwise.
	Combined Outcome `json:"combined"`
}

func combine(egress, ingress Outcome) Result {
	r := Result{Egress: egress, Ingress: ingress, Combined: Allow}
	switch {
	case egress == Deny || ingress == Deny:
		r.Combined = Deny
	case egress == NotApplicable && ingress == NotApplicable:
		r.Combined = NotApplicable
	}
	return r
}

// Evaluate judges one flow. It reads the whole world each time; use New for many flows.
func Evaluate(w World, f Flow) Result { return New(w).Evaluate(f) }

// Explain judges one flow and shows the work. It reads the whole world each time; use New for many flows.
func Explain(w World, f Flow) *Explanation { return New(w).Explain(f) }
