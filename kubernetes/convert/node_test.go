// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func testNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", Labels: map[string]string{"kubernetes.io/os": "linux"},
			Annotations: map[string]string{"other": "x"},
		},
		Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24", "fd00:10:244:1::/64"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "192.0.2.9"},
			{Type: corev1.NodeExternalIP, Address: "203.0.113.5"},
			{Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
			{Type: corev1.NodeInternalIP, Address: "fd00::1"},
			{Type: corev1.NodeExternalIP, Address: "192.0.2.1"},
			{Type: corev1.NodeInternalDNS, Address: "n1.example"},
			{Type: corev1.NodeExternalDNS, Address: "n1.example"},
		}},
	}
}

func nodeResources(change func(*policy.Node, *policy.NetworkSet)) []policy.Resource {
	node := &policy.Node{
		Name: "n1", Addresses: []netip.Prefix{prefix("192.0.2.1/32"), prefix("fd00::1/128"), prefix("203.0.113.5/32")},
		Labels: map[string]string{"kubernetes.io/os": "linux"},
	}
	set := &policy.NetworkSet{
		Name: "knode.n1",
		Labels: map[string]string{
			"wayleave.dev/node.kubernetes.io/os": "linux", "wayleave.dev/node.projectcalico.org/name": "n1",
		},
		Nets: policy.Nets{prefix("192.0.2.1/32"), prefix("fd00::1/128"), prefix("203.0.113.5/32")},
	}
	change(node, set)
	return []policy.Resource{node, set}
}

func TestNode(t *testing.T) {
	resources, problems := convert.Converter{}.Node(testNode())
	require.Empty(t, problems)
	require.Equal(t, nodeResources(func(*policy.Node, *policy.NetworkSet) {}), resources)
}

// Calico's annotations take precedence.
func TestNodeAnnotations(t *testing.T) {
	node := testNode()
	node.Labels["projectcalico.org/name"] = "lies"
	node.Annotations = map[string]string{
		"projectcalico.org/IPv4Address": "192.0.2.1/24", "projectcalico.org/IPv6Address": "fd00::1/64",
		"projectcalico.org/IPv4VXLANTunnelAddr":  "10.244.1.0",
		"projectcalico.org/IPv6VXLANTunnelAddr":  "fd00:10:244:1::",
		"projectcalico.org/IPv4IPIPTunnelAddr":   "10.244.1.1",
		"projectcalico.org/VXLANTunnelMACAddr":   "66:3E:CA:A4:DB:65",
		"projectcalico.org/VXLANTunnelMACAddrV6": "66-3e-ca-a4-db-66",
	}
	resources, problems := convert.Converter{}.Node(node)
	require.Empty(t, problems)
	require.Equal(t, nodeResources(func(n *policy.Node, s *policy.NetworkSet) {
		n.Labels["projectcalico.org/name"] = "lies"
		n.Addresses[0], n.Addresses[1] = prefix("192.0.2.1/24"), prefix("fd00::1/64")
		n.IPv4VXLANTunnelAddr, n.IPv6VXLANTunnelAddr = addr("10.244.1.0"), addr("fd00:10:244:1::")
		n.VXLANTunnelMACAddr, n.VXLANTunnelMACAddrV6 = "66:3e:ca:a4:db:65", "66:3e:ca:a4:db:66"
		n.IPv4IPIPTunnelAddr = addr("10.244.1.1")
		s.Nets = append(s.Nets, prefix("10.244.1.0/32"), prefix("fd00:10:244:1::/128"), prefix("10.244.1.1/32"))
	}), resources)
}

func TestNodePodCIDRs(t *testing.T) {
	c := convert.Converter{PodCIDRs: true}
	resources, problems := c.Node(testNode())
	require.Empty(t, problems)
	require.Equal(t, []policy.Resource{
		&policy.Block{CIDR: prefix("10.244.1.0/24"), Node: "n1"},
		&policy.Block{CIDR: prefix("fd00:10:244:1::/64"), Node: "n1"},
	}, resources[2:])

	node := testNode()
	node.Spec.PodCIDRs = nil
	resources, problems = c.Node(node)
	require.Empty(t, problems)
	require.Equal(t, []policy.Resource{&policy.Block{CIDR: prefix("10.244.1.0/24"), Node: "n1"}}, resources[2:])
}

