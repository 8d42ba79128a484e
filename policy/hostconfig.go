// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
)

// HostConfig says what a node does with traffic of its own processes and with packets
// that policy is not asked about. It is no resource: whoever judges or programs packets is
// given it beside them. The zero value is the safe default throughout. Readers may share
// a HostConfig that nobody changes.
//
// In JSON, too, a list that is missing is the default and one that is empty is none. Reading it is
// as strict as Decode: unknown members, members given twice and null are errors.
type HostConfig struct {
	// EndpointToHostAction is what becomes of traffic from a workload to its own node once the
	// workload's egress policy has allowed it. Empty means HostDrop. HostReturn leaves it to what
	// else the host filters with.
	EndpointToHostAction HostAction `json:"endpointToHostAction,omitempty"`
	// HostToEndpointAction is what becomes of traffic from the node's own processes to a workload
	// on it. Empty means HostAccept, whatever the workload's policy says, since the node's agents
	// must be able to probe what runs there. HostReturn leaves it to the ingress policy of the
	// workload.
	HostToEndpointAction HostAction `json:"hostToEndpointAction,omitempty"`
	// FailsafeInbound are what always reaches the host's own processes through an interface that
	// has a host endpoint, before policy. Nil means DefaultFailsafeInbound; a list that is empty
	// but not nil means none.
	FailsafeInbound []Failsafe `json:"failsafeInbound,omitzero"`
	// FailsafeOutbound are what the host's own processes may always send through such an
	// interface. Nil means DefaultFailsafeOutbound; a list that is empty but not nil means none.
	FailsafeOutbound []Failsafe `json:"failsafeOutbound,omitzero"`
	// AllowVXLANFromWorkloads leaves VXLAN packets (UDP to VXLANPort) that workloads send to
	// policy. By default they are dropped, as what is inside them would escape it.
	AllowVXLANFromWorkloads bool `json:"allowVXLANFromWorkloads,omitempty"`
	// AllowIPIPFromWorkloads leaves IP-in-IP packets (protocol 4) that workloads send to policy. By
	// default they are dropped.
	AllowIPIPFromWorkloads bool `json:"allowIPIPFromWorkloads,omitempty"`
	// VXLANFromNodesOnly drops VXLAN packets to the node unless their source is in Addresses of a Node,
	// established connections included. Set it if nodes exchange VXLAN, because policy believes the
	// sources of the packets inside. By default, host policy decides about such packets.
	VXLANFromNodesOnly bool `json:"vxlanFromNodesOnly,omitempty"`
	// IPIPFromNodesOnly does the same for IP-in-IP packets.
	IPIPFromNodesOnly bool `json:"ipipFromNodesOnly,omitempty"`
	// VXLANPort is the UDP port of VXLAN. 0 means DefaultVXLANPort.
	VXLANPort uint16 `json:"vxlanPort,omitempty"`
	// KeepInvalid leaves packets that connection tracking calls invalid to policy, but for IPv6
	// fragments that lack the transport header. By default all are dropped.
	KeepInvalid bool `json:"keepInvalid,omitempty"`
}

// UnmarshalJSON reads a whole HostConfig: what is not given has its zero value afterwards, whatever
// h held before. Unknown members, members given twice, null, and values that a field cannot hold
// (an empty net, port 0) are errors, which leave h as it was. It does not validate: see Validate.
func (h *HostConfig) UnmarshalJSON(data []byte) error {
	return unmarshal(data, h)
}

// UnmarshalJSON reads one failsafe port as strictly as HostConfig.UnmarshalJSON does.
func (f *Failsafe) UnmarshalJSON(data []byte) error {
	return unmarshal(data, f)
}

// DefaultVXLANPort is the UDP port that IANA gave to VXLAN.
const DefaultVXLANPort = 4789

// HostAction is what becomes of traffic between a node and a workload on it. It is a plain value
// and safe for concurrent use.
type HostAction string

// The host actions.
const (
	HostDrop   HostAction = "Drop"
	HostAccept HostAction = "Accept"
	HostReturn HostAction = "Return" // leaves it to others, see the fields of HostConfig
)

// Failsafe is a port that stays open to the host's own traffic whatever policy says, so that
// nobody locks himself out. It is a plain value; it is safe for concurrent use.
type Failsafe struct {
	// Protocol: TCP, UDP or SCTP. Required.
	Protocol Protocol `json:"protocol"`
	// Port is the destination port, 1 to 65535: of the host for inbound traffic, of the peer for
	// outbound. Required.
	Port uint16 `json:"port"`
	// Net limits the peers, and with that the family. The zero Prefix means any peer of both
	// families.
	Net netip.Prefix `json:"net,omitzero"`
}

// String writes "TCP 22" or "TCP 22 10.0.0.0/8".
func (f Failsafe) String() string {
	if !f.Net.IsValid() {
		return fmt.Sprintf("%s %d", f.Protocol, f.Port)
	}
	return fmt.Sprintf("%s %d %s", f.Protocol, f.Port, f.Net)
}

