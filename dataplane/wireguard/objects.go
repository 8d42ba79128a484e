// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
)

// dropMetric is the metric of blackhole routes. It is so large that every other route to a
// destination has precedence.
const dropMetric = 1 << 31

// objects are the objects of a Keeper, by identity.
type objects map[any]routes.Object

// routeID is the identity of a route.
type routeID struct {
	dst           netip.Prefix
	table, metric uint32
}

// add adds an object, or replaces the one with the same identity.
func (o objects) add(object routes.Object) { o[identity(object)] = object }

// identity returns the key of an object in objects.
func identity(object routes.Object) any {
	switch x := object.(type) {
	case routes.Route:
		return routeID{x.Dst, x.Table, x.Metric}
	case routes.Setting:
		return x.Path
	case routes.Wireguard:
		return x.Name
	default: // a rule: all its fields are its identity
		return x
	}
}

// desiredObjects returns the desired devices and their settings and, if this node encrypts, the
// desired routes and rules. The parameter deviceName returns the name of the device through which
// this node sends to a remote node. The method also sets s.encrypted and s.throws.
func (s *state) desiredObjects(nodes map[string]*remoteNode, deviceName func(*remoteNode) string) objects {
	all := s.ownBlackholes()
	s.addDevices(all)
	s.encrypted, s.throws = map[netip.Prefix]struct{}{}, nil
	if !s.encrypting {
		return all
	}
	// With strict rp_filter, the kernel drops unencrypted IPv4 packets from an address that is
	// routed by a WireGuard device. Packets to a pod by a NodePort are an example. With
	// HostEncryption the kernel also ignores ARP requests.
	for _, name := range s.interfaces.uplinks {
		all.add(routes.Setting{Path: "net/ipv4/conf/" + name + "/rp_filter", Value: "2"})
	}
	for _, n := range nodes {
		list := n.prefixes
		if s.cfg.HostEncryption {
			list = n.allowedIPs()
		}
		for _, dst := range list {
			s.encrypted[dst] = struct{}{}
			// This route drops packets while there is no route over the device. There is none while
			// the device is missing or down, or while the remote node is at fault.
			all.add(routes.Route{Dst: dst, Table: s.cfg.Table, Type: routes.Blackhole, Metric: dropMetric})
			route := routes.Route{Dst: dst, Table: s.cfg.Table, Type: routes.Blackhole}
			if n.err == nil {
				route.Type, route.Interface = routes.Unicast, deviceName(n)
				route.Source = s.ownAddress(version(dst.Addr()))
			}
			all.add(route) // also if packets are dropped: it replaces the throw route of the previous state
		}
	}
	for dst, r := range s.routes {
		if r.Type == dataplane.RoutePool || r.Type == dataplane.RouteRemoteUnreachable {
			continue // past the encryption, there is no route to an unreachable prefix
		}
		if _, ok := s.encrypted[dst]; !ok && hasShorterPrefix(s.encrypted, dst) {
			s.throws = append(s.throws, dst)
			all.add(routes.Route{Dst: dst, Table: s.cfg.Table, Type: routes.Throw})
		}
	}
	s.addRules(all)
	return all
}

// ownBlackholes returns blackhole routes in the main table for this node's blocks, and for its
// workloads outside of its blocks. Until package routes adds the route to a workload, decrypted
// packets to the workload could leave by the default route. Packets that a throw route leads past
// the encryption could leave in the same way. The blackhole routes drop all of these packets. A
// workload in a subnet of s.interfaces.bridged gets no blackhole route, because the workload gets
// no route of its own.
func (s *state) ownBlackholes() objects {
	all := objects{}
	for dst, r := range s.routes {
		outside := r.Type == dataplane.RouteLocalWorkload && !s.inOwnBlock(dst) &&
			!hasShorterPrefix(s.interfaces.bridged, dst)
		if r.Type == dataplane.RouteBlackhole || outside {
			all.add(routes.Route{Dst: dst, Table: routes.DefaultTable, Type: routes.Blackhole, Metric: dropMetric})
		}
	}
	return all
}

// inOwnBlock reports whether p is in one of this node's blocks: whether the longest prefix that
// contains p, pools not counted, is such a block.
func (s *state) inOwnBlock(p netip.Prefix) bool {
	for bits := p.Bits() - 1; bits >= 0; bits-- {
		r := s.routes[netip.PrefixFrom(p.Addr(), bits).Masked()]
		if r != nil && r.Type != dataplane.RoutePool {
			return r.Type == dataplane.RouteBlackhole
		}
	}
	return false
}

