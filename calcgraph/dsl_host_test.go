// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

func parseHostEndpoint(name string, fields fields) (*policy.HostEndpoint, error) {
	h := &policy.HostEndpoint{
		Name: name, Node: node, InterfaceName: fields["interface"],
		Labels: fields.labels(), Profiles: fields.list("profiles"),
	}
	if n := fields["node"]; n != "" {
		h.Node = n
	}
	var err error
	if h.ExpectedIPs, err = parseAddrs(fields.list("addrs")); err != nil {
		return nil, err
	}
	h.Ports, err = parseEndpointPorts(fields.list("ports"))
	return h, err
}

func parseService(namespace, name string, fields fields) (*policy.ServiceBackends, error) {
	part := &policy.ServiceBackends{Namespace: namespace, Name: name, Service: fields["of"]}
	var err error
	if part.Addresses, err = parseAddrs(fields.list("addrs")); err != nil {
		return nil, err
	}
	for _, s := range fields.list("serves") {
		port, err := parseProtocolPort(s)
		if err != nil {
			return nil, err
		}
		part.Ports = append(part.Ports, policy.ServicePort{Protocol: port.Protocol, Port: port.Port})
	}
	return part, nil
}

func parseAddrs(list []string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, s := range list {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return nil, err
		}
		out = append(out, addr)
	}
	return out, nil
}

// parseEndpointPorts reads ports as in "http=TCP:80".
func parseEndpointPorts(list []string) ([]policy.EndpointPort, error) {
	var out []policy.EndpointPort
	for _, s := range list {
		name, rest, _ := strings.Cut(s, "=")
		port, err := parseProtocolPort(rest)
		if err != nil {
			return nil, err
		}
		port.Name = name
		out = append(out, port)
	}
	return out, nil
}

// parseProtocolPort reads "TCP:80".
func parseProtocolPort(s string) (policy.EndpointPort, error) {
	proto, number, _ := strings.Cut(s, ":")
	p, err := policy.ParseProtocol(proto)
	if err != nil {
		return policy.EndpointPort{}, err
	}
	n, err := strconv.ParseUint(number, 10, 16)
	return policy.EndpointPort{Protocol: p, Port: uint16(n)}, err
}
