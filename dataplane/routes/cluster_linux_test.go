// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// cluster is some nodes, and the network between them. Each node is a namespace with a graph and a
// dataplane. The network is a router with a bridge for each subnet.
//
//	n1 ── eth0 ─┐
//	            ├ subnet1 ── router ── subnet2 ─ eth0 ── n3
//	n2 ── eth0 ─┘
//
// Node i has 192.0.S.i and 2001:db8:S::i in subnet S, the block 10.65.i.0/26 and fd65::i:0/122, and
// the first address of each for its VXLAN devices.
type cluster struct {
	*testing.T
	underlay *netns.NS
	nodes    []*clusterNode
	// pods has the workloads by name.
	pods map[string]*pod
	// cfg is the configuration of all nodes.
	cfg routes.Config
}

// clusterNode is one of the nodes.
type clusterNode struct {
	*node
	name  string
	graph *calcgraph.Graph
	world policy.Node
}

// pod is a workload and its node.
type pod struct {
	*netns.Workload
	at *clusterNode
}

// newCluster makes a node for each of the subnets and a pool of each family with the mode, and
// programs all. Each node has a pod of both families with the name of the node.
func newCluster(t *testing.T, mode policy.EncapMode, subnets ...int) *cluster {
	c := newUnderlay(t, subnets...)
	for _, n := range c.nodes {
		if mode == policy.EncapNever { // a node with an address for it has a device
			n.world.IPv4VXLANTunnelAddr, n.world.IPv6VXLANTunnelAddr = netip.Addr{}, netip.Addr{}
		}
	}
	c.start(pools(mode)...)
	return c
}

// start gives all nodes the resources, the Node resources, and a pod each.
func (c *cluster) start(resources ...policy.Resource) {
	c.Helper()
	c.set(resources...)
	for i, n := range c.nodes {
		c.set(&n.world)
		c.set(blocks(i + 1)...)
	}
	c.begin()
}

// newUnderlay makes a node for each of the subnets. The graphs are still empty.
func newUnderlay(t *testing.T, subnets ...int) *cluster {
	return newUnderlayWith(t, routes.Config{}, subnets...)
}

// newUnderlayWith is newUnderlay for nodes with a configuration.
func newUnderlayWith(t *testing.T, cfg routes.Config, subnets ...int) *cluster {
	c := &cluster{T: t, underlay: nstest.New(t), pods: map[string]*pod{}, cfg: cfg}
	c.cfg.ForwardAllIPv6 = true
	for _, s := range slices.Compact(slices.Sorted(slices.Values(subnets))) {
		bridge := fmt.Sprintf("subnet%d", s)
		c.ip(c.underlay, "link add dev %s type bridge", bridge)
		c.ip(c.underlay, "addr add 192.0.%d.254/24 dev %s", s, bridge)
		c.ip(c.underlay, "addr add 2001:db8:%d::fe/64 dev %s nodad", s, bridge)
		c.ip(c.underlay, "link set dev %s up", bridge)
	}
	for _, setting := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		require.NoError(t, c.underlay.SetSysctl(setting, "1"))
	}
	for i, s := range subnets {
		c.addNode(i+1, s)
	}
	return c
}

// begin makes the pods and sets the graphs in sync.
func (c *cluster) begin() {
	c.Helper()
	for i, n := range c.nodes {
		c.addPod(n.name, n, fmt.Sprintf("10.65.%d.1", i+1), fmt.Sprintf("fd65::%d:1", i+1))
	}
	for _, n := range c.nodes {
		n.graph.InSync()
	}
	c.flush()
}

func pools(mode policy.EncapMode) []policy.Resource {
	return []policy.Resource{
		&policy.IPPool{Name: "four", CIDR: netip.MustParsePrefix("10.65.0.0/16"), VXLANMode: mode},
		&policy.IPPool{Name: "six", CIDR: netip.MustParsePrefix("fd65::/64"), VXLANMode: mode},
	}
}

// blocks returns the blocks of node i.
func blocks(i int) []policy.Resource {
	return []policy.Resource{
		&policy.Block{CIDR: netip.MustParsePrefix(fmt.Sprintf("10.65.%d.0/26", i)), Node: fmt.Sprintf("n%d", i)},
		&policy.Block{CIDR: netip.MustParsePrefix(fmt.Sprintf("fd65::%d:0/122", i)), Node: fmt.Sprintf("n%d", i)},
	}
}

// ip runs iproute2's ip in a namespace.
func (c *cluster) ip(ns *netns.NS, command string, args ...any) string {
	c.Helper()
	return (&node{T: c.T, ns: ns}).ip(command, args...)
}