// addDevices adds the devices and their settings.
func (s *state) addDevices(all objects) {
	var addresses []netip.Prefix
	var local netip.Addr
	if n := s.nodes[s.cfg.Node]; n != nil {
		for _, a := range n.WireguardAddresses {
			addresses = append(addresses, netip.PrefixFrom(a, a.BitLen()))
		}
		if len(n.Addresses) > 0 {
			local = n.Addresses[0].Addr()
		}
	}
	for _, d := range s.cfg.Devices {
		all.add(routes.Wireguard{Name: d.Name, Local: local, MTU: s.cfg.MTU, Addresses: addresses})
		// 2 is loose: another node may send through a device other than the one that this node uses
		// for it.
		for name, value := range map[string]string{"forwarding": "1", "rp_filter": "2"} {
			path := fmt.Sprintf("net/ipv4/conf/%s/%s", d.Name, name)
			all.add(routes.Setting{Path: path, Value: value, Interface: d.Name})
		}
	}
}

// addRules adds the rules of the families that have encrypted prefixes.
func (s *state) addRules(all objects) {
	families := map[int]bool{}
	for dst := range s.encrypted {
		families[version(dst.Addr())] = true
	}
	for family := range families {
		all.add(routes.Rule{Family: family, Priority: s.cfg.RulePriority + 1, Table: s.cfg.Table})
		end := s.cfg.RulePriority + 2
		all.add(routes.Rule{Family: family, Priority: end})
		exception := routes.Rule{Family: family, Priority: s.cfg.RulePriority, Goto: end}
		if !s.cfg.HostEncryption {
			s.addAnswerRules(all, exception)
		} else {
			for _, d := range s.cfg.Devices { // for encrypted packets, which go to the addresses of nodes
				r := exception
				r.UDPSourcePort, r.Local = d.Port, true // but not for packets of a workload from this port
				all.add(r)
			}
		}
		for _, p := range s.cfg.UnencryptedHosts {
			if version(p.Addr()) != family {
				continue
			}
			from, to := exception, exception
			from.From, to.To = p, p
			all.add(from)
			all.add(to)
		}
	}
}

// addAnswerRules adds exception rules for this node's own addresses. Packets to them are
// unencrypted, so the answers must be unencrypted, too. A socket without a bound address uses the
// address of the device, and its packets are encrypted.
func (s *state) addAnswerRules(all objects, exception routes.Rule) {
	n := s.nodes[s.cfg.Node]
	if n == nil {
		return
	}
	for _, p := range n.Addresses {
		if version(p.Addr()) == exception.Family && !slices.Contains(n.WireguardAddresses, p.Addr()) {
			r := exception
			r.From = netip.PrefixFrom(p.Addr(), p.Addr().BitLen())
			all.add(r)
		}
	}
}

// version returns 4 or 6.
func version(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// changes compares o with the desired objects. It returns the objects to set and the objects to
// remove.
func (o objects) changes(desired objects) (set, removed []routes.Object) {
	for id, object := range desired {
		if old, ok := o[id]; !ok || !sameObject(old, object) {
			set = append(set, object)
		}
	}
	for id, object := range o {
		if _, ok := desired[id]; !ok {
			removed = append(removed, object)
		}
	}
	return set, removed
}

// fail reports whether one of the objects may be missing in the kernel, according to an error of a
// Keeper.
func (o objects) fail(err error) bool {
	faults := objectErrors(err)
	return err != nil && len(faults) == 0 || slices.ContainsFunc(faults, func(fault *routes.ObjectError) bool {
		return o[identity(fault.Object)] != nil
	})
}

// objectErrors returns the errors that an error of a Keeper joins. It returns none if the error
// concerns all objects.
func objectErrors(err error) (faults []*routes.ObjectError) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	for _, err := range joined.Unwrap() {
		fault, ok := err.(*routes.ObjectError)
		if !ok {
			return nil
		}
		faults = append(faults, fault)
	}
	return faults
}

// isGuard reports whether an object is a rule or a blackhole route. While one is missing, packets
// may pass unencrypted.
func isGuard(object routes.Object) bool {
	switch o := object.(type) {
	case routes.Rule:
		return true
	case routes.Route:
		return o.Type == routes.Blackhole
	default:
		return false
	}
}

// sameObject compares two objects with the same identity. Devices contain lists, so == does not
// compare them.
func sameObject(a, b routes.Object) bool {
	d, isDevice := a.(routes.Wireguard)
	if !isDevice {
		return a == b
	}
	e := b.(routes.Wireguard)
	return d.Local == e.Local && d.MTU == e.MTU && slices.Equal(d.Addresses, e.Addresses)
}

// values returns the objects.
func (o objects) values() []routes.Object { return slices.Collect(maps.Values(o)) }
