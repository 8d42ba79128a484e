// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"bytes"
	"encoding/base64"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

func addrs(list ...string) []netip.Addr {
	var all []netip.Addr
	for _, s := range list {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}

func goodHost() *policy.HostEndpoint {
	return &policy.HostEndpoint{
		Name: "n1-eth0", Node: "n1", InterfaceName: "eth0", ExpectedIPs: addrs("192.168.0.5", "fe80::5"),
		Labels: map[string]string{"role": "node"}, Profiles: []string{"hosts"},
		Ports: []policy.EndpointPort{{Name: "ssh", Protocol: policy.ProtocolTCP, Port: 22}},
	}
}

func goodPool() *policy.IPPool {
	return &policy.IPPool{
		Name: "pods", CIDR: netip.MustParsePrefix("10.0.0.0/16"), VXLANMode: policy.EncapCrossSubnet,
		IPIPMode: policy.EncapNever, NATOutgoing: true, Disabled: true,
	}
}

func goodBlock() *policy.Block {
	return &policy.Block{CIDR: netip.MustParsePrefix("10.0.1.0/26"), Node: "n1", Borrowed: []policy.BorrowedAddress{
		{Address: netip.MustParseAddr("10.0.1.5"), Node: "n2"}, {Address: netip.MustParseAddr("10.0.1.6"), Node: "n2"},
	}}
}

func goodNode() *policy.Node {
	return &policy.Node{
		Name: "n1", Addresses: prefixes("192.168.0.5/24", "192.168.0.6/32", "fd01::5/64"),
		IPv4VXLANTunnelAddr: netip.MustParseAddr("10.0.1.1"), IPv6VXLANTunnelAddr: netip.MustParseAddr("fd00::1"),
		IPv4IPIPTunnelAddr: netip.MustParseAddr("10.0.1.2"),
		IPv4WireguardAddr:  netip.MustParseAddr("10.0.1.3"), IPv6WireguardAddr: netip.MustParseAddr("fd00::3"),
		WireguardKeys: []policy.WireguardKey{
			{PublicKey: wireguardKey(1), Port: 51820}, {PublicKey: wireguardKey(2), Port: 51821, Rotating: true},
		},
		VXLANTunnelMACAddr: "66:3e:ca:a4:db:65", VXLANTunnelMACAddrV6: "66:3e:ca:a4:db:66",
		Labels: map[string]string{"rack": "7"},
	}
}

func goodBackends() *policy.ServiceBackends {
	return &policy.ServiceBackends{
		Namespace: "shop", Name: "web-x7k2p", Service: "web", Addresses: addrs("10.0.1.5", "fd00::5"),
		Ports: []policy.ServicePort{
			{Protocol: policy.ProtocolTCP, Port: 8080}, {Protocol: policy.ProtocolUDP, Port: 8080},
		},
	}
}

func TestValidateHostEndpoint(t *testing.T) {
	for _, c := range []struct {
		name, field string // an empty field means valid
		edit        func(h *policy.HostEndpoint)
	}{
		{"no name", "name", func(h *policy.HostEndpoint) { h.Name = "" }},
		{"name with slash", "name", func(h *policy.HostEndpoint) { h.Name = "a/b" }},
		{"no node", "node", func(h *policy.HostEndpoint) { h.Node = "" }},
		{"node with space", "node", func(h *policy.HostEndpoint) { h.Node = "a b" }},
		{"neither interface nor addresses, S102", "", func(h *policy.HostEndpoint) {
			h.InterfaceName, h.ExpectedIPs = "", nil
		}},
		{"addresses alone", "", func(h *policy.HostEndpoint) { h.InterfaceName = "" }},
		{"all interfaces", "", func(h *policy.HostEndpoint) { h.InterfaceName = policy.AllInterfaces }},
		{"interface pattern", "interfaceName", func(h *policy.HostEndpoint) { h.InterfaceName = "eth*" }},
		{"interface of 15 bytes", "", func(h *policy.HostEndpoint) { h.InterfaceName = strings.Repeat("e", 15) }},
		{"interface of 16 bytes", "interfaceName", func(h *policy.HostEndpoint) {
			h.InterfaceName = strings.Repeat("e", 16)
		}},
		{"interface of a VLAN", "", func(h *policy.HostEndpoint) { h.InterfaceName = "eth0.100" }},
		{"interface with quote", "interfaceName", func(h *policy.HostEndpoint) { h.InterfaceName = `e"` }},
		{"interface lo", "interfaceName", func(h *policy.HostEndpoint) { h.InterfaceName = "lo" }},
		{"address none", "expectedIPs[0]", func(h *policy.HostEndpoint) { h.ExpectedIPs[0] = netip.Addr{} }},
		{"address mapped", "expectedIPs[0]", func(h *policy.HostEndpoint) {
			h.ExpectedIPs = addrs("::ffff:192.168.0.5")
		}},
		{"address of lo", "expectedIPs[0]", func(h *policy.HostEndpoint) { h.ExpectedIPs = addrs("127.0.0.1") }},
		{"address with zone", "expectedIPs[0]", func(h *policy.HostEndpoint) { h.ExpectedIPs = addrs("fe80::1%eth0") }},
		{"address twice", "expectedIPs[1]", func(h *policy.HostEndpoint) {
			h.ExpectedIPs = addrs("192.168.0.5", "192.168.0.5")
		}},
		{"too many addresses", "expectedIPs", func(h *policy.HostEndpoint) { h.ExpectedIPs = make([]netip.Addr, 257) }},
		{"label", `labels["a b"]`, func(h *policy.HostEndpoint) { h.Labels["a b"] = "" }},
		{"port name", "ports[0].name", func(h *policy.HostEndpoint) { h.Ports[0].Name = "22" }},
		{"port 0", "ports[0].port", func(h *policy.HostEndpoint) { h.Ports[0].Port = 0 }},
		{"profile twice", "profiles[1]", func(h *policy.HostEndpoint) { h.Profiles = append(h.Profiles, "hosts") }},
	} {
		h := goodHost()
		c.edit(h)
		require.Equal(t, fieldList(c.field), problems(t, h), c.name)
	}
}

func TestValidateIPPool(t *testing.T) {
	cidr := func(s string) func(*policy.IPPool) {
		return func(p *policy.IPPool) { p.CIDR = netip.MustParsePrefix(s) }
	}
	for _, c := range []struct {
		name, field string
		edit        func(p *policy.IPPool)
	}{
		{"no name", "name", func(p *policy.IPPool) { p.Name = "" }},
		{"no CIDR", "cidr", func(p *policy.IPPool) { p.CIDR = netip.Prefix{} }},
		{"CIDR impossible", "cidr", func(p *policy.IPPool) { p.CIDR = netip.PrefixFrom(p.CIDR.Addr(), 33) }},
		{"CIDR not masked, S71", "cidr", cidr("10.0.0.1/16")},
		{"CIDR mapped", "cidr", cidr("::ffff:10.0.0.0/112")},
		{"CIDR IPv6", "", cidr("fd00::/48")},
		{"CIDR of one address, S163", "", cidr("10.0.0.0/32")},
		{"CIDR link-local", "cidr", cidr("169.254.1.0/24")},
		{"CIDR around link-local", "cidr", cidr("168.0.0.0/7")},
		{"CIDR link-local of IPv6", "cidr", cidr("fe80::/64")},
		{"CIDR multicast", "cidr", cidr("239.0.0.0/8")},
		{"CIDR multicast of IPv6", "cidr", cidr("ff00::/16")},
		{"CIDR loopback", "cidr", cidr("127.0.0.0/24")},
		{"CIDR loopback of IPv6", "cidr", cidr("::/64")},
		{"modes empty", "", func(p *policy.IPPool) { p.VXLANMode, p.IPIPMode = "", "" }},
		{"mode VXLAN unknown", "vxlanMode", func(p *policy.IPPool) { p.VXLANMode = "always" }},
		{"mode IPIP unknown", "ipipMode", func(p *policy.IPPool) { p.IPIPMode = "Cross-Subnet" }},
		{"IPIP", "", func(p *policy.IPPool) { p.VXLANMode, p.IPIPMode = policy.EncapNever, policy.EncapAlways }},
		{"VXLAN and IPIP", "ipipMode", func(p *policy.IPPool) {
			p.VXLANMode, p.IPIPMode = policy.EncapAlways, policy.EncapCrossSubnet
		}},
		{"IPIP of IPv6", "ipipMode", func(p *policy.IPPool) {
			p.CIDR, p.VXLANMode, p.IPIPMode = netip.MustParsePrefix("fd00::/48"), "", policy.EncapAlways
		}},
		{"VXLAN of IPv6", "", func(p *policy.IPPool) {
			p.CIDR, p.VXLANMode = netip.MustParsePrefix("fd00::/48"), policy.EncapAlways
		}},
	} {
		p := goodPool()
		c.edit(p)
		require.Equal(t, fieldList(c.field), problems(t, p), c.name)
	}
}

func TestValidateBlock(t *testing.T) {
	borrow := func(addr, node string) func(*policy.Block) {
		a, _ := netip.ParseAddr(addr)
		return func(b *policy.Block) { b.Borrowed[1] = policy.BorrowedAddress{Address: a, Node: node} }
	}
	for _, c := range []struct {
		name, field string
		edit        func(b *policy.Block)
	}{
		{"no CIDR", "cidr", func(b *policy.Block) { b.CIDR = netip.Prefix{} }},
		{"CIDR not masked, S71", "cidr", func(b *policy.Block) { b.CIDR = netip.MustParsePrefix("10.0.1.1/26") }},
		{"no node", "", func(b *policy.Block) { b.Node = "" }},
		{"node with slash", "node", func(b *policy.Block) { b.Node = "a/b" }},
		{"borrowed by a third node", "", borrow("10.0.1.63", "n3")},
		{"borrowed nothing", "borrowed[1].address", borrow("", "n2")},
		{"borrowed outside", "borrowed[1].address", borrow("10.0.1.64", "n2")},
		{"borrowed of the other family", "borrowed[1].address", borrow("fd00::1", "n2")},
		{"borrowed mapped", "borrowed[1].address", borrow("::ffff:10.0.1.6", "n2")},
		{"borrowed twice", "borrowed[1].address", borrow("10.0.1.5", "n3")},
		{"borrowed by nobody", "borrowed[1].node", borrow("10.0.1.6", "")},
		{"borrowed by the own node", "borrowed[1].node", borrow("10.0.1.6", "n1")},
		{"too many borrowed", "borrowed", func(b *policy.Block) {
			b.Borrowed = make([]policy.BorrowedAddress, 65_537)
		}},
	} {
		b := goodBlock()
		c.edit(b)
		require.Equal(t, fieldList(c.field), problems(t, b), c.name)
	}
}

func TestValidateNode(t *testing.T) {
	address := func(p netip.Prefix) func(*policy.Node) { return func(n *policy.Node) { n.Addresses[1] = p } }
	for _, c := range []struct {
		name, field string
		edit        func(n *policy.Node)
	}{
		{"no name", "name", func(n *policy.Node) { n.Name = "" }},
		{"address none", "addresses[1]", address(netip.Prefix{})},
		{
			"address with too long a subnet", "addresses[1]",
			address(netip.PrefixFrom(netip.MustParseAddr("192.168.0.7"), 33)),
		},
		{"address of lo", "addresses[1]", address(netip.MustParsePrefix("127.0.0.1/8"))},
		{"address multicast", "addresses[1]", address(netip.MustParsePrefix("ff02::1/64"))},
		{"address mapped", "addresses[1]", address(netip.MustParsePrefix("::ffff:192.168.0.7/120"))},
		{"address twice", "addresses[1]", address(netip.MustParsePrefix("192.168.0.5/25"))},
		{"too many addresses", "addresses", func(n *policy.Node) { n.Addresses = make([]netip.Prefix, 257) }},
		{"no tunnels", "", func(n *policy.Node) {
			n.IPv4VXLANTunnelAddr, n.IPv6VXLANTunnelAddr = netip.Addr{}, netip.Addr{}
			n.IPv4IPIPTunnelAddr = netip.Addr{}
		}},
		{"one address for two tunnels", "", func(n *policy.Node) { n.IPv4IPIPTunnelAddr = n.IPv4VXLANTunnelAddr }},
		{"IP in IP of IPv6", "ipv4IPIPTunnelAddr", func(n *policy.Node) {
			n.IPv4IPIPTunnelAddr = netip.MustParseAddr("fd00::2")
		}},
		{"IP in IP mapped", "ipv4IPIPTunnelAddr", func(n *policy.Node) {
			n.IPv4IPIPTunnelAddr = netip.MustParseAddr("::ffff:10.0.1.2")
		}},
		{"WireGuard of the other family", "ipv4WireguardAddr", func(n *policy.Node) {
			n.IPv4WireguardAddr = netip.MustParseAddr("fd00::2")
		}},
		{"WireGuard of the other family", "ipv6WireguardAddr", func(n *policy.Node) {
			n.IPv6WireguardAddr = netip.MustParseAddr("10.0.1.1")
		}},
		{"three keys", "wireguardKeys", func(n *policy.Node) {
			n.WireguardKeys = append(n.WireguardKeys, policy.WireguardKey{PublicKey: wireguardKey(3), Port: 3})
		}},
		{"one key twice", "wireguardKeys[1]", func(n *policy.Node) { n.WireguardKeys[1].PublicKey = wireguardKey(1) }},
		{"one port twice", "wireguardKeys[1]", func(n *policy.Node) { n.WireguardKeys[1].Port = 51820 }},
		{"no port", "wireguardKeys[0].port", func(n *policy.Node) { n.WireguardKeys[0].Port = 0 }},
		{"no key", "wireguardKeys[0].publicKey", func(n *policy.Node) { n.WireguardKeys[0].PublicKey = "" }},
		{"short key", "wireguardKeys[0].publicKey", func(n *policy.Node) { n.WireguardKeys[0].PublicKey = "AAAA" }},
		{"zero key", "wireguardKeys[1].publicKey", func(n *policy.Node) {
			n.WireguardKeys[1].PublicKey = wireguardKey(0)
		}},
		{"key with a line break", "wireguardKeys[0].publicKey", func(n *policy.Node) {
			n.WireguardKeys[0].PublicKey = wireguardKey(1) + "\n"
		}},
		{"IP in IP multicast", "ipv4IPIPTunnelAddr", func(n *policy.Node) {
			n.IPv4IPIPTunnelAddr = netip.MustParseAddr("224.0.0.1")
		}},
		{"tunnel of IPv6 for IPv4", "ipv4VXLANTunnelAddr", func(n *policy.Node) {
			n.IPv4VXLANTunnelAddr = netip.MustParseAddr("fd00::2")
		}},
		{"tunnel of IPv4 for IPv6", "ipv6VXLANTunnelAddr", func(n *policy.Node) {
			n.IPv6VXLANTunnelAddr = netip.MustParseAddr("10.0.1.2")
		}},
		{"tunnel mapped", "ipv4VXLANTunnelAddr", func(n *policy.Node) {
			n.IPv4VXLANTunnelAddr = netip.MustParseAddr("::ffff:10.0.1.2")
		}},
		{"tunnel unspecified", "ipv6VXLANTunnelAddr", func(n *policy.Node) {
			n.IPv6VXLANTunnelAddr = netip.IPv6Unspecified()
		}},
		{"no MAC", "", func(n *policy.Node) { n.VXLANTunnelMACAddr, n.VXLANTunnelMACAddrV6 = "", "" }},
		{"MAC short", "vxlanTunnelMACAddr", func(n *policy.Node) { n.VXLANTunnelMACAddr = "66:3e" }},
		{"MAC multicast", "vxlanTunnelMACAddrV6", func(n *policy.Node) {
			n.VXLANTunnelMACAddrV6 = "01:00:5e:00:00:01"
		}},
		{"label", `labels["a b"]`, func(n *policy.Node) { n.Labels["a b"] = "" }},
	} {
		n := goodNode()
		c.edit(n)
		require.Equal(t, fieldList(c.field), problems(t, n), c.name)
	}
}

func TestValidateServiceBackends(t *testing.T) {
	for _, c := range []struct {
		name, field string
		edit        func(s *policy.ServiceBackends)
	}{
		{"no namespace", "namespace", func(s *policy.ServiceBackends) { s.Namespace = "" }},
		{"no name", "name", func(s *policy.ServiceBackends) { s.Name = "" }},
		{"no service", "service", func(s *policy.ServiceBackends) { s.Service = "" }},
		{"service with slash", "service", func(s *policy.ServiceBackends) { s.Service = "a/b" }},
		{"no backends", "", func(s *policy.ServiceBackends) { s.Addresses, s.Ports = nil, nil }},
		{"address none", "addresses[0]", func(s *policy.ServiceBackends) { s.Addresses[0] = netip.Addr{} }},
		{"address of lo", "addresses[0]", func(s *policy.ServiceBackends) { s.Addresses = addrs("::1") }},
		{"address twice", "addresses[1]", func(s *policy.ServiceBackends) {
			s.Addresses = addrs("10.0.1.5", "10.0.1.5")
		}},
		{"1,000 addresses", "", func(s *policy.ServiceBackends) { s.Addresses = many(1_000) }},
		{"too many addresses", "addresses", func(s *policy.ServiceBackends) { s.Addresses = many(10_001) }},
		{"port without protocol", "ports[0].protocol", func(s *policy.ServiceBackends) { s.Ports[0].Protocol = 0 }},
		{"port of ICMP", "ports[0].protocol", func(s *policy.ServiceBackends) {
			s.Ports[0].Protocol = policy.ProtocolICMP
		}},
		{"port 0, S49", "ports[0].port", func(s *policy.ServiceBackends) { s.Ports[0].Port = 0 }},
		{"port twice", "", func(s *policy.ServiceBackends) { s.Ports = append(s.Ports, s.Ports[0]) }},
		{"too many ports", "ports", func(s *policy.ServiceBackends) { s.Ports = make([]policy.ServicePort, 10_001) }},
	} {
		s := goodBackends()
		c.edit(s)
		require.Equal(t, fieldList(c.field), problems(t, s), c.name)
	}
}

// many returns n different addresses.
func many(n int) []netip.Addr {
	all := make([]netip.Addr, n)
	for i := range all {
		all[i] = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
	}
	return all
}

func TestValidateServices(t *testing.T) {
	rule := func(e policy.EntityRule, destination bool) policy.Rule {
		if destination {
			return policy.Rule{Action: policy.Allow, Destination: e}
		}
		return policy.Rule{Action: policy.Allow, Source: e}
	}
	web := &policy.ServiceMatch{Name: "web"}
	shop := &policy.ServiceMatch{Name: "web", Namespace: "shop"}
	for _, c := range []struct {
		name            string
		namespace       string
		in, out         []policy.Rule
		policy, profile string // the field with the problem
	}{
		{"source of ingress", "", []policy.Rule{rule(policy.EntityRule{Services: shop}, false)}, nil, "", ""},
		{
			"destination of egress, without a protocol", "", nil,
			[]policy.Rule{rule(policy.EntityRule{Services: shop}, true)},
			"", "",
		},
		{
			"destination of egress, with a protocol", "", nil,
			[]policy.Rule{{
				Action: policy.Deny, Protocol: policy.ProtocolUDP, NotProtocol: 6,
				Destination: policy.EntityRule{Services: shop},
			}},
			"", "",
		},
		{
			"ports on the other side", "",
			[]policy.Rule{{
				Action: policy.Deny, Protocol: policy.ProtocolUDP, Source: policy.EntityRule{Services: shop},
				Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(53)}},
			}},
			nil, "", "",
		},
		{
			"destination of ingress", "",
			[]policy.Rule{rule(policy.EntityRule{Services: shop}, true)},
			nil, "ingress[0].destination.services", "ingress[0].destination.services",
		},
		{
			"source of egress", "", nil,
			[]policy.Rule{rule(policy.EntityRule{Services: shop}, false)},
			"egress[0].source.services", "egress[0].source.services",
		},
		{
			"no name", "", nil,
			[]policy.Rule{rule(policy.EntityRule{Services: &policy.ServiceMatch{Namespace: "shop"}}, true)},
			"egress[0].destination.services.name", "egress[0].destination.services.name",
		},
		{
			"name with slash", "",
			[]policy.Rule{
				rule(policy.EntityRule{Services: &policy.ServiceMatch{Namespace: "shop", Name: "a/b"}}, false),
			},
			nil,
			"ingress[0].source.services.name", "ingress[0].source.services.name",
		},
		{
			"namespace with slash", "",
			[]policy.Rule{
				rule(policy.EntityRule{Services: &policy.ServiceMatch{Namespace: "a/b", Name: "web"}}, false),
			},
			nil,
			"ingress[0].source.services.namespace", "ingress[0].source.services.namespace",
		},
		{
			"no namespace, in a global policy", "",
			[]policy.Rule{rule(policy.EntityRule{Services: web}, false)},
			nil,
			"ingress[0].source.services.namespace", "ingress[0].source.services.namespace",
		},
		{
			"no namespace, in a policy that has one", "shop",
			[]policy.Rule{rule(policy.EntityRule{Services: web}, false)},
			nil, "", "ingress[0].source.services.namespace",
		},
	} {
		p := &policy.Policy{Namespace: c.namespace, Name: "p", Ingress: c.in, Egress: c.out}
		require.Equal(t, fieldList(c.policy), problems(t, p), c.name)
		require.Equal(t, fieldList(c.profile), problems(t, &policy.Profile{Name: "p", Ingress: c.in, Egress: c.out}),
			c.name)
	}
}