func TestNodePodCIDRTunnels(t *testing.T) {
	c := convert.Converter{PodCIDRTunnels: true}
	tunnels := func(change func(*corev1.Node)) []string {
		node := testNode()
		change(node)
		resources, _ := c.Node(node)
		out := resources[0].(*policy.Node)
		return []string{out.IPv4VXLANTunnelAddr.String(), out.IPv6VXLANTunnelAddr.String()}
	}
	none := netip.Addr{}.String()
	require.Equal(t, []string{"10.244.1.0", "fd00:10:244:1::"}, tunnels(func(*corev1.Node) {}))
	// Calico's annotation takes precedence.
	require.Equal(t, []string{"10.9.9.9", "fd00:10:244:1::"}, tunnels(func(n *corev1.Node) {
		n.Annotations = map[string]string{"projectcalico.org/IPv4VXLANTunnelAddr": "10.9.9.9"}
	}))
	// The first CIDR of a family is used.
	require.Equal(t, []string{"10.1.0.0", none}, tunnels(func(n *corev1.Node) {
		n.Spec.PodCIDRs = []string{"10.1.0.0/24", "10.2.0.0/24"}
	}))
	require.Equal(t, []string{"10.244.1.0", none}, tunnels(func(n *corev1.Node) { n.Spec.PodCIDRs = nil }))
	require.Equal(t, []string{none, none}, tunnels(func(n *corev1.Node) { n.Spec.PodCIDRs, n.Spec.PodCIDR = nil, "" }))
	// An invalid address of a tunnel is left out. The rest of the node is converted.
	require.Equal(t, []string{none, none}, tunnels(func(n *corev1.Node) {
		n.Spec.PodCIDRs = []string{"x", "127.0.0.0/8", "ff02::/64"}
	}))

	// Rules that select the node match the addresses of its tunnel devices.
	resources, _ := c.Node(testNode())
	nets := resources[1].(*policy.NetworkSet).Nets
	require.Contains(t, nets, prefix("10.244.1.0/32"))
	require.Contains(t, nets, prefix("fd00:10:244:1::/128"))

	require.False(t, resources[0].(*policy.Node).IPv4IPIPTunnelAddr.IsValid())

	resources, _ = convert.Converter{}.Node(testNode())
	require.False(t, resources[0].(*policy.Node).IPv4VXLANTunnelAddr.IsValid())
}

func TestNodePodCIDRIPIP(t *testing.T) {
	c := convert.Converter{PodCIDRIPIP: true}
	resources, problems := c.Node(testNode())
	require.Empty(t, problems)
	out := resources[0].(*policy.Node)
	require.Equal(t, addr("10.244.1.0"), out.IPv4IPIPTunnelAddr)
	require.False(t, out.IPv4VXLANTunnelAddr.IsValid() || out.IPv6VXLANTunnelAddr.IsValid())
	require.Contains(t, resources[1].(*policy.NetworkSet).Nets, prefix("10.244.1.0/32"))

	node := testNode()
	node.Annotations = map[string]string{"projectcalico.org/IPv4IPIPTunnelAddr": "10.9.9.9"}
	resources, _ = c.Node(node)
	require.Equal(t, addr("10.9.9.9"), resources[0].(*policy.Node).IPv4IPIPTunnelAddr)

	// One address for both.
	resources, problems = convert.Converter{PodCIDRIPIP: true, PodCIDRTunnels: true}.Node(testNode())
	require.Empty(t, problems)
	out = resources[0].(*policy.Node)
	require.Equal(t, out.IPv4VXLANTunnelAddr, out.IPv4IPIPTunnelAddr)
	require.Equal(t, addr("fd00:10:244:1::"), out.IPv6VXLANTunnelAddr)
}

func TestNodePodCIDRWireguard(t *testing.T) {
	resources, problems := convert.Converter{PodCIDRWireguard: true}.Node(testNode())
	require.Empty(t, problems)
	out := resources[0].(*policy.Node)
	require.Equal(t, addr("10.244.1.0"), out.IPv4WireguardAddr)
	require.Equal(t, addr("fd00:10:244:1::"), out.IPv6WireguardAddr)
	require.False(t, out.IPv4IPIPTunnelAddr.IsValid())
}

