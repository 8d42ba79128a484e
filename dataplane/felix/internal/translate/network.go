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

// snapshot sends all objects of the network.
func (w *network) snapshot() {
	for _, node := range w.vtepNodes() {
		w.sendVTEP(node)
	}
	each(w.routes, dataplane.ComparePrefixes, func(_ netip.Prefix, r *dataplane.Route) { w.sendRoute(r) })
	each(w.nodes, strings.Compare, func(_ string, n *dataplane.Node) { w.sendNode(nil, n) })
	for _, cidr := range w.poolCIDRs() {
		w.sendPool(cidr)
	}
	w.sendEncapsulation()
	each(w.namespaces, strings.Compare, func(_ string, n *dataplane.Namespace) { w.sendNamespace(n) })
	each(w.accounts, dataplane.ServiceAccountKey.Compare,
		func(_ dataplane.ServiceAccountKey, a *dataplane.ServiceAccount) { w.sendAccount(a) })
}

// removeUnreachable removes the routes that events change to the type RouteRemoteUnreachable. Felix
// has no such type: to Felix, such a route is removed. It must be removed before its tunnel, but a
// batch has route updates after tunnel removals.
func (w *network) removeUnreachable(events []dataplane.Event) {
	for _, e := range events {
		if u, ok := e.(*dataplane.RouteUpdate); ok && u.Route.Type == dataplane.RouteRemoteUnreachable {
			w.removeRoute(u.Route.Dst)
		}
	}
}

// apply applies an event of an object of the network. It ignores events of services: Felix has no
// message for backends.
func (w *network) apply(e dataplane.Event) {
	switch e := e.(type) {
	case *dataplane.RouteUpdate:
		if e.Route.Type == dataplane.RouteRemoteUnreachable { // Felix has no type for it, and no route without a path
			w.removeRoute(e.Route.Dst)
			return
		}
		update(w.send != nil, w.routes, e.Route.Dst, e.Route,
			func(_ netip.Prefix, r *dataplane.Route) { w.sendRoute(r) })
	case *dataplane.RouteRemove:
		w.removeRoute(e.Dst)
	case *dataplane.TunnelUpdate:
		w.updateTunnel(e.Tunnel.Key(), e.Tunnel)
	case *dataplane.TunnelRemove:
		w.updateTunnel(e.Key, nil)
	case *dataplane.NodeUpdate:
		old := w.nodes[e.Node.Name]
		update(w.send != nil, w.nodes, e.Node.Name, e.Node, func(_ string, n *dataplane.Node) { w.sendNode(old, n) })
	case *dataplane.NodeRemove:
		w.removeNode(e.Name)
	case *dataplane.PoolUpdate:
		w.updatePool(e.Pool.Name, e.Pool)
	case *dataplane.PoolRemove:
		w.updatePool(e.Name, nil)
	default:
		w.applyNames(e)
	}
}

// routeType has the values of the fields type and types of a RouteUpdate.
type routeType struct {
	enum felixpb.RouteType
	bits int32
}

// typeOf returns the type of a route. A block of this node has the type LOCAL_WORKLOAD, with
// local_workload not set.
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

func (w *network) sendRoute(r *dataplane.Route) {
	typ := typeOf(r.Type)
	msg := &felixpb.RouteUpdate{
		Dst: r.Dst.String(), DstNodeName: r.Node, Types: typ.bits, IpPoolType: poolType(r.Pool),
		SameSubnet: r.SameSubnet, NatOutgoing: r.NATOutgoing, Borrowed: r.Borrowed,
		LocalWorkload: r.Type == dataplane.RouteLocalWorkload,
	}
	if w.dialect == Tiers {
		msg.Type = typ.enum
	}
	if r.NodeAddress.IsValid() {
		msg.DstNodeIp = r.NodeAddress.String()
	}
	if r.Type == dataplane.RouteLocalTunnel || r.Type == dataplane.RouteRemoteTunnel {
		msg.TunnelType = &felixpb.TunnelType{
			Vxlan: msg.IpPoolType == felixpb.IPPoolType_VXLAN, Ipip: msg.IpPoolType == felixpb.IPPoolType_IPIP,
		}
	}
	w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_RouteUpdate{RouteUpdate: msg}})
}

