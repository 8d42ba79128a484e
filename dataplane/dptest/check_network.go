// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

func checkRoute(_ netip.Prefix, r *dataplane.Route) string {
	if msg := checkPrefix(r.Dst); msg != "" {
		return msg
	}
	address := r.Type == dataplane.RouteLocalWorkload || r.Type == dataplane.RouteLocalTunnel ||
		r.Type == dataplane.RouteRemoteTunnel ||
		r.Type == dataplane.RouteLocalHost || r.Type == dataplane.RouteRemoteHost
	host := r.Type == dataplane.RouteLocalHost || r.Type == dataplane.RouteRemoteHost
	switch {
	case r.Type > dataplane.RouteRemoteUnreachable:
		return "unknown type"
	case !r.Pool.Valid():
		return "unknown type of pool"
	case (r.Node == "") != (r.Type == dataplane.RoutePool):
		return "a route without a node, or a pool with one"
	case r.Type == dataplane.RoutePool && r.Pool == dataplane.PoolNone:
		return "a route of type RoutePool without a pool"
	case address && !r.Dst.IsSingleIP():
		return "want an address, not a prefix"
	case (r.Borrowed && (host || !r.Dst.IsSingleIP())) || (r.Borrowed && r.Type == dataplane.RoutePool):
		return "Borrowed is set, but the destination cannot be borrowed"
	case r.NATOutgoing && r.Pool == dataplane.PoolNone:
		return "NATOutgoing is set without a pool"
	}
	return checkNodeAddress(r)
}

// checkNodeAddress checks how a route leads to its node.
func checkNodeAddress(r *dataplane.Route) string {
	switch {
	case !r.Type.Remote() && (r.NodeAddress.IsValid() || r.SameSubnet):
		return "NodeAddress or SameSubnet is set without a remote node"
	case r.SameSubnet && (!r.Pool.CrossSubnet() || !r.NodeAddress.IsValid()):
		return "SameSubnet is set without a cross-subnet pool or a NodeAddress"
	case r.NodeAddress.IsValid():
		if msg := checkAddr(r.NodeAddress, r.Dst.Addr().Is4()); msg != "" {
			return "the node's address: " + msg
		}
	case r.Type == dataplane.RouteRemoteWorkload && r.Pool != dataplane.PoolNone:
		return "no NodeAddress"
	}
	return ""
}

func checkAddr(a netip.Addr, is4 bool) string {
	switch {
	case !a.IsValid() || a.Is4In6() || a.Zone() != "":
		return fmt.Sprintf("address %s is not canonical", a)
	case a.Is4() != is4:
		return fmt.Sprintf("address %s is of the wrong family", a)
	}
	return ""
}

func checkTunnel(_ dataplane.TunnelKey, t *dataplane.Tunnel) string {
	if t.IPVersion != 4 && t.IPVersion != 6 {
		return "unknown IP version"
	}
	for _, a := range []netip.Addr{t.Address, t.ParentAddress} {
		if msg := checkAddr(a, t.IPVersion == 4); msg != "" {
			return msg
		}
	}
	return cmp.Or(checkEncapsulation(t), checkName(t.Node))
}

func checkEncapsulation(t *dataplane.Tunnel) string {
	mac, err := net.ParseMAC(t.MAC)
	switch {
	case t.Encapsulation > dataplane.EncapIPIP:
		return "unknown encapsulation"
	case t.Encapsulation == dataplane.EncapIPIP && t.IPVersion == 6:
		return "IP in IP supports IPv4 only"
	case t.Encapsulation == dataplane.EncapIPIP && t.MAC != "":
		return "IP in IP devices have no MAC address"
	case t.Encapsulation == dataplane.EncapVXLAN && (err != nil || len(mac) != 6 || t.MAC != mac.String()):
		return fmt.Sprintf("%q is not a MAC address in its canonical form", t.MAC)
	}
	return ""
}

func checkNode(_ string, n *dataplane.Node) string {
	for _, p := range n.Addresses {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Sprintf("address %s is not canonical", p)
		}
	}
	for _, a := range n.WireguardAddresses {
		if msg := checkAddr(a, a.Is4()); msg != "" {
			return msg
		}
	}
	if len(n.WireguardKeys) > policy.MaxWireguardKeys {
		return "too many WireGuard keys"
	}
	return checkName(n.Name)
}

func checkPool(_ string, p *dataplane.Pool) string {
	if msg := checkPrefix(p.CIDR); msg != "" {
		return msg
	}
	if p.Type == dataplane.PoolNone || !p.Type.Valid() {
		return "unknown type of pool"
	}
	return checkName(p.Name)
}

func checkService(_ policy.Key, s *dataplane.Service) string {
	if s.Key.Kind != policy.KindServiceBackends {
		return "the key is not that of a " + string(policy.KindServiceBackends)
	}
	return cmp.Or(checkAddresses(s.Addresses), checkName(s.Key.Name), checkName(s.Name))
}

func checkNamespace(name string, _ *dataplane.Namespace) string { return checkName(name) }

func checkAccount(k dataplane.ServiceAccountKey, _ *dataplane.ServiceAccount) string {
	return cmp.Or(checkName(k.Namespace), checkName(k.Name))
}

func checkName(name string) string {
	if strings.TrimSpace(name) == "" {
		return "no name"
	}
	return ""
}
