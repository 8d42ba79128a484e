// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// DefaultSourcePort is the source port of all flows.
const DefaultSourcePort = 40_000

// The ICMP types of echo requests.
const (
	echoRequest   = 8
	echoRequestV6 = 128
)

// Port selects packets to a party by a port, a protocol, or a type of ICMP message. String and JSON
// use the text that ParsePort parses.
type Port struct {
	// Protocol is 0 if Name stands for ports of any protocol. ICMP without a type means an echo
	// request of either family.
	Protocol policy.Protocol
	// Name of a port of the receiver. Empty if there is a number.
	Name string
	// Number of the port. It is 0 if there is a name or the protocol has no ports.
	Number uint16
	// Typed means that Type and Code are set. The protocol then decides the address family of the
	// flow: IPv4 for ICMP, IPv6 for ICMPv6.
	Typed      bool
	Type, Code uint8
}

// ParsePort parses a port. The section Names of the package's documentation has the syntax. The
// error quotes the text.
func ParsePort(text string) (Port, error) {
	name, rest, more := strings.Cut(text, "/")
	if !more {
		return parseBare(text)
	}
	if strings.EqualFold(name, "ip") {
		n, err := strconv.ParseUint(rest, 10, 8)
		if p := policy.Protocol(n); err == nil && n > 0 && p.String() == rest {
			return Port{Protocol: p}, nil
		}
		return Port{}, fmt.Errorf("%q: want the number of a protocol without a name of its own, as in ip/47", text)
	}
	protocol, err := policy.ParseProtocol(name)
	switch {
	case err != nil:
		return Port{}, fmt.Errorf("%q: %w", text, err)
	case isICMP(protocol):
		return parseICMP(text, protocol, rest)
	case !protocol.HasPorts():
		return Port{}, fmt.Errorf("%q: %s has no ports", text, protocol)
	}
	port, err := policy.ParsePort(rest)
	switch {
	case err != nil:
		return Port{}, fmt.Errorf("%q: want PROTOCOL/PORT, as in tcp/80: %w", text, err)
	case port.Name != "":
		return Port{Protocol: protocol, Name: port.Name}, nil
	case port.First != port.Last:
		return Port{}, fmt.Errorf("%q: want one port, not a range", text)
	}
	return Port{Protocol: protocol, Number: port.First}, nil
}

// parseBare parses a text without a slash. It refuses a number, which could be a protocol or a
// port.
func parseBare(text string) (Port, error) {
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		return Port{}, fmt.Errorf("%q: want a protocol too, as in tcp/80", text)
	}
	if protocol, err := policy.ParseProtocol(text); err == nil {
		if protocol.HasPorts() {
			return Port{}, fmt.Errorf("%q: want a port too, as in tcp/80", text)
		}
		return Port{Protocol: protocol}, nil
	}
	if port, err := policy.ParsePort(text); err == nil && port.Name != "" {
		return Port{Name: port.Name}, nil
	}
	return Port{}, fmt.Errorf("%q: want PROTOCOL/PORT, as in tcp/80, the name of a port, or icmp", text)
}

func parseICMP(text string, protocol policy.Protocol, rest string) (Port, error) {
	typ, code, hasCode := strings.Cut(rest, "/")
	t, err := strconv.ParseUint(typ, 10, 8)
	var c uint64
	if err == nil && hasCode {
		c, err = strconv.ParseUint(code, 10, 8)
	}
	if err != nil || t == 255 {
		return Port{}, fmt.Errorf("%q: want icmp/TYPE or icmp/TYPE/CODE, numbers as in icmp/8", text)
	}
	return Port{Protocol: protocol, Typed: true, Type: uint8(t), Code: uint8(c)}, nil
}

func isICMP(p policy.Protocol) bool { return p == policy.ProtocolICMP || p == policy.ProtocolICMPv6 }

// String returns the text that ParsePort parses.
func (p Port) String() string {
	name := strings.ToLower(p.Protocol.String())
	switch {
	case p.Name != "" && p.Protocol == 0:
		return p.Name
	case p.Name != "":
		return name + "/" + p.Name
	case p.Typed && p.Code != 0:
		return fmt.Sprintf("%s/%d/%d", name, p.Type, p.Code)
	case p.Typed:
		return fmt.Sprintf("%s/%d", name, p.Type)
	case p.Protocol.HasPorts():
		return fmt.Sprintf("%s/%d", name, p.Number)
	case name[0] <= '9':
		return "ip/" + name
	}
	return name
}

// MarshalText returns the text that ParsePort parses.
func (p Port) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses a port, as ParsePort.
func (p *Port) UnmarshalText(text []byte) error {
	port, err := ParsePort(string(text))
	if err != nil {
		return err
	}
	*p = port
	return nil
}

// Flows returns the flows from one party to another: one for each pair of a source address and a
// destination address of the same family. If p is ICMPv6 or has an ICMP type, only pairs of the
// protocol's family count. If p has the name of a port, the destination may have several ports with
// this name. In this case, there is one flow for each pair and each of these ports. Flows returns
// no flow if there is no such pair, or if the destination has no port with the name.
func (p Port) Flows(from, to Party) []verdict.Flow {
	var flows []verdict.Flow
	for _, src := range from.Addresses {
		for _, dst := range to.Addresses {
			if src.Is4() != dst.Is4() {
				continue
			}
			for _, n := range p.numbers(to) {
				if flow, ok := n.flow(src, dst); ok {
					flow.SrcEndpoint, flow.DstEndpoint = from.Endpoint, to.Endpoint
					flows = append(flows, flow)
				}
			}
		}
	}
	return flows
}

// numbers resolves a name to the ports of the party.
func (p Port) numbers(to Party) []Port {
	if p.Name == "" {
		return []Port{p}
	}
	var ports []Port
	for _, named := range to.Ports {
		if named.Name == p.Name && (p.Protocol == 0 || named.Protocol == p.Protocol) {
			ports = append(ports, Port{Protocol: named.Protocol, Number: named.Port})
		}
	}
	return ports
}

// flow returns the flow between two addresses of one family. ok is false if p is ICMP of the other
// family.
func (p Port) flow(src, dst netip.Addr) (verdict.Flow, bool) {
	flow := verdict.Flow{Src: src, Dst: dst, Protocol: p.Protocol, DstPort: p.Number}
	if p.Protocol.HasPorts() {
		flow.SrcPort = DefaultSourcePort
	}
	if !isICMP(p.Protocol) {
		return flow, true
	}
	flow.ICMPType, flow.ICMPCode = p.Type, p.Code
	own := policy.ProtocolICMP
	if src.Is6() {
		own = policy.ProtocolICMPv6
	}
	if !p.Typed {
		flow.ICMPType = echoRequest
		if src.Is6() {
			flow.ICMPType = echoRequestV6
		}
		if p.Protocol == policy.ProtocolICMP {
			flow.Protocol = own // icmp without a type is an echo request of either family
		}
	}
	return flow, flow.Protocol == own
}
