// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Service converts a Service to nothing, and returns one *Error that wraps ErrIgnored. Rules need
// only the backends of a service, because they apply to packets after the service's address was
// translated. The backends are in EndpointSlices.
func (c Converter) Service(service *corev1.Service) []error {
	p, _ := begin(coreVersion, "Service", service, true)
	if !p.any() {
		p.add("", fmt.Errorf("%w: the EndpointSlices of a service have its backends", ErrIgnored))
	}
	return p.refused()
}

// EndpointSlice converts an EndpointSlice to a resource with those backends of a service that the
// slice lists. The label kubernetes.io/service-name has the name of the service. Without this
// label, the result is nil and an error that wraps ErrIgnored.
//
// An endpoint of the slice is used if it is ready or serving, or has no ready condition. An
// endpoint that is terminating can still be serving. A port without a number would mean every port,
// so it is left out and reported. For a slice of host names (addressType FQDN), the result is nil
// and an error that wraps ErrNotSupported. The addresses of the hosts are not known, so rules for
// the service could not match them.
//
// Every error is an *Error.
func (c Converter) EndpointSlice(slice *discoveryv1.EndpointSlice) (*policy.ServiceBackends, []error) {
	p, namespace := begin(discoveryVersion, "EndpointSlice", slice, true)
	service := slice.Labels[discoveryv1.LabelServiceName]
	switch {
	case p.any():
		return nil, p.refused()
	case service == "":
		p.add(labelPath(discoveryv1.LabelServiceName),
			fmt.Errorf("%w: without this label the slice belongs to no service", ErrIgnored))
		return nil, p.refused()
	case slice.AddressType == discoveryv1.AddressTypeFQDN:
		p.add("addressType", fmt.Errorf("%w: names instead of addresses", ErrNotSupported))
		return nil, p.refused()
	case slice.AddressType != discoveryv1.AddressTypeIPv4 && slice.AddressType != discoveryv1.AddressTypeIPv6:
		p.addf("addressType", "%q is not IPv4, IPv6 or FQDN", slice.AddressType)
		return nil, p.refused()
	}
	out := &policy.ServiceBackends{
		Namespace: namespace,
		Name:      slice.Name,
		Service:   service,
		Addresses: sliceAddresses(p, slice),
		Ports:     slicePorts(p, slice.Ports),
	}
	return finish(out, p, renamed("name", "metadata.name", "namespace", "metadata.namespace",
		"service", labelPath(discoveryv1.LabelServiceName), "addresses", "endpoints[*].addresses", "ports", "ports"))
}

// sliceAddresses returns the addresses of the endpoints that accept connections.
func sliceAddresses(p *problems, slice *discoveryv1.EndpointSlice) []netip.Addr {
	var addresses []netip.Addr
	seen := map[netip.Addr]bool{}
	for i, endpoint := range slice.Endpoints {
		for j, text := range endpoint.Addresses {
			path := fmt.Sprintf("endpoints[%d].addresses[%d]", i, j)
			a := parseAddress(p, path, text)
			switch {
			case !a.IsValid():
			case a.Is4() != (slice.AddressType == discoveryv1.AddressTypeIPv4):
				p.addf(path, "%s is not of the slice's addressType %s", a, slice.AddressType)
			case takesConnections(endpoint.Conditions) && !seen[a]:
				seen[a] = true
				addresses = append(addresses, a)
			}
		}
	}
	return addresses
}

func takesConnections(c discoveryv1.EndpointConditions) bool {
	return c.Ready == nil || *c.Ready || c.Serving != nil && *c.Serving
}

func slicePorts(p *problems, list []discoveryv1.EndpointPort) []policy.ServicePort {
	var ports []policy.ServicePort
	for i, entry := range list {
		path := fmt.Sprintf("ports[%d]", i)
		protocol, ok := policy.ProtocolTCP, true
		if entry.Protocol != nil {
			protocol, ok = kubernetesProtocol(*entry.Protocol)
		}
		switch {
		case !ok:
			p.addf(path+".protocol", "%q is not TCP, UDP or SCTP", *entry.Protocol)
		case entry.Port == nil:
			p.warn(path+".port", fmt.Errorf("%w: a port without a number", ErrNotSupported))
		case *entry.Port < 1 || *entry.Port > 65535:
			p.addf(path+".port", "%d is not a port: ports are 1 to 65535", *entry.Port)
		default:
			port := policy.ServicePort{Protocol: protocol, Port: uint16(*entry.Port)}
			if !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}
