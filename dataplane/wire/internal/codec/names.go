// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// encodeNames encodes an event of a node, service, namespace or service account. It returns false
// for other events. If the object is nil, it sets no content.
func encodeNames(c *cursor, m *wirepb.Event, e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.NodeUpdate:
		if e.Node != nil {
			m.Event = &wirepb.Event_NodeUpdate{NodeUpdate: encodeNode(c, e.Node)}
		}
	case *dataplane.NodeRemove:
		m.Event = &wirepb.Event_NodeRemove{NodeRemove: e.Name}
	case *dataplane.ServiceUpdate:
		if e.Service != nil {
			m.Event = &wirepb.Event_ServiceUpdate{ServiceUpdate: encodeService(c, e.Service)}
		}
	case *dataplane.ServiceRemove:
		m.Event = &wirepb.Event_ServiceRemove{ServiceRemove: EncodeKey(e.Key)}
	case *dataplane.NamespaceUpdate:
		if n := e.Namespace; n != nil {
			m.Event = &wirepb.Event_NamespaceUpdate{
				NamespaceUpdate: &wirepb.Namespace{Name: n.Name, Labels: n.Labels},
			}
		}
	case *dataplane.NamespaceRemove:
		m.Event = &wirepb.Event_NamespaceRemove{NamespaceRemove: e.Name}
	case *dataplane.ServiceAccountUpdate:
		if a := e.ServiceAccount; a != nil {
			m.Event = &wirepb.Event_ServiceAccountUpdate{
				ServiceAccountUpdate: &wirepb.ServiceAccount{Key: encodeAccountKey(a.Key), Labels: a.Labels},
			}
		}
	case *dataplane.ServiceAccountRemove:
		m.Event = &wirepb.Event_ServiceAccountRemove{ServiceAccountRemove: encodeAccountKey(e.Key)}
	default:
		return false
	}
	return true
}

// decodeNames decodes an event of a node, service, namespace or service account. It returns nil for
// other events.
func decodeNames(c *cursor, m *wirepb.Event) dataplane.Event {
	switch m := m.GetEvent().(type) {
	case *wirepb.Event_NodeUpdate:
		return &dataplane.NodeUpdate{Node: decodeNode(c, m.NodeUpdate)}
	case *wirepb.Event_NodeRemove:
		return &dataplane.NodeRemove{Name: identity[string](c, "name", m.NodeRemove)}
	case *wirepb.Event_ServiceUpdate:
		return &dataplane.ServiceUpdate{Service: decodeService(c, m.ServiceUpdate)}
	case *wirepb.Event_ServiceRemove:
		return &dataplane.ServiceRemove{Key: keyField(c, "key", m.ServiceRemove)}
	case *wirepb.Event_NamespaceUpdate:
		n := m.NamespaceUpdate
		return &dataplane.NamespaceUpdate{Namespace: &dataplane.Namespace{
			Name: identity[string](c, "name", n.GetName()), Labels: n.GetLabels(),
		}}
	case *wirepb.Event_NamespaceRemove:
		return &dataplane.NamespaceRemove{Name: identity[string](c, "name", m.NamespaceRemove)}
	case *wirepb.Event_ServiceAccountUpdate:
		a := m.ServiceAccountUpdate
		return &dataplane.ServiceAccountUpdate{ServiceAccount: &dataplane.ServiceAccount{
			Key: accountKeyField(c, "key", a.GetKey()), Labels: a.GetLabels(),
		}}
	case *wirepb.Event_ServiceAccountRemove:
		return &dataplane.ServiceAccountRemove{Key: accountKeyField(c, "key", m.ServiceAccountRemove)}
	}
	return nil
}

func encodeNode(c *cursor, n *dataplane.Node) *wirepb.Node {
	m := &wirepb.Node{
		Name: n.Name, Addresses: encodePrefixes(c, "addresses", n.Addresses),
		WireguardAddresses: encodeAddresses(c, "wireguard_addresses", n.WireguardAddresses), Labels: n.Labels,
	}
	for _, k := range n.WireguardKeys {
		m.WireguardKeys = append(m.WireguardKeys, &wirepb.WireguardKey{
			PublicKey: k.PublicKey, Port: uint32(k.Port), Rotating: k.Rotating,
		})
	}
	return m
}

func decodeNode(c *cursor, n *wirepb.Node) *dataplane.Node {
	return &dataplane.Node{
		Name:               identity[string](c, "name", n.GetName()),
		Addresses:          decodeList(c, "addresses", n.GetAddresses(), decodeSubnet),
		WireguardAddresses: decodeList(c, "wireguard_addresses", n.GetWireguardAddresses(), decodeAddress),
		WireguardKeys:      decodeList(c, "wireguard_keys", n.GetWireguardKeys(), decodeWireguardKey),
		Labels:             n.GetLabels(),
	}
}

// decodeWireguardKey decodes a key. The zero key is valid: it means that the node announces an
// invalid key.
func decodeWireguardKey(c *cursor, m *wirepb.WireguardKey, k *policy.WireguardKey) {
	k.PublicKey, k.Rotating = m.GetPublicKey(), m.GetRotating()
	k.Port = number[uint16](c, "port", m.GetPort(), 0, maxPort)
}

func encodeService(c *cursor, s *dataplane.Service) *wirepb.Service {
	m := &wirepb.Service{
		Key: EncodeKey(s.Key), Name: s.Name, Addresses: encodeAddresses(c, "addresses", s.Addresses),
	}
	for _, p := range s.Ports {
		m.Ports = append(m.Ports, &wirepb.ServicePort{Protocol: uint32(p.Protocol), Port: uint32(p.Port)})
	}
	return m
}

func decodeService(c *cursor, s *wirepb.Service) *dataplane.Service {
	return &dataplane.Service{
		Key: keyField(c, "key", s.GetKey()), Name: s.GetName(),
		Addresses: decodeList(c, "addresses", s.GetAddresses(), decodeAddress),
		Ports:     decodeList(c, "ports", s.GetPorts(), decodeServicePort),
	}
}

func decodeServicePort(c *cursor, m *wirepb.ServicePort, p *policy.ServicePort) {
	p.Protocol = number[policy.Protocol](c, "protocol", m.GetProtocol(), 1, maxProtocol)
	p.Port = number[uint16](c, "port", m.GetPort(), 1, maxPort)
}

func encodeAccountKey(k dataplane.ServiceAccountKey) *wirepb.ServiceAccountKey {
	return &wirepb.ServiceAccountKey{Namespace: k.Namespace, Name: k.Name}
}

func accountKeyField(c *cursor, name string, m *wirepb.ServiceAccountKey) dataplane.ServiceAccountKey {
	c.enter(name)
	defer c.leave()
	return dataplane.ServiceAccountKey{
		Namespace: identity[string](c, "namespace", m.GetNamespace()), Name: identity[string](c, "name", m.GetName()),
	}
}
