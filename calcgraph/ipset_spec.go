// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// IPSetSpec says what an IP set stands for. Equal specs have equal ids, also across processes. It is
// immutable; make one with SelectorSet or NamedPortSet.
type IPSetSpec struct {
	ID   dataplane.IPSetID
	Type dataplane.IPSetType
	// Selector over the effective labels of endpoints and network sets.
	Selector *selector.Selector
	// PortName and Protocol, in sets of type IPSetPorts: members are the ports of this name,
	// of this protocol, or of any where it is zero.
	PortName string
	Protocol policy.Protocol
}

// SelectorSet returns the spec of the addresses and networks that match a selector.
func SelectorSet(sel *selector.Selector) *IPSetSpec {
	return &IPSetSpec{ID: dataplane.IPSetID(sel.ID()), Type: dataplane.IPSetNets, Selector: sel}
}

// NamedPortSet returns the spec of the ports of a name on the endpoints that match a selector; a nil
// selector matches every endpoint. A zero protocol means the ports of that name of any protocol.
func NamedPortSet(sel *selector.Selector, name string, proto policy.Protocol) *IPSetSpec {
	if sel == nil {
		sel = selector.All()
	}
	sum := sha256.Sum224(fmt.Appendf(nil, "p:%d,%s,%s", proto, name, sel))
	return &IPSetSpec{
		ID:       dataplane.IPSetID("p:" + base64.RawURLEncoding.EncodeToString(sum[:])),
		Type:     dataplane.IPSetPorts,
		Selector: sel,
		PortName: name,
		Protocol: proto,
	}
}

// member is what an endpoint or network set can put into sets.
type member struct {
	nets  []netip.Prefix
	ports []policy.EndpointPort
}

func endpointMember(w *policy.WorkloadEndpoint) member {
	m := member{ports: w.Ports, nets: make([]netip.Prefix, 0, len(w.Addresses))}
	for _, addr := range w.Addresses {
		addr = addr.Unmap()
		m.nets = append(m.nets, netip.PrefixFrom(addr, addr.BitLen()))
	}
	return m
}

// contribution returns what the member puts into a set, sorted and each once.
func (m member) contribution(spec *IPSetSpec) []dataplane.Member {
	var out []dataplane.Member
	for _, net := range m.nets {
		if spec.Type == dataplane.IPSetNets {
			out = append(out, dataplane.Member{Prefix: net})
			continue
		}
		for _, port := range m.ports {
			if port.Name == spec.PortName && (spec.Protocol == 0 || port.Protocol == spec.Protocol) {
				out = append(out, dataplane.Member{Prefix: net, Protocol: port.Protocol, Port: port.Port})
			}
		}
	}
	slices.SortFunc(out, dataplane.Member.Compare)
	return slices.Compact(out)
}

func (m member) equal(o member) bool {
	return slices.Equal(m.nets, o.nets) && slices.Equal(m.ports, o.ports)
}