// The keys of a node are those of our annotation, or that of Calico's. Addresses are those of
// Calico's.
func TestNodeWireguardAnnotations(t *testing.T) {
	const first, second = "jQRCQ2kHpoQZXCXzKGbVWRXVXJH6s8V7qUCkh1HSAlE=", "5XA3RtqAiTbRjTBkhTZCeTDIQ/mGnO3UrMBGEUSQKGA="
	calico := map[string]string{
		"projectcalico.org/WireguardPublicKey":         first,
		"projectcalico.org/IPv4WireguardInterfaceAddr": "10.244.1.9",
		"projectcalico.org/IPv6WireguardInterfaceAddr": "fd00::9",
	}
	read := func(keys string) (*policy.Node, []string) {
		node := testNode()
		node.Annotations = maps.Clone(calico)
		if keys != "" {
			keys = strings.TrimPrefix(keys, "empty")
			node.Annotations[convert.AnnotationWireguardKeys] = keys
		}
		resources, problems := convert.Converter{}.Node(node)
		return resources[0].(*policy.Node), fields(t, problems)
	}
	of := []policy.WireguardKey{{PublicKey: first, Port: 51820}}
	n, problems := read("")
	require.Empty(t, problems)
	require.Equal(t, of, n.WireguardKeys)
	require.Equal(t, addr("10.244.1.9"), n.IPv4WireguardAddr)
	require.Equal(t, addr("fd00::9"), n.IPv6WireguardAddr)

	n, problems = read(" " + second + ":1234:rotating, " + first + ":1235\n")
	require.Empty(t, problems)
	require.Equal(t, []policy.WireguardKey{
		{PublicKey: second, Port: 1234, Rotating: true}, {PublicKey: first, Port: 1235},
	}, n.WireguardKeys)

	n, problems = read(" none\n")
	require.Empty(t, problems)
	require.Empty(t, n.WireguardKeys, "not that of Calico's annotation")

	for _, bad := range []string{
		"empty", "none,none", second + ":1,none", "x:1", second, second + ":", second + ":65536", second + ":0",
		second + ":1:rotated", second + ":1,",
		second + ":1," + second + ":2", second + ":1," + first + ":1", second + ":1," + first + ":2," + first + ":3",
	} {
		n, problems = read(bad)
		require.NotEmpty(t, problems, bad)
		require.Equal(t, []policy.WireguardKey{{}}, n.WireguardKeys, bad)
	}
}

func TestInvalidNodeIsAbsent(t *testing.T) {
	for field, change := range map[string]func(*corev1.Node){
		"metadata.name":          func(n *corev1.Node) { n.Name = "" },
		"metadata.namespace":     func(n *corev1.Node) { n.Namespace = "x" },
		`metadata.labels["a b"]`: func(n *corev1.Node) { n.Labels["a b"] = "" },
	} {
		t.Run(field, func(t *testing.T) {
			node := testNode()
			change(node)
			resources, problems := convert.Converter{PodCIDRs: true}.Convert(node)
			require.Empty(t, resources)
			require.Equal(t, []string{field}, fields(t, problems))
		})
	}
}

