// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"math"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// encodeNames encodes an event of a node, service, namespace or service account. It reports whether it is one.
func encodeNames(m *wirepb.Event, e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.NodeUpdate:
		if e.Node == nil {
			return false
		}
		m.Event = &wirepb.Event_NodeUpdate{NodeUpdate: encodeNode(e.Node)}
	case *dataplane.NodeRemove:
		m.Event = &wirepb.Event_NodeRemove{NodeRemove: e.Name}
	case *dataplane.ServiceUpdate:
		if e.Service == nil {
			return false
		}
		m.Event = &wirepb.Event_ServiceUpdate{ServiceUpdate: encodeService(e.Service)}
	case *dataplane.ServiceRemove:
		m.Event = &wirepb.Event_ServiceRemove{ServiceRemove: EncodeKey(e.Key)}
	case *dataplane.NamespaceUpdate:
		if e.Namespace == nil {
			return false
		}
		m.Event = &wirepb.Event_NamespaceUpdate{
			NamespaceUpdate: &wirepb.Namespace{Name: e.Namespace.Name, Labels: e.Namespace.Labels},
		}
	case *dataplane.NamespaceRemove:
		m.Event = &wirepb.Event_NamespaceRemove{NamespaceRemove: e.Name}
	case *dataplane.ServiceAccountUpdate:
		if e.ServiceAccount == nil {
			return false
		}
		m.Event = &wirepb.Event_ServiceAccountUpdate{ServiceAccountUpdate: &wirepb.ServiceAccount{
			Key: encodeAccount(e.ServiceAccount.Key), Labels: e.ServiceAccount.Labels,
		}}
	case *dataplane.ServiceAccountRemove:
		m.Event = &wirepb.Event_ServiceAccountRemove{ServiceAccountRemove: encodeAccount(e.Key)}
	default:
		return false
	}
	return true
}

func decodeNames(d *decoder, m *wirepb.Event) dataplane.Event {
	switch m := m.GetEvent().(type) {
	case *wirepb.Event_NodeUpdate:
		n := m.NodeUpdate
		return &dataplane.NodeUpdate{Node: &dataplane.Node{
			Name: d.text("name", n.GetName()), Addresses: list(d, "addresses", n.GetAddresses(), decodeSubnet),
			WireguardAddresses: list(d, "wireguard_addresses", n.GetWireguardAddresses(), decodeAddress),
			WireguardKeys:      list(d, "wireguard_keys", n.GetWireguardKeys(), decodeWireguardKey),
			Labels:             n.GetLabels(),
		}}
	case *wirepb.Event_NodeRemove:
		return &dataplane.NodeRemove{Name: d.text("name", m.NodeRemove)}
	case *wirepb.Event_ServiceUpdate:
		s := m.ServiceUpdate
		return &dataplane.ServiceUpdate{Service: &dataplane.Service{
			Key: d.key("key", s.GetKey()), Name: s.GetName(),
			Addresses: list(d, "addresses", s.GetAddresses(), decodeAddress),
			Ports:     list(d, "ports", s.GetPorts(), decodeServicePort),
		}}
	case *wirepb.Event_ServiceRemove:
		return &dataplane.ServiceRemove{Key: d.key("key", m.ServiceRemove)}
	case *wirepb.Event_NamespaceUpdate:
		n := m.NamespaceUpdate
		return &dataplane.NamespaceUpdate{
			Namespace: &dataplane.Namespace{Name: d.text("name", n.GetName()), Labels: n.GetLabels()},
		}
	case *wirepb.Event_NamespaceRemove:
		return &dataplane.NamespaceRemove{Name: d.text("name", m.NamespaceRemove)}
	case *wirepb.Event_ServiceAccountUpdate:
		a := m.ServiceAccountUpdate
		return &dataplane.ServiceAccountUpdate{
			ServiceAccount: &dataplane.ServiceAccount{Key: d.account(a.GetKey()), Labels: a.GetLabels()},
		}
	case *wirepb.Event_ServiceAccountRemove:
		return &dataplane.ServiceAccountRemove{Key: d.account(m.ServiceAccountRemove)}
	}
	return nil
}

func encodeNode(n *dataplane.Node) *wirepb.Node {
	m := &wirepb.Node{
		Name: n.Name, Addresses: encodePrefixes(n.Addresses),
		WireguardAddresses: encodeAddresses(n.WireguardAddresses), Labels: n.Labels,
	}
	for _, k := range n.WireguardKeys {
		m.WireguardKeys = append(m.WireguardKeys, &wirepb.WireguardKey{
			PublicKey: k.PublicKey, Port: uint32(k.Port), Rotating: k.Rotating,
		})
	}
	return m
}

func decodeWireguardKey(d *decoder, m *wirepb.WireguardKey, k *policy.WireguardKey) {
	*k = policy.WireguardKey{
		PublicKey: m.GetPublicKey(), Port: number[uint16](d, "port", m.GetPort(), math.MaxUint16),
		Rotating: m.GetRotating(),
	}
}

func encodeService(s *dataplane.Service) *wirepb.Service {
	m := &wirepb.Service{Key: EncodeKey(s.Key), Name: s.Name, Addresses: encodeAddresses(s.Addresses)}
	for _, p := range s.Ports {
		m.Ports = append(m.Ports, &wirepb.ServicePort{Protocol: uint32(p.Protocol), Port: uint32(p.Port)})
	}
	return m
}

func decodeServicePort(d *decoder, m *wirepb.ServicePort, p *policy.ServicePort) {
	p.Protocol = number[policy.Protocol](d, "protocol", m.GetProtocol(), math.MaxUint8)
	p.Port = number[uint16](d, "port", m.GetPort(), math.MaxUint16)
}

func encodeAccount(k dataplane.ServiceAccountKey) *wirepb.ServiceAccountKey {
	return &wirepb.ServiceAccountKey{Namespace: k.Namespace, Name: k.Name}
}

func (d *decoder) account(m *wirepb.ServiceAccountKey) (k dataplane.ServiceAccountKey) {
	d.in("key", func() {
		k = dataplane.ServiceAccountKey{Namespace: m.GetNamespace(), Name: d.text("name", m.GetName())}
	})
	return k
}
