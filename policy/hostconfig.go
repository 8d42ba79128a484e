// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
)

// HostConfig has settings of a node. They are about traffic of the node's own processes, and about
// packets for which there is no policy. HostConfig is not a resource: packages that evaluate or
// program policy have it as a field of their Config. The zero value means safe defaults.
//
// In JSON, a missing list means the default of its field, and an empty list means no entries.
// UnmarshalJSON is as strict as Decode.
type HostConfig struct {
	// EndpointToHostAction decides about traffic from a workload to its own node, if the workload's
	// egress policy has allowed the traffic. Empty means HostDrop. With HostReturn, other tables of
	// the host decide.
	EndpointToHostAction HostAction `json:"endpointToHostAction,omitempty"`
	// HostToEndpointAction decides about traffic from the node's own processes to a workload of the
	// node. Empty means HostAccept: the workload's policy does not matter, because the node's
	// agents must be able to probe workloads. With HostReturn, the ingress policy of the workload
	// decides.
	HostToEndpointAction HostAction `json:"hostToEndpointAction,omitempty"`
	// FailsafeInbound are ports of the host that are always reachable through an interface with a
	// host endpoint, whatever the policy of the host endpoint says. Nil means
	// DefaultFailsafeInbound. An empty list that is not nil means none.
	FailsafeInbound []Failsafe `json:"failsafeInbound,omitzero"`
	// FailsafeOutbound are ports that the host's own processes can always reach through an
	// interface with a host endpoint. Nil means DefaultFailsafeOutbound. An empty list that is not
	// nil means none.
	FailsafeOutbound []Failsafe `json:"failsafeOutbound,omitzero"`
	// AllowVXLANFromWorkloads means that policy decides about VXLAN packets (UDP to VXLANPort) from
	// workloads. By default they are dropped, because policy does not see the packets inside.
	AllowVXLANFromWorkloads bool `json:"allowVXLANFromWorkloads,omitempty"`
	// AllowIPIPFromWorkloads means that policy decides about IP-in-IP packets (protocol 4) from
	// workloads. By default they are dropped.
	AllowIPIPFromWorkloads bool `json:"allowIPIPFromWorkloads,omitempty"`
	// VXLANFromNodesOnly drops a VXLAN packet to the node if its source is not in the field
	// Addresses of a Node. This also holds for established connections. Set VXLANFromNodesOnly if
	// nodes exchange VXLAN packets, because policy trusts the source addresses of the packets
	// inside. By default, this check is off, and host policy decides about VXLAN packets to the
	// node.
	VXLANFromNodesOnly bool `json:"vxlanFromNodesOnly,omitempty"`
	// IPIPFromNodesOnly is like VXLANFromNodesOnly, but for IP-in-IP packets.
	IPIPFromNodesOnly bool `json:"ipipFromNodesOnly,omitempty"`
	// VXLANPort is the UDP port of VXLAN. 0 means DefaultVXLANPort.
	VXLANPort uint16 `json:"vxlanPort,omitempty"`
	// KeepInvalid means that policy decides about packets that connection tracking considers
	// invalid, except for IPv6 fragments without the transport header. By default, all invalid
	// packets are dropped.
	KeepInvalid bool `json:"keepInvalid,omitempty"`
}

// UnmarshalJSON decodes a whole HostConfig: missing fields become zero. Unknown members, duplicate
// members, null, and values that a field cannot have (an empty net, port 0) are errors. After an
// error, h is as before. UnmarshalJSON does not validate the settings: call Validate.
func (h *HostConfig) UnmarshalJSON(data []byte) error {
	return unmarshal(data, h)
}

// UnmarshalJSON decodes one failsafe port. It is as strict as HostConfig.UnmarshalJSON.
func (f *Failsafe) UnmarshalJSON(data []byte) error {
	return unmarshal(data, f)
}

// DefaultVXLANPort is the UDP port that IANA has assigned to VXLAN.
const DefaultVXLANPort = 4789

// HostAction decides about traffic between a node and its workloads.
type HostAction string

// The host actions.
const (
	HostDrop   HostAction = "Drop"
	HostAccept HostAction = "Accept"
	HostReturn HostAction = "Return" // other rules decide: see the fields of HostConfig
)

// Failsafe is a failsafe port. It stays open to the host's own traffic whatever policy says, so
// that a wrong policy does not cut off the host.
type Failsafe struct {
	// Protocol: TCP, UDP or SCTP. Required.
	Protocol Protocol `json:"protocol"`
	// Port is the destination port, 1 to 65535. For inbound traffic, it is a port of the host, for
	// outbound traffic a port of the peer. Required.
	Port uint16 `json:"port"`
	// Net has the addresses of the peers. Its family limits the family of the traffic. The zero
	// Prefix means any peer of both families.
	Net netip.Prefix `json:"net,omitzero"`
}

// String returns a text as "TCP 22" or "TCP 22 10.0.0.0/8".
func (f Failsafe) String() string {
	if !f.Net.IsValid() {
		return fmt.Sprintf("%s %d", f.Protocol, f.Port)
	}
	return fmt.Sprintf("%s %d %s", f.Protocol, f.Port, f.Net)
}

// DefaultFailsafeInbound returns the default of FailsafeInbound: SSH, BGP, etcd, Typha and the
// Kubernetes API over TCP (22, 179, 2379, 2380, 5473, 6443, 6666, 6667) and DHCP over UDP (68). The
// caller may change the list.
func DefaultFailsafeInbound() []Failsafe {
	return append(failsafes(ProtocolTCP, 22, 179, 2379, 2380, 5473, 6443, 6666, 6667),
		failsafes(ProtocolUDP, 68)...)
}

// DefaultFailsafeOutbound returns the default of FailsafeOutbound: DNS and DHCP over UDP (53, 67),
// and the TCP ports of DefaultFailsafeInbound except SSH. The caller may change the list.
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

// Encapsulation is a protocol whose packets contain other packets.
type Encapsulation struct {
	// Name of the protocol, as in "IP in IP".
	Name string
	// Protocol and destination port of the packets. Port is 0 if the protocol has no ports.
	Protocol Protocol
	Port     uint16
}

// Carries reports whether packets of the protocol to the destination port contain other packets.
func (e Encapsulation) Carries(protocol Protocol, port uint16) bool {
	return protocol == e.Protocol && (e.Port == 0 || port == e.Port)
}

// ForbiddenEncapsulations returns the encapsulations that are dropped if a workload sends them,
// because policy does not see the packets inside: VXLAN unless AllowVXLANFromWorkloads is set, and
// IP in IP unless AllowIPIPFromWorkloads is set.
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

// WithDefaults returns a copy in which defaults replace all zero values. The copy shares lists with
// h.
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

// Validate reports all problems of the settings, joined by errors.Join, or nil. Problems are
// unknown actions, and failsafe ports whose protocol is not TCP, UDP or SCTP, whose port is 0, or
// whose Net is not canonical.
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