// An invalid part of a node is left out. The rest is converted, because deny rules match nodes by
// their network sets.
func TestInvalidPartOfNodeIsLeftOut(t *testing.T) {
	annotation := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations = map[string]string{key: value} }
	}
	same := func([]policy.Resource) []policy.Resource { return nil }
	without := func(i int) func([]policy.Resource) []policy.Resource {
		return func(all []policy.Resource) []policy.Resource {
			n, _ := all[0].(*policy.Node)
			s, _ := all[1].(*policy.NetworkSet)
			n.Addresses, s.Nets = slices.Delete(n.Addresses, i, i+1), slices.Delete(s.Nets, i, i+1)
			return all
		}
	}
	for field, tt := range map[string]struct {
		change func(*corev1.Node)
		want   func([]policy.Resource) []policy.Resource
	}{
		"status.addresses[1].address": {func(n *corev1.Node) { n.Status.Addresses[1].Address = "x" }, without(2)},
		"status.addresses[2].address": {
			func(n *corev1.Node) {
				n.Status.Addresses[2].Address, n.Status.Addresses[4].Address = "127.0.0.1", "203.0.113.5"
			}, without(0),
		},
		"spec.podCIDRs[1]": {
			func(n *corev1.Node) { n.Spec.PodCIDRs[1] = "fd00::/x" },
			func(all []policy.Resource) []policy.Resource { return all[:3] },
		},
		"spec.podCIDR": {
			func(n *corev1.Node) { n.Spec.PodCIDRs, n.Spec.PodCIDR = nil, "x" },
			func(all []policy.Resource) []policy.Resource { return all[:2] },
		},
		`metadata.annotations["projectcalico.org/IPv4Address"]`: {
			annotation("projectcalico.org/IPv4Address", "192.0.2.1/33"), same,
		},
		`metadata.annotations["projectcalico.org/IPv6Address"]`: {
			annotation("projectcalico.org/IPv6Address", "::ffff:10.0.0.1/120"), same,
		},
		`metadata.annotations["projectcalico.org/IPv4VXLANTunnelAddr"]`: {
			annotation("projectcalico.org/IPv4VXLANTunnelAddr", "x"), same,
		},
		`metadata.annotations["projectcalico.org/IPv6VXLANTunnelAddr"]`: {
			annotation("projectcalico.org/IPv6VXLANTunnelAddr", "10.0.0.1"), same,
		},
		`metadata.annotations["projectcalico.org/IPv4IPIPTunnelAddr"]`: {
			annotation("projectcalico.org/IPv4IPIPTunnelAddr", "fd00::1"), same,
		},
		`metadata.annotations["projectcalico.org/VXLANTunnelMACAddr"]`: {
			annotation("projectcalico.org/VXLANTunnelMACAddr", "x"), same,
		},
	} {
		t.Run(field, func(t *testing.T) {
			c := convert.Converter{PodCIDRs: true}
			want, _ := c.Node(testNode())
			if changed := tt.want(want); changed != nil {
				want = changed
			}
			node := testNode()
			tt.change(node)
			resources, problems := c.Node(node)
			require.Equal(t, []string{field}, fields(t, problems))
			require.Equal(t, want, resources)
		})
	}
}

// The network set of a node has all addresses, also those over the limit of the Node resource. Two
// equal pod CIDRs are one block.
func TestNodeManyAddresses(t *testing.T) {
	node := testNode()
	node.Spec.PodCIDRs = []string{"10.244.1.0/24", "10.244.1.9/24"}
	for i := range 300 {
		node.Status.Addresses = append(node.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.1.%d.%d", i/200, i%200+1)})
	}
	resources, problems := convert.Converter{PodCIDRs: true}.Node(node)
	require.Equal(t, []string{"status.addresses"}, fields(t, problems))
	require.Len(t, resources, 3)
	n, ok := resources[0].(*policy.Node)
	require.True(t, ok)
	require.Len(t, n.Addresses, 256)
	s, ok := resources[1].(*policy.NetworkSet)
	require.True(t, ok)
	require.Len(t, s.Nets, 303)
}

// Selectors of Calico do not match nodes, unless they have a label of nodes.
func TestNodesInCalicoRules(t *testing.T) {
	const others = `!has(wayleave.dev/node.projectcalico.org/name)`
	tests := []struct{ name, side, selector, notSelector string }{
		{"nothing", "{}", "", ""},
		{"nets", "{nets: [10.0.0.0/8]}", "", ""},
		{"all", "{selector: all()}", others, ""},
		{"absence", "{selector: '!has(a)'}", "(!has(a) && " + others + ")", ""},
		{"either", "{selector: a == 'b' || c != 'd'}", `((a == "b" || c != "d") && ` + others + ")", ""},
		{"presence", "{selector: a == 'b'}", "a == 'b'", ""},
		{"nodes", "{selector: wayleave.dev/node.zone != 'a'}", "wayleave.dev/node.zone != 'a'", ""},
		{"namespaces", "{namespaceSelector: all()}", "", ""},
		{"namespaces by label", "{namespaceSelector: a == 'b'}", "", ""},
		{"no namespace", "{namespaceSelector: global()}", others, ""},
		{"namespaces by absence", "{namespaceSelector: a != 'b'}", others, ""},
		{"in a namespace", "{selector: all(), namespaceSelector: all()}", "all()", ""},
		{"service account names", "{serviceAccounts: {names: [a]}}", "", ""},
		{"service account by label", "{serviceAccounts: {selector: has(a)}}", "", ""},
		{"service account by absence", "{serviceAccounts: {selector: '!has(a)'}}", others, ""},
		{"not all", "{notSelector: all()}", "", others},
		{"not absence", "{notSelector: a != 'b'}", "", `(a != "b" && ` + others + ")"},
		{"not presence", "{notSelector: has(a)}", "", "has(a)"},
		{"not nodes", "{notSelector: has(wayleave.dev/node.zone)}", "", "has(wayleave.dev/node.zone)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, kind := range []string{"GlobalNetworkPolicy", "Profile", "StagedGlobalNetworkPolicy"} {
				resources, problems := manifest.Decode("test.yaml", []byte(v3+"kind: "+kind+"\nmetadata: {name: a}\n"+
					"spec: {egress: [{action: Allow, destination: "+tt.side+"}]}"))
				require.Empty(t, problems)
				got := egress(t, resources[0])[0].Destination
				require.Equal(t, tt.selector, got.Selector)
				require.Equal(t, tt.notSelector, got.NotSelector)
			}
		})
	}
}

