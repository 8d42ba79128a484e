// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// Flow is a packet, usually the first of a connection. If Node is empty, only the policy of the
// workload endpoints that send and receive the packet is evaluated, wherever they run. If Node is
// set, all policy on the packet's way through that node is evaluated, also policy of host
// endpoints. See "Flows through a node" in the package comment.
type Flow struct {
	// SrcEndpoint is the key of the workload endpoint that sends. The zero key means the endpoint
	// with the address Src. If Node is set, the key must be zero or belong to a workload endpoint
	// on this node. A flow with any other key cannot exist, and is denied. If Node is empty, a key
	// that the world does not have means that the flow has no source endpoint.
	SrcEndpoint policy.Key `json:"srcEndpoint,omitzero"`
	// DstEndpoint is the key of the workload endpoint that receives. The zero key means the
	// endpoint with the address Dst. In other respects, DstEndpoint is like SrcEndpoint.
	DstEndpoint policy.Key `json:"dstEndpoint,omitzero"`
	// Src and Dst are the addresses, of one family. Dst is the destination after destination NAT.
	// IPv4-mapped IPv6 addresses become IPv4 addresses.
	Src netip.Addr `json:"src"`
	Dst netip.Addr `json:"dst"`
	// Protocol is the IP protocol. Required.
	Protocol policy.Protocol `json:"protocol"`
	// SrcPort and DstPort are for protocols with ports (TCP, UDP, SCTP). DstPort is the port after
	// destination NAT.
	SrcPort uint16 `json:"srcPort,omitempty"`
	DstPort uint16 `json:"dstPort,omitempty"`
	// ICMPType and ICMPCode are for ICMP over IPv4 and ICMPv6 over IPv6.
	ICMPType uint8 `json:"icmpType,omitempty"`
	ICMPCode uint8 `json:"icmpCode,omitempty"`
	// Header has the other fields of the packet's IP header. In JSON, they are members of the flow.
	policy.Header
	// State is the connection tracking state of the packet. Empty means StateNew.
	State State `json:"state,omitempty"`
	// ConnSrc and ConnDst are the addresses of the connection that a packet in StateRelated belongs
	// to. Zero means Src and Dst.
	ConnSrc netip.Addr `json:"connSrc,omitzero"`
	ConnDst netip.Addr `json:"connDst,omitzero"`
	// OrigDst and OrigDstPort are the destination before destination NAT (a service, a node port, a
	// floating address). Untracked and pre-DNAT policy match it. Zero means Dst and DstPort.
	OrigDst     netip.Addr `json:"origDst,omitzero"`
	OrigDstPort uint16     `json:"origDstPort,omitempty"`
	// Node is the name of the node that the packet passes through. If it is empty, only policy of
	// workload endpoints is evaluated.
	Node string `json:"node,omitempty"`
	// InInterface is the node's interface by which the packet enters: the interface of a workload,
	// or a host interface. If InInterface is empty, the packet enters by the interface of
	// SrcEndpoint. If SrcEndpoint is zero, too, the packet enters by the interface of the node's
	// workload with the address Src. If there is no such workload, and Src is an address of the
	// node, a process of the node sends the packet. Otherwise the flow cannot exist. InInterface
	// requires Node.
	InInterface string `json:"inInterface,omitempty"`
	// OutInterface is the node's interface by which the packet leaves. It has the same default and
	// rules as InInterface, with DstEndpoint and Dst instead of SrcEndpoint and Src.
	OutInterface string `json:"outInterface,omitempty"`
}

// State is the connection tracking state of a packet. Untracked policy is evaluated before the
// state, all other policy after it.
type State string

// The states.
const (
	// StateNew is the first packet of a connection.
	StateNew State = "New"
	// StateEstablished is any packet of an allowed connection except the first, including replies.
	// It is allowed before policy is evaluated.
	StateEstablished State = "Established"
	// StateRelated is a packet that is related to an allowed connection: an ICMP error, or the
	// first packet of an expected connection (FTP data). The packet counts as new if its sender or
	// receiver is a workload that has neither address of the allowed connection. Otherwise it
	// counts as established (case S169 of docs/semantics.md).
	StateRelated State = "Related"
	// StateInvalid is a packet that belongs to no connection and cannot begin one. It is denied
	// before policy is evaluated, unless policy.HostConfig.KeepInvalid is set.
	StateInvalid State = "Invalid"
)