func (c *cluster) addNode(i, subnet int) {
	c.Helper()
	n := &clusterNode{name: fmt.Sprintf("n%d", i)}
	n.node = newNode(c.T, c.cfg)
	_, _, err := netns.Veth(netns.End{NS: n.ns, Name: "eth0"}, netns.End{NS: c.underlay, Name: "to-" + n.name})
	require.NoError(c, err)
	c.ip(c.underlay, "link set dev to-%s master subnet%d", n.name, subnet)
	four := netip.MustParsePrefix(fmt.Sprintf("192.0.%d.%d/24", subnet, i))
	six := netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::%d/64", subnet, i))
	require.NoError(c, n.ns.AddAddr("eth0", four))
	require.NoError(c, n.ns.AddAddr("eth0", six))
	n.ip("route add default via 192.0.%d.254", subnet)
	n.ip("-6 route add default via 2001:db8:%d::fe", subnet)
	require.NoError(c, n.ns.SetSysctl("net/ipv4/conf/eth0/forwarding", "1")) // the administrator sets this
	n.world = policy.Node{
		Name: n.name, Addresses: []netip.Prefix{four, six},
		IPv4VXLANTunnelAddr: netip.MustParseAddr(fmt.Sprintf("10.65.%d.0", i)),
		IPv6VXLANTunnelAddr: netip.MustParseAddr(fmt.Sprintf("fd65::%d:0", i)),
	}
	n.graph, err = calcgraph.New(calcgraph.Config{Node: n.name, Hooks: calcgraph.Hooks{
		Rejected: func(key policy.Key, err error) { c.Errorf("%s: %v", key, err) },
	}})
	require.NoError(c, err)
	c.nodes = append(c.nodes, n)
}

// addPod makes a workload on a node.
func (c *cluster) addPod(name string, at *clusterNode, addresses ...string) {
	c.Helper()
	w := nstest.NewWorkload(c.T, at.ns, "cali-"+name, addresses...)
	require.NoError(c, w.NS.SetSysctl("net/ipv4/ping_group_range", "0 0"))
	c.pods[name] = &pod{Workload: w, at: at}
	c.set(c.pods[name].endpoint(name))
}

// endpoint returns the resource of a pod.
func (p *pod) endpoint(name string) *policy.WorkloadEndpoint {
	return &policy.WorkloadEndpoint{
		Namespace: "shop", Name: name, Node: p.at.name, Interface: p.Host.Name, Addresses: p.Addresses,
		MAC: p.Link.MAC.String(), Labels: map[string]string{"pod": name}, Profiles: []string{"open"},
	}
}

// set updates resources in all graphs.
func (c *cluster) set(resources ...policy.Resource) {
	for _, n := range c.nodes {
		n.update(resources...)
	}
}

// update updates resources in the graph of the node.
func (n *clusterNode) update(resources ...policy.Resource) {
	for _, r := range resources {
		n.graph.Update(policy.Update{Key: r.Key(), Resource: r})
	}
}

// remove removes resources from all graphs.
func (c *cluster) remove(resources ...policy.Resource) {
	for _, n := range c.nodes {
		for _, r := range resources {
			n.graph.Update(policy.Update{Key: r.Key()})
		}
	}
}

// flush applies the batches of all graphs.
func (c *cluster) flush() {
	c.Helper()
	for _, n := range c.nodes {
		require.NoError(c, n.dp.Apply(c.Context(), n.graph.Flush()), n.name)
	}
}

// way returns the route of the node's kernel to an address: the interface, and the next hop if
// there is one.
func (n *clusterNode) way(to string) string {
	n.Helper()
	var list []struct{ Dev, Gateway, Via, Type string }
	require.NoError(n, json.Unmarshal([]byte(n.ip("-j route get %s", to)), &list))
	require.Len(n, list, 1)
	return strings.TrimSpace(list[0].Dev + " " + list[0].Gateway)
}

// list returns the lines of a command's output that contain the text.
func (n *clusterNode) list(text, name string, args ...string) (lines []string) {
	n.Helper()
	var out, stderr bytes.Buffer
	require.NoError(n, n.ns.Do(func() error {
		command := exec.Command(name, args...)
		command.Stdout, command.Stderr = &out, &stderr
		return command.Run()
	}), "%s %v: %s", name, args, &stderr)
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// reach requires that every pod reaches every other and the addresses of the node in both families,
// from its own address.
func (c *cluster) reach() {
	c.Helper()
	for from, a := range c.pods {
		for to, b := range c.pods {
			for _, address := range b.Addresses {
				if from != to && slices.ContainsFunc(a.Addresses, func(o netip.Addr) bool {
					return o.Is4() == address.Is4()
				}) {
					require.NoError(c, ping(a.NS, address, 100), "%s to %s", from, address)
				}
			}
		}
	}
	for _, n := range c.nodes {
		for _, p := range c.pods {
			for _, address := range p.Addresses {
				require.NoError(c, c.nodePing(n, address), "node %s to %s", n.name, address)
			}
		}
	}
}

func (c *cluster) nodePing(n *clusterNode, to netip.Addr) error {
	require.NoError(c, n.ns.SetSysctl("net/ipv4/ping_group_range", "0 0"))
	return ping(n.ns, to, 100)
}