func egress(t *testing.T, r policy.Resource) []policy.Rule {
	t.Helper()
	switch r := r.(type) {
	case *policy.Policy:
		return r.Egress
	case *policy.Profile:
		return r.Egress
	}
	require.FailNow(t, "no rules", "%T", r)
	return nil
}

// A rule of a namespaced policy matches its own namespace, in which there are no nodes, or the one
// that it selects.
func TestNodesInNamespacedRules(t *testing.T) {
	for side, want := range map[string]string{
		"{selector: all()}":              "all()",
		"{namespaceSelector: global()}":  "!has(wayleave.dev/node.projectcalico.org/name)",
		"{namespaceSelector: all()}":     "",
		"{notSelector: has(a)}":          "",
		"{selector: has(a), ports: [a]}": "has(a)",
	} {
		resources, problems := manifest.Decode("test.yaml", []byte(v3+"kind: NetworkPolicy\nmetadata: {name: a}\n"+
			"spec: {egress: [{action: Allow, destination: "+side+"}]}"))
		require.Empty(t, problems)
		require.Equal(t, want, egress(t, resources[0])[0].Destination.Selector, side)
	}
}

// Converted nodes do not change the verdicts of policies that do not select nodes.
func TestNodesAndCalicoVerdicts(t *testing.T) {
	policyOf := func(destination string) string {
		return v3 + "kind: GlobalNetworkPolicy\nmetadata: {name: a}\nspec: {selector: app == 'web', types: [Egress], " +
			"egress: [{action: Allow, destination: " + destination + "}]}"
	}
	tests := []struct {
		destination string
		probes      []probe
	}{
		{"{selector: all()}", []probe{
			{web, rat, tcp, 80, yes},
			{web, partner, tcp, 80, yes},
			{web, host, tcp, 80, no},
			{web, node2, tcp, 80, no},
			{web, beyond, tcp, 80, no},
		}},
		{"{selector: app != 'web'}", []probe{
			{web, cart, tcp, 80, yes}, {web, rat, tcp, 80, no}, {web, host, tcp, 80, no},
		}},
		{"{namespaceSelector: global()}", []probe{{web, cart, tcp, 80, no}, {web, host, tcp, 80, no}}},
		{"{notSelector: all()}", []probe{
			{web, cart, tcp, 80, no}, {web, host, tcp, 80, yes}, {web, beyond, tcp, 80, yes},
		}},
		{"{selector: wayleave.dev/node.zone == 'east'}", []probe{{web, host, tcp, 80, yes}, {web, node2, tcp, 80, no}}},
	}
	for _, tt := range tests {
		t.Run(tt.destination, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(cluster+nodes+policyOf(tt.destination)))
			require.Empty(t, problems)
			check(t, resources, tt.probes)
		})
	}
}