// Validate returns an error if the flow cannot exist in any world.
func (f Flow) Validate() error {
	switch {
	case !f.Src.IsValid():
		return errors.New("verdict: flow has no source address")
	case !f.Dst.IsValid():
		return errors.New("verdict: flow has no destination address")
	case f.Src.Unmap().Is4() != f.Dst.Unmap().Is4():
		return errors.New("verdict: flow has addresses of two families")
	case f.OrigDst.IsValid() && f.Src.Unmap().Is4() != f.OrigDst.Unmap().Is4():
		return errors.New("verdict: flow has an original destination of another family")
	case f.Protocol == 0:
		return errors.New("verdict: flow has no protocol")
	case f.Node == "" && (f.InInterface != "" || f.OutInterface != ""):
		return errors.New("verdict: flow has an interface and no node")
	}
	if err := f.ValidateHeader(); err != nil {
		return fmt.Errorf("verdict: flow has %w", err)
	}
	switch f.State {
	case "", StateNew, StateEstablished, StateRelated, StateInvalid:
		return nil
	default:
		return fmt.Errorf("verdict: flow has the unknown state %q", f.State)
	}
}

// String returns the flow in one line, as in "TCP 10.0.0.1:31245 -> 10.0.0.2:80". Other fields that
// are set follow, as in "... (to 192.0.2.1:30080 before NAT, DSCP 46, Established, node n1, in by
// eth0, out by veth1)".
func (f Flow) String() string {
	f = f.canonical()
	var text string
	switch {
	case f.Protocol.HasPorts():
		text = fmt.Sprintf("%s %s -> %s", f.Protocol,
			netip.AddrPortFrom(f.Src, f.SrcPort), netip.AddrPortFrom(f.Dst, f.DstPort))
	case f.isICMP():
		text = fmt.Sprintf("%s type %d code %d %s -> %s", f.Protocol, f.ICMPType, f.ICMPCode, f.Src, f.Dst)
	default:
		text = fmt.Sprintf("%s %s -> %s", f.Protocol, f.Src, f.Dst)
	}
	var more []string
	if b := f.beforeNAT(); b.Dst != f.Dst || b.DstPort != f.DstPort {
		to := b.Dst.String()
		if f.Protocol.HasPorts() {
			to = netip.AddrPortFrom(b.Dst, b.DstPort).String()
		}
		more = append(more, "to "+to+" before NAT")
	}
	if header := f.HeaderString(); header != "" {
		more = append(more, header)
	}
	if f.State != "" {
		more = append(more, string(f.State))
	}
	if f.State == StateRelated && f.ConnSrc.IsValid() && f.ConnDst.IsValid() {
		more = append(more, "to "+f.ConnSrc.String()+" -> "+f.ConnDst.String())
	}
	for _, part := range [][2]string{{"node ", f.Node}, {"in by ", f.InInterface}, {"out by ", f.OutInterface}} {
		if part[1] != "" {
			more = append(more, part[0]+part[1])
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text
}

// canonical returns the flow with canonical addresses, as in resources.
func (f Flow) canonical() Flow {
	for _, a := range []*netip.Addr{&f.Src, &f.Dst, &f.OrigDst, &f.ConnSrc, &f.ConnDst} {
		*a = a.Unmap().WithZone("")
	}
	return f
}

// beforeNAT returns the flow with the destination before destination NAT.
func (f Flow) beforeNAT() Flow {
	if f.OrigDst.IsValid() {
		f.Dst = f.OrigDst
	}
	if f.OrigDstPort != 0 {
		f.DstPort = f.OrigDstPort
	}
	return f
}

// translated reports whether destination NAT changed the flow.
func (f Flow) translated() bool { return f != f.beforeNAT() }

// stateAt returns the state for the sending and the receiving workload, which may be nil. It
// resolves StateRelated to another state.
func (f Flow) stateAt(workloads ...*object) State {
	if f.State != StateRelated {
		return f.State
	}
	ends := []netip.Addr{f.ConnSrc, f.ConnDst}
	if !f.ConnSrc.IsValid() {
		ends[0] = f.Src
	}
	if !f.ConnDst.IsValid() {
		ends[1] = f.Dst
	}
	isEnd := func(a netip.Addr) bool { return slices.Contains(ends, a) }
	for _, o := range workloads {
		if o != nil && o.workload != nil && !slices.ContainsFunc(o.workload.Addresses, isEnd) {
			return StateNew
		}
	}
	return StateEstablished
}

// ipVersion returns 4 or 6.
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

// protocolFits reports whether a protocol exists in an IP version. ICMP and ICMPv6 exist in one
// only.
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
