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

// IPSetSpec defines which members an IP set has. Make one with SelectorSet, NamedPortSet or
// ServiceSet. Equal specs have equal ids, also in other processes. An IPSetSpec is immutable.
type IPSetSpec struct {
	ID   dataplane.IPSetID
	Type dataplane.IPSetType
	// Selector on the effective labels of endpoints and network sets. Nil for the set of a service.
	Selector *selector.Selector
	// PortName and Protocol are for sets of type IPSetPorts with a selector. Members are the ports
	// with this name and protocol. A zero Protocol means any protocol.
	PortName string
	Protocol policy.Protocol
	// ServiceNamespace and ServiceName are for the set of a service. Members are the backends of
	// the service, with their ports if the type is IPSetPorts.
	ServiceNamespace, ServiceName string
}

// SelectorSet returns the spec of a set with the addresses of the endpoints and network sets that
// match a selector.
func SelectorSet(sel *selector.Selector) *IPSetSpec {
	return &IPSetSpec{ID: dataplane.IPSetID(sel.ID()), Type: dataplane.IPSetNets, Selector: sel}
}

// NamedPortSet returns the spec of a set with the named ports of endpoints. Its members are the
// ports with the given name and protocol, of all endpoints that match the selector. A nil selector
// matches every endpoint. A zero protocol means any protocol.
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

// ServiceSet returns the spec of a set with the backends of a service. The members are addresses if
// typ is IPSetNets, and combinations of address, protocol and port if typ is IPSetPorts.
func ServiceSet(namespace, name string, typ dataplane.IPSetType) *IPSetSpec {
	return &IPSetSpec{
		ID:               setID("v:", "%d,%s/%s", typ, namespace, name),
		Type:             typ,
		ServiceNamespace: namespace,
		ServiceName:      name,
	}
}

// setID returns the id of a set: a hash of its definition.
func setID(prefix, format string, args ...any) dataplane.IPSetID {
	sum := sha256.Sum224(fmt.Appendf([]byte(prefix), format, args...))
	return dataplane.IPSetID(prefix + base64.RawURLEncoding.EncodeToString(sum[:]))
}

// includes reports whether a port of an endpoint belongs to the set.
func (s *IPSetSpec) includes(p policy.EndpointPort) bool {
	return p.Name == s.PortName && (s.Protocol == 0 || p.Protocol == s.Protocol)
}