// DefaultFailsafeInbound returns what is open to the host by default: SSH, BGP, etcd, Typha and the
// Kubernetes API over TCP (22, 179, 2379, 2380, 5473, 6443, 6666, 6667) and DHCP over UDP (68). The
// list is the caller's to change.
func DefaultFailsafeInbound() []Failsafe {
	return append(failsafes(ProtocolTCP, 22, 179, 2379, 2380, 5473, 6443, 6666, 6667),
		failsafes(ProtocolUDP, 68)...)
}

// DefaultFailsafeOutbound returns what is open to the host's processes by default: the same
// without SSH over TCP, and DNS and DHCP over UDP (53, 67). The list is the caller's to change.
func DefaultFailsafeOutbound() []Failsafe {
	return append(failsafes(ProtocolTCP, 179, 2379, 2380, 5473, 6443, 6666, 6667),
		failsafes(ProtocolUDP, 53, 67)...)
}

func failsafes(proto Protocol, ports ...uint16) []Failsafe {
	var list []Failsafe
	for _, port := range ports {
		list = append(list, Failsafe{Protocol: proto, Port: port})
	}
	return list
}

// Encapsulation is a protocol whose packets carry other packets.
type Encapsulation struct {
	// Name for texts, as in "IP in IP".
	Name string
	// Protocol of the packets, and their destination port. Port is 0 if the protocol has no ports.
	Protocol Protocol
	Port     uint16
}

// Carries reports whether packets of the protocol, with the destination port, carry other packets.
func (e Encapsulation) Carries(protocol Protocol, port uint16) bool {
	return protocol == e.Protocol && (e.Port == 0 || port == e.Port)
}

// ForbiddenEncapsulations returns the encapsulations that workloads must not send, since policy does
// not see the packets inside: all that h does not leave to policy.
func (h HostConfig) ForbiddenEncapsulations() []Encapsulation {
	return h.encapsulations(!h.AllowVXLANFromWorkloads, !h.AllowIPIPFromWorkloads)
}

// NodeEncapsulations returns the encapsulations that a node accepts only from addresses of nodes.
func (h HostConfig) NodeEncapsulations() []Encapsulation {
	return h.encapsulations(h.VXLANFromNodesOnly, h.IPIPFromNodesOnly)
}

func (h HostConfig) encapsulations(vxlan, ipip bool) (list []Encapsulation) {
	if vxlan {
		list = append(list, Encapsulation{"VXLAN", ProtocolUDP, cmp.Or(h.VXLANPort, DefaultVXLANPort)})
	}
	if ipip {
		list = append(list, Encapsulation{Name: "IP in IP", Protocol: 4})
	}
	return list
}

// WithDefaults returns a copy in which every field says what it means: nothing is empty, nil or 0
// any more. Lists that were given are shared with h.
func (h HostConfig) WithDefaults() HostConfig {
	h.EndpointToHostAction = cmp.Or(h.EndpointToHostAction, HostDrop)
	h.HostToEndpointAction = cmp.Or(h.HostToEndpointAction, HostAccept)
	if h.FailsafeInbound == nil {
		h.FailsafeInbound = DefaultFailsafeInbound()
	}
	if h.FailsafeOutbound == nil {
		h.FailsafeOutbound = DefaultFailsafeOutbound()
	}
	h.VXLANPort = cmp.Or(h.VXLANPort, DefaultVXLANPort)
	return h
}

// Validate reports every problem of the settings, joined by errors.Join, or nil: an action that
// does not exist, a failsafe whose protocol has no ports, with port 0 or with a Net that is not
// canonical.
func (h HostConfig) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("policy: host config: %s: %s", field, fmt.Sprintf(format, args...)))
	}
	action := func(field string, a HostAction) {
		switch a {
		case "", HostDrop, HostAccept, HostReturn:
		default:
			bad(field, "want Drop, Accept or Return, not %q", clip(string(a)))
		}
	}
	action("endpointToHostAction", h.EndpointToHostAction)
	action("hostToEndpointAction", h.HostToEndpointAction)
	list := func(field string, list []Failsafe) {
		for i, f := range list {
			if !f.Protocol.HasPorts() {
				bad(index(field, i)+".protocol", "want TCP, UDP or SCTP, not %s", f.Protocol)
			}
			if f.Port == 0 {
				bad(index(field, i)+".port", "required")
			}
			if f.Net == (netip.Prefix{}) {
				continue
			}
			if why := netProblem(f.Net); why != "" {
				bad(index(field, i)+".net", "%s", why)
			}
		}
	}
	list("failsafeInbound", h.FailsafeInbound)
	list("failsafeOutbound", h.FailsafeOutbound)
	return errors.Join(errs...)
}
