// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// encodeNetwork encodes an event of a route, tunnel or pool. It reports whether it is one.
func encodeNetwork(m *wirepb.Event, e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.RouteUpdate:
		r := e.Route
		if r == nil {
			return false
		}
		m.Event = &wirepb.Event_RouteUpdate{RouteUpdate: &wirepb.Route{
			Destination: encodePrefix(r.Dst), Type: wirepb.RouteType(r.Type) + 1, Node: r.Node,
			NodeAddress: encodeAddress(r.NodeAddress), Pool: wirepb.PoolType(r.Pool), SameSubnet: r.SameSubnet,
			Borrowed: r.Borrowed, NatOutgoing: r.NATOutgoing,
		}}
	case *dataplane.RouteRemove:
		m.Event = &wirepb.Event_RouteRemove{RouteRemove: encodePrefix(e.Dst)}
	case *dataplane.TunnelUpdate:
		t := e.Tunnel
		if t == nil {
			return false
		}
		m.Event = &wirepb.Event_TunnelUpdate{TunnelUpdate: &wirepb.Tunnel{
			Key: encodeTunnelKey(t.Key()), Address: encodeAddress(t.Address), Mac: t.MAC,
			ParentAddress: encodeAddress(t.ParentAddress), Local: t.Local,
		}}
	case *dataplane.TunnelRemove:
		m.Event = &wirepb.Event_TunnelRemove{TunnelRemove: encodeTunnelKey(e.Key)}
	case *dataplane.PoolUpdate:
		p := e.Pool
		if p == nil {
			return false
		}
		m.Event = &wirepb.Event_PoolUpdate{PoolUpdate: &wirepb.Pool{
			Name: p.Name, Cidr: encodePrefix(p.CIDR), Type: wirepb.PoolType(p.Type), NatOutgoing: p.NATOutgoing,
			Disabled: p.Disabled,
		}}
	case *dataplane.PoolRemove:
		m.Event = &wirepb.Event_PoolRemove{PoolRemove: e.Name}
	default:
		return false
	}
	return true
}

func decodeNetwork(d *decoder, m *wirepb.Event) dataplane.Event {
	switch m := m.GetEvent().(type) {
	case *wirepb.Event_RouteUpdate:
		r := m.RouteUpdate
		return &dataplane.RouteUpdate{Route: &dataplane.Route{
			Dst:         d.prefix("destination", r.GetDestination()),
			Type:        enum[dataplane.RouteType](d, "type", r.GetType(), wirepb.RouteType_ROUTE_TYPE_BLACKHOLE),
			Node:        r.GetNode(),
			NodeAddress: d.optionalAddress("node_address", r.GetNodeAddress()),
			Pool:        d.poolType("pool", r.GetPool()), SameSubnet: r.GetSameSubnet(), Borrowed: r.GetBorrowed(),
			NATOutgoing: r.GetNatOutgoing(),
		}}
	case *wirepb.Event_RouteRemove:
		return &dataplane.RouteRemove{Dst: d.prefix("destination", m.RouteRemove)}
	case *wirepb.Event_TunnelUpdate:
		t := m.TunnelUpdate
		k := d.tunnelKey(t.GetKey())
		return &dataplane.TunnelUpdate{Tunnel: &dataplane.Tunnel{
			Node: k.Node, IPVersion: k.IPVersion, Encapsulation: k.Encapsulation,
			Address: d.address("address", t.GetAddress()), MAC: t.GetMac(),
			ParentAddress: d.address("parent_address", t.GetParentAddress()), Local: t.GetLocal(),
		}}
	case *wirepb.Event_TunnelRemove:
		return &dataplane.TunnelRemove{Key: d.tunnelKey(m.TunnelRemove)}
	case *wirepb.Event_PoolUpdate:
		p := m.PoolUpdate
		return &dataplane.PoolUpdate{Pool: &dataplane.Pool{
			Name: d.text("name", p.GetName()), CIDR: d.prefix("cidr", p.GetCidr()),
			Type: d.poolType("type", p.GetType()), NATOutgoing: p.GetNatOutgoing(), Disabled: p.GetDisabled(),
		}}
	case *wirepb.Event_PoolRemove:
		return &dataplane.PoolRemove{Name: d.text("name", m.PoolRemove)}
	}
	return nil
}

func encodeTunnelKey(k dataplane.TunnelKey) *wirepb.TunnelKey {
	return &wirepb.TunnelKey{
		Node: k.Node, IpVersion: uint32(k.IPVersion), Encapsulation: wirepb.Encapsulation(k.Encapsulation) + 1,
	}
}

func (d *decoder) tunnelKey(m *wirepb.TunnelKey) (k dataplane.TunnelKey) {
	d.in("key", func() {
		k.Node, k.IPVersion = d.text("node", m.GetNode()), int(m.GetIpVersion())
		if k.IPVersion != 4 && k.IPVersion != 6 {
			d.in("ip_version", func() { d.fail("%d, want 4 or 6", m.GetIpVersion()) })
		}
		k.Encapsulation = enum[dataplane.Encapsulation](
			d, "encapsulation", m.GetEncapsulation(), wirepb.Encapsulation_ENCAPSULATION_IPIP)
	})
	return k
}

// poolType decodes a type of pools: no pool is the zero value in both forms.
func (d *decoder) poolType(name string, t wirepb.PoolType) dataplane.PoolType {
	if t < 0 || !dataplane.PoolType(min(t, 255)).Valid() {
		d.in(name, func() { d.fail("unknown value %d", int32(t)) })
		return dataplane.PoolNone
	}
	return dataplane.PoolType(t)
}
