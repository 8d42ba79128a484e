// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// IPSetSpec defines the members of an IP set. Equal specs have equal ids, also across processes. It
// is immutable; make one with SelectorSet, NamedPortSet or ServiceSet.
type IPSetSpec struct {
	ID   dataplane.IPSetID
	Type dataplane.IPSetType
	// Selector over the effective labels of endpoints and network sets. Nil in the set of a
	// service.
	Selector *selector.Selector
	// PortName and Protocol, in sets of type IPSetPorts that have a selector: members are the ports
	// of this name, of this protocol, or of any where it is zero.
	PortName string
	Protocol policy.Protocol
	// ServiceNamespace and ServiceName, in the set of a service: members are its backends, with
	// their ports in a set of type IPSetPorts.
	ServiceNamespace, ServiceName string
}

// SelectorSet returns the spec of the addresses and networks that match a selector.
func SelectorSet(sel *selector.Selector) *IPSetSpec {
	return &IPSetSpec{ID: dataplane.IPSetID(sel.ID()), Type: dataplane.IPSetNets, Selector: sel}
}

// NamedPortSet returns the spec of the ports of a name on the endpoints that match a selector; a
// nil selector matches every endpoint. A zero protocol means the ports of that name of any
// protocol.
func NamedPortSet(sel *selector.Selector, name string, proto policy.Protocol) *IPSetSpec {
	if sel == nil {
		sel = selector.All()
	}
	return &IPSetSpec{
		ID:       setID("p:", "%d,%s,%s", proto, name, sel),
		Type:     dataplane.IPSetPorts,
		Selector: sel,
		PortName: name,
		Protocol: proto,
	}
}

// ServiceSet returns the spec of the backends of a service: of their addresses, or with type
// IPSetPorts of (address, protocol, port).
func ServiceSet(namespace, name string, typ dataplane.IPSetType) *IPSetSpec {
	return &IPSetSpec{
		ID:               setID("v:", "%d,%s/%s", typ, namespace, name),
		Type:             typ,
		ServiceNamespace: namespace,
		ServiceName:      name,
	}
}

// setID hashes what a set stands for.
func setID(prefix, format string, args ...any) dataplane.IPSetID {
	sum := sha256.Sum224(fmt.Appendf([]byte(prefix), format, args...))
	return dataplane.IPSetID(prefix + base64.RawURLEncoding.EncodeToString(sum[:]))
}

// wants reports whether a port of an endpoint belongs to the set.
func (s *IPSetSpec) wants(p policy.EndpointPort) bool {
	return p.Name == s.PortName && (s.Protocol == 0 || p.Protocol == s.Protocol)
}