// A service cannot be combined with other conditions on its side, but with those on the other side.
func TestValidateServicesAlone(t *testing.T) {
	for field, e := range map[string]policy.EntityRule{
		"nets":              {Nets: prefixes("10.0.0.0/8")},
		"notNets":           {NotNets: prefixes("10.0.0.0/8")},
		"selector":          {Selector: "all()"},
		"notSelector":       {NotSelector: "all()"},
		"namespaceSelector": {NamespaceSelector: "all()"},
		"serviceAccounts":   {ServiceAccounts: &policy.ServiceAccounts{Names: []string{"x"}}},
		"ports":             {Ports: []policy.Port{policy.PortNumber(80)}},
		"notPorts":          {NotPorts: []policy.Port{policy.PortName("http")}},
	} {
		p := &policy.Policy{Namespace: "shop", Name: "p", Egress: []policy.Rule{
			{Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: e, Destination: e},
		}}
		require.NoError(t, p.Validate())
		p.Egress[0].Destination = policy.EntityRule{Services: &policy.ServiceMatch{Name: "web"}}
		require.NoError(t, p.Validate(), "on the other side")
		p.Egress[0].Destination = e
		p.Egress[0].Destination.Services = &policy.ServiceMatch{Name: "web"}
		require.Equal(t, []string{"egress[0].destination." + field}, problems(t, p))
	}
}

// wireguardKey returns a public key whose bytes are all n.
func wireguardKey(n byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32))
}
