// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
)

// applyNetwork takes an event that is neither about sets nor about policy. Felix has no message for the backends of a
// service.
func (t *Translator) applyNetwork(e dataplane.Event) {
	switch e := e.(type) {
	case *dataplane.RouteUpdate:
		update(t, t.network.routes, e.Route.Dst, e.Route, func(_ netip.Prefix, r *dataplane.Route) { t.sendRoute(r) })
	case *dataplane.RouteRemove:
		t.removeRoute(e.Dst)
	case *dataplane.TunnelUpdate:
		t.updateTunnel(e.Tunnel.Key(), e.Tunnel)
	case *dataplane.TunnelRemove:
		t.updateTunnel(e.Key, nil)
	case *dataplane.NodeUpdate:
		old := t.network.nodes[e.Node.Name]
		update(t, t.network.nodes, e.Node.Name, e.Node, func(_ string, n *dataplane.Node) { t.sendNode(old, n) })
	case *dataplane.NodeRemove:
		t.removeNode(e.Name)
	case *dataplane.PoolUpdate:
		t.updatePool(e.Pool.Name, e.Pool)
	case *dataplane.PoolRemove:
		t.updatePool(e.Name, nil)
	default:
		t.applyNames(e)
	}
}

// routeType is a type of a route in both numberings.
type routeType struct {
	old  felixpb.RouteType
	bits int32
}

// typeOf returns the type of a route. A block of this node is in Felix a route of type LOCAL_WORKLOAD without
// local_workload.
func typeOf(t dataplane.RouteType) routeType {
	switch t {
	case dataplane.RouteRemoteWorkload:
		return routeType{felixpb.RouteType_REMOTE_WORKLOAD, 1}
	case dataplane.RouteRemoteHost:
		return routeType{felixpb.RouteType_REMOTE_HOST, 2}
	case dataplane.RouteLocalWorkload, dataplane.RouteBlackhole:
		return routeType{felixpb.RouteType_LOCAL_WORKLOAD, 4}
	case dataplane.RouteLocalHost:
		return routeType{felixpb.RouteType_LOCAL_HOST, 8}
	case dataplane.RouteRemoteTunnel:
		return routeType{felixpb.RouteType_REMOTE_TUNNEL, 16}
	case dataplane.RouteLocalTunnel:
		return routeType{felixpb.RouteType_LOCAL_TUNNEL, 32}
	}
	return routeType{felixpb.RouteType_CIDR_INFO, 0}
}

func poolType(t dataplane.PoolType) felixpb.IPPoolType {
	switch t {
	case dataplane.PoolDirect:
		return felixpb.IPPoolType_NO_ENCAP
	case dataplane.PoolVXLAN, dataplane.PoolVXLANCrossSubnet:
		return felixpb.IPPoolType_VXLAN
	case dataplane.PoolIPIP, dataplane.PoolIPIPCrossSubnet:
		return felixpb.IPPoolType_IPIP
	}
	return felixpb.IPPoolType_NONE
}

func (t *Translator) sendRoute(r *dataplane.Route) {
	typ := typeOf(r.Type)
	msg := &felixpb.RouteUpdate{
		Dst: r.Dst.String(), DstNodeName: r.Node, Types: typ.bits, IpPoolType: poolType(r.Pool),
		SameSubnet: r.SameSubnet, NatOutgoing: r.NATOutgoing, Borrowed: r.Borrowed,
		LocalWorkload: r.Type == dataplane.RouteLocalWorkload,
	}
	if t.dialect == Tiers {
		msg.Type = typ.old
	}
	if r.NodeAddress.IsValid() {
		msg.DstNodeIp = r.NodeAddress.String()
	}
	if r.Type == dataplane.RouteLocalTunnel || r.Type == dataplane.RouteRemoteTunnel {
		msg.TunnelType = &felixpb.TunnelType{
			Vxlan: msg.IpPoolType == felixpb.IPPoolType_VXLAN, Ipip: msg.IpPoolType == felixpb.IPPoolType_IPIP,
		}
	}
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_RouteUpdate{RouteUpdate: msg}})
}

func (t *Translator) removeRoute(dst netip.Prefix) {
	if t.network.routes[dst] != nil && t.send != nil {
		t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_RouteRemove{
			RouteRemove: &felixpb.RouteRemove{Dst: dst.String()},
		}})
	}
	delete(t.network.routes, dst)
}

// updateTunnel replaces a tunnel endpoint. Felix has one message for the VXLAN devices of a node, and none for
// IP-in-IP devices.
func (t *Translator) updateTunnel(key dataplane.TunnelKey, tunnel *dataplane.Tunnel) {
	old := t.network.tunnels[key]
	if tunnel == nil {
		delete(t.network.tunnels, key)
	} else {
		t.network.tunnels[key] = tunnel
	}
	if t.send != nil && key.Encapsulation == dataplane.EncapVXLAN && !old.Equal(tunnel) {
		t.sendVTEP(key.Node)
	}
}