func (w *network) removeRoute(dst netip.Prefix) {
	if w.routes[dst] != nil && w.send != nil {
		w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_RouteRemove{
			RouteRemove: &felixpb.RouteRemove{Dst: dst.String()},
		}})
	}
	delete(w.routes, dst)
}

// updateTunnel replaces a tunnel endpoint, or removes it if tunnel is nil. Felix has one message
// for both VXLAN devices of a node, and none for IP-in-IP devices.
func (w *network) updateTunnel(key dataplane.TunnelKey, tunnel *dataplane.Tunnel) {
	old := w.tunnels[key]
	if tunnel == nil {
		delete(w.tunnels, key)
	} else {
		w.tunnels[key] = tunnel
	}
	if w.send != nil && key.Encapsulation == dataplane.EncapVXLAN && !old.Equal(tunnel) {
		w.sendVTEP(key.Node)
	}
}

// vtep returns the VXLAN device of a node for an IP version, or nil.
func (w *network) vtep(node string, version int) *dataplane.Tunnel {
	return w.tunnels[dataplane.TunnelKey{Node: node, IPVersion: version}]
}

// vtepNodes returns the nodes with VXLAN devices, sorted.
func (w *network) vtepNodes() (nodes []string) {
	for key := range w.tunnels {
		if key.Encapsulation == dataplane.EncapVXLAN {
			nodes = append(nodes, key.Node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// sendVTEP sends the VXLAN devices of a node, or their removal if there are none.
func (w *network) sendVTEP(node string) {
	msg := &felixpb.VXLANTunnelEndpointUpdate{Node: node}
	v4, v6 := w.vtep(node, 4), w.vtep(node, 6)
	if v4 == nil && v6 == nil {
		w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_VtepRemove{
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
	w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_VtepUpdate{VtepUpdate: msg}})
}

// updatePool replaces a pool, or removes it if p is nil. Felix identifies a pool by its range. Of
// several pools with the same range, the one whose name sorts first is sent.
func (w *network) updatePool(name string, p *dataplane.Pool) {
	old, encapsulation := w.pools[name], w.encapsulation()
	if old.Equal(p) {
		return
	}
	if p == nil {
		delete(w.pools, name)
	} else {
		w.pools[name] = p
	}
	if w.send == nil {
		return
	}
	if old != nil && (p == nil || old.CIDR != p.CIDR) {
		w.sendPool(old.CIDR)
	}
	if p != nil {
		w.sendPool(p.CIDR)
	}
	if w.encapsulation() != encapsulation {
		w.sendEncapsulation()
	}
}

// poolCIDRs returns the ranges of pools, sorted.
func (w *network) poolCIDRs() []netip.Prefix {
	var cidrs []netip.Prefix
	for _, p := range w.pools {
		cidrs = append(cidrs, p.CIDR)
	}
	slices.SortFunc(cidrs, dataplane.ComparePrefixes)
	return slices.Compact(cidrs)
}

// sendPool sends the pool with a range, or its removal if there is none.
func (w *network) sendPool(cidr netip.Prefix) {
	var p *dataplane.Pool
	for _, name := range slices.Sorted(maps.Keys(w.pools)) {
		if p == nil && w.pools[name].CIDR == cidr {
			p = w.pools[name]
		}
	}
	id := strings.Replace(cidr.String(), "/", "-", 1)
	if p == nil {
		w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_IpamPoolRemove{
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
	w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_IpamPoolUpdate{
		IpamPoolUpdate: &felixpb.IPAMPoolUpdate{Id: id, Pool: msg},
	}})
}

// encapsulation has the encapsulations that pools use.
type encapsulation struct{ direct, ipip, vxlan, vxlan6 bool }

func (w *network) encapsulation() (e encapsulation) {
	for _, p := range w.pools {
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

func (w *network) sendEncapsulation() {
	e := w.encapsulation()
	w.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_Encapsulation{Encapsulation: &felixpb.Encapsulation{
		IpipEnabled: e.ipip, VxlanEnabled: e.vxlan, VxlanEnabledV6: e.vxlan6, NoEncapEnabled: e.direct,
	}}})
}
