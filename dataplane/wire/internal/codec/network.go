// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// encodeNetwork encodes an event of a route, tunnel or pool. It returns false for other events. If
// the object is nil, it sets no content.
func encodeNetwork(c *cursor, m *wirepb.Event, e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.RouteUpdate:
		if e.Route != nil {
			m.Event = &wirepb.Event_RouteUpdate{RouteUpdate: encodeRoute(c, e.Route)}
		}
	case *dataplane.RouteRemove:
		m.Event = &wirepb.Event_RouteRemove{RouteRemove: encodePrefix(c, "destination", e.Dst)}
	case *dataplane.TunnelUpdate:
		if t := e.Tunnel; t != nil {
			m.Event = &wirepb.Event_TunnelUpdate{TunnelUpdate: &wirepb.Tunnel{
				Key: encodeTunnelKey(c, t.Key()), Address: encodeAddress(c, "address", t.Address), Mac: t.MAC,
				ParentAddress: encodeAddress(c, "parent_address", t.ParentAddress), Local: t.Local,
			}}
		}
	case *dataplane.TunnelRemove:
		m.Event = &wirepb.Event_TunnelRemove{TunnelRemove: encodeTunnelKey(c, e.Key)}
	case *dataplane.PoolUpdate:
		if p := e.Pool; p != nil {
			m.Event = &wirepb.Event_PoolUpdate{PoolUpdate: &wirepb.Pool{
				Name: p.Name, Cidr: encodePrefix(c, "cidr", p.CIDR), Type: encodePoolType(c, "type", p.Type),
				NatOutgoing: p.NATOutgoing, Disabled: p.Disabled,
			}}
		}
	case *dataplane.PoolRemove:
		m.Event = &wirepb.Event_PoolRemove{PoolRemove: e.Name}
	default:
		return false
	}
	return true
}

// decodeNetwork decodes an event of a route, tunnel or pool. It returns nil for other events.
func decodeNetwork(c *cursor, m *wirepb.Event) dataplane.Event {
	switch m := m.GetEvent().(type) {
	case *wirepb.Event_RouteUpdate:
		return &dataplane.RouteUpdate{Route: decodeRoute(c, m.RouteUpdate)}
	case *wirepb.Event_RouteRemove:
		return &dataplane.RouteRemove{Dst: prefixField(c, "destination", m.RouteRemove)}
	case *wirepb.Event_TunnelUpdate:
		t := m.TunnelUpdate
		k := tunnelKeyField(c, "key", t.GetKey())
		return &dataplane.TunnelUpdate{Tunnel: &dataplane.Tunnel{
			Node: k.Node, IPVersion: k.IPVersion, Encapsulation: k.Encapsulation,
			Address: addressField(c, "address", t.GetAddress()), MAC: t.GetMac(),
			ParentAddress: addressField(c, "parent_address", t.GetParentAddress()), Local: t.GetLocal(),
		}}
	case *wirepb.Event_TunnelRemove:
		return &dataplane.TunnelRemove{Key: tunnelKeyField(c, "key", m.TunnelRemove)}
	case *wirepb.Event_PoolUpdate:
		return &dataplane.PoolUpdate{Pool: decodePool(c, m.PoolUpdate)}
	case *wirepb.Event_PoolRemove:
		return &dataplane.PoolRemove{Name: identity[string](c, "name", m.PoolRemove)}
	}
	return nil
}

const lastRouteType = wirepb.RouteType_ROUTE_TYPE_REMOTE_UNREACHABLE

func encodeRoute(c *cursor, r *dataplane.Route) *wirepb.Route {
	return &wirepb.Route{
		Destination: encodePrefix(c, "destination", r.Dst),
		Type:        encodeEnum(c, "type", r.Type, lastRouteType), Node: r.Node,
		NodeAddress: encodeOptionalAddress(c, "node_address", r.NodeAddress),
		Pool:        encodePoolType(c, "pool", r.Pool), SameSubnet: r.SameSubnet, Borrowed: r.Borrowed,
		NatOutgoing: r.NATOutgoing,
	}
}

func decodeRoute(c *cursor, r *wirepb.Route) *dataplane.Route {
	return &dataplane.Route{
		Dst:         prefixField(c, "destination", r.GetDestination()),
		Type:        decodeEnum[dataplane.RouteType](c, "type", r.GetType(), lastRouteType),
		Node:        r.GetNode(),
		NodeAddress: optionalAddressField(c, "node_address", r.GetNodeAddress()),
		Pool:        decodePoolType(c, "pool", r.GetPool()), SameSubnet: r.GetSameSubnet(), Borrowed: r.GetBorrowed(),
		NATOutgoing: r.GetNatOutgoing(),
	}
}

// decodePool decodes a pool. Its type must be set. (The pool type of a route may be unset: the
// route is in no pool.)
func decodePool(c *cursor, p *wirepb.Pool) *dataplane.Pool {
	if p.GetType() == wirepb.PoolType_POOL_TYPE_UNSPECIFIED {
		c.failIn("type", "not set")
	}
	return &dataplane.Pool{
		Name: identity[string](c, "name", p.GetName()), CIDR: prefixField(c, "cidr", p.GetCidr()),
		Type: decodePoolType(c, "type", p.GetType()), NATOutgoing: p.GetNatOutgoing(), Disabled: p.GetDisabled(),
	}
}

func encodeTunnelKey(c *cursor, k dataplane.TunnelKey) *wirepb.TunnelKey {
	c.enter("key")
	defer c.leave()
	return &wirepb.TunnelKey{
		Node: k.Node, IpVersion: encodeIPVersion(c, "ip_version", k.IPVersion),
		Encapsulation: encodeEnum(c, "encapsulation", k.Encapsulation, wirepb.Encapsulation_ENCAPSULATION_IPIP),
	}
}

func tunnelKeyField(c *cursor, name string, m *wirepb.TunnelKey) dataplane.TunnelKey {
	c.enter(name)
	defer c.leave()
	return dataplane.TunnelKey{
		Node: identity[string](c, "node", m.GetNode()), IPVersion: ipVersion(c, "ip_version", m.GetIpVersion(), false),
		Encapsulation: decodeEnum[dataplane.Encapsulation](
			c, "encapsulation", m.GetEncapsulation(), wirepb.Encapsulation_ENCAPSULATION_IPIP),
	}
}

// encodePoolType encodes a pool type. In both types, zero means no pool.
func encodePoolType(c *cursor, name string, t dataplane.PoolType) wirepb.PoolType {
	if !t.Valid() {
		c.failIn(name, "unknown value %d", uint8(t))
	}
	return wirepb.PoolType(t)
}

func decodePoolType(c *cursor, name string, t wirepb.PoolType) dataplane.PoolType {
	if t < 0 || t > wirepb.PoolType_POOL_TYPE_IPIP_CROSS_SUBNET {
		c.failIn(name, "unknown value %d", int32(t))
		return dataplane.PoolNone
	}
	return dataplane.PoolType(t)
}