// vtep returns the VXLAN device of a node, or nil.
func (t *Translator) vtep(node string, version int) *dataplane.Tunnel {
	return t.network.tunnels[dataplane.TunnelKey{Node: node, IPVersion: version}]
}

// vtepNodes returns the nodes with VXLAN devices, sorted.
func (t *Translator) vtepNodes() (nodes []string) {
	for key := range t.network.tunnels {
		if key.Encapsulation == dataplane.EncapVXLAN {
			nodes = append(nodes, key.Node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// sendVTEP sends the VXLAN devices of a node, or that there are none.
func (t *Translator) sendVTEP(node string) {
	msg := &felixpb.VXLANTunnelEndpointUpdate{Node: node}
	v4, v6 := t.vtep(node, 4), t.vtep(node, 6)
	if v4 == nil && v6 == nil {
		t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_VtepRemove{
			VtepRemove: &felixpb.VXLANTunnelEndpointRemove{Node: node},
		}})
		return
	}
	if v4 != nil {
		msg.Mac, msg.Ipv4Addr, msg.ParentDeviceIp = v4.MAC, v4.Address.String(), v4.ParentAddress.String()
	}
	if v6 != nil {
		msg.MacV6, msg.Ipv6Addr, msg.ParentDeviceIpv6 = v6.MAC, v6.Address.String(), v6.ParentAddress.String()
	}
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_VtepUpdate{VtepUpdate: msg}})
}

// updatePool replaces a pool. Felix identifies pools by their range: of several with the same one, that with the
// smallest name counts.
func (t *Translator) updatePool(name string, p *dataplane.Pool) {
	old, encapsulation := t.network.pools[name], t.encapsulation()
	if old.Equal(p) {
		return
	}
	if p == nil {
		delete(t.network.pools, name)
	} else {
		t.network.pools[name] = p
	}
	if t.send == nil {
		return
	}
	if old != nil && (p == nil || old.CIDR != p.CIDR) {
		t.sendPool(old.CIDR)
	}
	if p != nil {
		t.sendPool(p.CIDR)
	}
	if t.encapsulation() != encapsulation {
		t.sendEncapsulation()
	}
}

// poolCIDRs returns the ranges of pools, sorted.
func (t *Translator) poolCIDRs() []netip.Prefix {
	var cidrs []netip.Prefix
	for _, p := range t.network.pools {
		cidrs = append(cidrs, p.CIDR)
	}
	slices.SortFunc(cidrs, dataplane.ComparePrefixes)
	return slices.Compact(cidrs)
}

// sendPool sends the pool with a range, or that there is none.
func (t *Translator) sendPool(cidr netip.Prefix) {
	var p *dataplane.Pool
	for _, name := range slices.Sorted(maps.Keys(t.network.pools)) {
		if p == nil && t.network.pools[name].CIDR == cidr {
			p = t.network.pools[name]
		}
	}
	id := strings.Replace(cidr.String(), "/", "-", 1)
	if p == nil {
		t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_IpamPoolRemove{
			IpamPoolRemove: &felixpb.IPAMPoolRemove{Id: id},
		}})
		return
	}
	msg, mode := &felixpb.IPAMPool{Cidr: cidr.String(), Masquerade: p.NATOutgoing}, "always"
	if p.Type.CrossSubnet() {
		mode = "cross-subnet"
	}
	switch poolType(p.Type) {
	case felixpb.IPPoolType_IPIP:
		msg.IpipMode = mode
	case felixpb.IPPoolType_VXLAN:
		msg.VxlanMode = mode
	}
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_IpamPoolUpdate{
		IpamPoolUpdate: &felixpb.IPAMPoolUpdate{Id: id, Pool: msg},
	}})
}

// encapsulation has the encapsulations of pools.
type encapsulation struct{ direct, ipip, vxlan, vxlan6 bool }

func (t *Translator) encapsulation() (e encapsulation) {
	for _, p := range t.network.pools {
		switch typ := poolType(p.Type); {
		case typ == felixpb.IPPoolType_NO_ENCAP:
			e.direct = true
		case typ == felixpb.IPPoolType_IPIP:
			e.ipip = true
		case typ == felixpb.IPPoolType_VXLAN && p.CIDR.Addr().Is4():
			e.vxlan = true
		case typ == felixpb.IPPoolType_VXLAN:
			e.vxlan6 = true
		}
	}
	return e
}

func (t *Translator) sendEncapsulation() {
	e := t.encapsulation()
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_Encapsulation{Encapsulation: &felixpb.Encapsulation{
		IpipEnabled: e.ipip, VxlanEnabled: e.vxlan, VxlanEnabledV6: e.vxlan6, NoEncapEnabled: e.direct,
	}}})
}
