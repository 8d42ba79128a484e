// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// String returns "pool", "local-workload", "remote-workload", "local-host", "remote-host",
// "local-tunnel", "remote-tunnel", "blackhole" or "remote-unreachable".
func (t RouteType) String() string {
	return nameOf("type", uint8(t), "pool", "local-workload", "remote-workload", "local-host", "remote-host",
		"local-tunnel", "remote-tunnel", "blackhole", "remote-unreachable")
}

// String returns the route in one line, as in "10.0.1.2/32 remote-workload node n2 via 192.168.0.2
// pool vxlan same-subnet borrowed nat-outgoing". It leaves out what does not apply.
func (r *Route) String() string {
	if r == nil {
		return "nil"
	}
	w := words{r.Dst.String(), r.Type.String()}
	w.addIf(r.Node != "", "node "+r.Node)
	w.addIf(r.NodeAddress.IsValid(), "via "+r.NodeAddress.String())
	w.addIf(r.Pool != PoolNone, "pool "+r.Pool.String())
	w.addIf(r.SameSubnet, "same-subnet")
	w.addIf(r.Borrowed, "borrowed")
	w.addIf(r.NATOutgoing, "nat-outgoing")
	return w.String()
}

// String returns the node in one line, as in "n2 [192.168.0.2/24] wireguard [KEY:51820] [10.0.1.1]
// labels zone=a".
func (n *Node) String() string {
	if n == nil {
		return "nil"
	}
	s := n.Name + " [" + join(n.Addresses, " ") + "]"
	if len(n.WireguardKeys)+len(n.WireguardAddresses) > 0 {
		s += " wireguard [" + join(n.WireguardKeys, " ") + "] [" + join(n.WireguardAddresses, " ") + "]"
	}
	return s + labels(n.Labels)
}

// String returns the pool in one line, as in "p 10.0.0.0/16 vxlan nat-outgoing disabled".
func (p *Pool) String() string {
	if p == nil {
		return "nil"
	}
	w := words{p.Name, p.CIDR.String(), p.Type.String()}
	w.addIf(p.NATOutgoing, "nat-outgoing")
	w.addIf(p.Disabled, "disabled")
	return w.String()
}

// String returns the backends in one line, as in "ServiceBackends/shop/web-1 of web
// [10.0.0.1] ports tcp:80".
func (s *Service) String() string {
	if s == nil {
		return "nil"
	}
	w := words{s.Key.String(), "of", s.Name, "[" + join(s.Addresses, " ") + "]"}
	var ports []string
	for _, p := range s.Ports {
		ports = append(ports, protocol(p.Protocol)+":"+strconv.Itoa(int(p.Port)))
	}
	w.addIf(ports != nil, "ports "+strings.Join(ports, ","))
	return w.String()
}

// String returns the namespace in one line, as in "shop labels env=prod".
func (n *Namespace) String() string {
	if n == nil {
		return "nil"
	}
	return n.Name + labels(n.Labels)
}

// String returns "namespace/name".
func (k ServiceAccountKey) String() string { return k.Namespace + "/" + k.Name }

// String returns the service account in one line, as in "shop/web labels tier=front".
func (a *ServiceAccount) String() string {
	if a == nil {
		return "nil"
	}
	return a.Key.String() + labels(a.Labels)
}

// String returns "remove route DST".
func (e *RouteRemove) String() string { return "remove route " + e.Dst.String() }

// String returns "remove tunnel NODE/vVERSION".
func (e *TunnelRemove) String() string { return "remove tunnel " + e.Key.String() }

// String returns "tunnel NODE/vVERSION ..."; see Tunnel.String.
func (e *TunnelUpdate) String() string { return "tunnel " + e.Tunnel.String() }

// String returns "route DST TYPE ..."; see Route.String.
func (e *RouteUpdate) String() string { return "route " + e.Route.String() }

// String returns "node NAME ..."; see Node.String.
func (e *NodeUpdate) String() string { return "node " + e.Node.String() }

// String returns "remove node NAME".
func (e *NodeRemove) String() string { return "remove node " + e.Name }

// String returns "pool NAME ..."; see Pool.String.
func (e *PoolUpdate) String() string { return "pool " + e.Pool.String() }

// String returns "remove pool NAME".
func (e *PoolRemove) String() string { return "remove pool " + e.Name }

// String returns "service KEY ..."; see Service.String.
func (e *ServiceUpdate) String() string { return "service " + e.Service.String() }

// String returns "remove service KEY".
func (e *ServiceRemove) String() string { return "remove service " + e.Key.String() }

// String returns "namespace NAME ..."; see Namespace.String.
func (e *NamespaceUpdate) String() string { return "namespace " + e.Namespace.String() }

// String returns "remove namespace NAME".
func (e *NamespaceRemove) String() string { return "remove namespace " + e.Name }

// String returns "serviceaccount NAMESPACE/NAME ..."; see ServiceAccount.String.
func (e *ServiceAccountUpdate) String() string { return "serviceaccount " + e.ServiceAccount.String() }

// String returns "remove serviceaccount NAMESPACE/NAME".
func (e *ServiceAccountRemove) String() string { return "remove serviceaccount " + e.Key.String() }

func (w *words) addIf(yes bool, s string) {
	if yes {
		w.add(s)
	}
}

// nameOf returns the name at index n, or kind and n if there is no such name.
func nameOf(kind string, n uint8, names ...string) string {
	if int(n) < len(names) {
		return names[n]
	}
	return kind + "-" + strconv.Itoa(int(n))
}

// labels returns " labels a=b,c=d", sorted by key, or nothing if there are none.
func labels(m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return " labels " + strings.Join(parts, ",")
}
