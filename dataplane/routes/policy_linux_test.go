// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// The ports of the servers. Policies deny senderPort and receiverPort between pods.
const port, senderPort, receiverPort = 7777, 7778, 7779

// policedCluster is a cluster of two nodes with policy on both. Node n2 has a host endpoint for all
// interfaces.
type policedCluster struct {
	*cluster
	tables []*nft.Dataplane
	// tunnels has the addresses of n2's tunnel devices, and inside records the packets of these.
	tunnels []netip.Addr
	inside  []*nstest.Capture
}

// addPolicy adds a second pod "other" to the first node of a cluster, and policy to all. devices
// and tunnels belong to n2.
func (c *cluster) addPolicy(devices []string, tunnels ...netip.Addr) *policedCluster {
	c.Helper()
	p := &policedCluster{cluster: c, tunnels: tunnels}
	n1, n2 := c.nodes[0], c.nodes[1]
	c.addPod("other", n1, []string{"10.65.1.2", "fd65::1:2"}[:len(tunnels)]...)
	allow := []policy.Rule{{Action: policy.Allow}}
	c.set(
		&policy.Profile{Name: "open", Ingress: allow, Egress: allow},
		&policy.HostEndpoint{
			Name: "n2", Node: "n2", InterfaceName: policy.AllInterfaces, Labels: map[string]string{"host": "n2"},
			Profiles: []string{"open"},
		},
	)
	c.flush()
	for _, n := range c.nodes {
		table, err := nft.New(nft.Config{NetNS: n.ns.FD(), Renderer: render.Config{
			InterfacePrefix: "cali", Host: policy.HostConfig{VXLANFromNodesOnly: true, IPIPFromNodesOnly: true},
		}})
		require.NoError(c, err)
		c.Cleanup(func() { require.NoError(c, table.Close()) })
		require.NoError(c, table.Apply(c.Context(), n.graph.Snapshot()))
		p.tables = append(p.tables, table)
	}
	for _, device := range devices {
		p.inside = append(p.inside, nstest.NewCapture(c.T, n2.ns, device))
	}
	for i, a := range c.pods["n2"].Addresses {
		for _, port := range []uint16{port, senderPort, receiverPort} {
			nstest.Serve(c.T, c.pods["n2"].NS, netip.AddrPortFrom(a, port).String(), "n2")
		}
		nstest.Serve(c.T, n2.ns, netip.AddrPortFrom(tunnels[i], port).String(), "n2")
	}
	return p
}

// setPolicies sets a policy of the pod n1 as sender, one of the pod n2 as receiver, and one of all
// interfaces of node n2. The latter applies on forward if the names include "forward". A policy
// whose name is not included denies nothing. The rule of the host policy would also match packets
// from n1 to the pod n2.
func (p *policedCluster) setPolicies(names ...string) {
	p.Helper()
	const n1 = `pod == "n1"`
	rules := func(name string, port uint16, source string) (list []policy.Rule) {
		if slices.Contains(names, name) {
			list = append(list, policy.Rule{
				Action: policy.Deny, Protocol: policy.ProtocolTCP, Source: policy.EntityRule{Selector: source},
				Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(port)}},
			})
		}
		return append(list, policy.Rule{Action: policy.Allow})
	}
	p.set(
		&policy.Policy{Name: "sender", Selector: n1, Egress: rules("sender", senderPort, "")},
		&policy.Policy{Name: "receiver", Selector: `pod == "n2"`, Ingress: rules("receiver", receiverPort, n1)},
		&policy.Policy{
			Name: "host", Selector: `host == "n2"`, Ingress: rules("host", port, n1),
			ApplyOnForward: slices.Contains(names, "forward"),
		},
	)
	for i, n := range p.nodes {
		batch := n.graph.Flush()
		require.NoError(p, p.tables[i].Apply(p.Context(), batch))
		require.NoError(p, n.dp.Apply(p.Context(), batch))
	}
}

// check sets the policies with these names, and checks that each denies its flow and that all other
// flows are answered. The packets of a denied flow arrive through the tunnel, unless the sender's
// policy denies them.
func (p *policedCluster) check(names ...string) {
	p.Helper()
	p.setPolicies(names...)
	n1, n2, other := p.pods["n1"], p.pods["n2"], p.pods["other"]
	var want, got []string
	for i, tunnel := range p.tunnels {
		for _, flow := range []struct {
			policy string // the policy that denies it
			pod    *pod
			to     netip.AddrPort
		}{
			{"sender", n1, netip.AddrPortFrom(n2.Addresses[i], senderPort)},
			{"receiver", n1, netip.AddrPortFrom(n2.Addresses[i], receiverPort)},
			{"host", n1, netip.AddrPortFrom(tunnel, port)},
			{"forward", n1, netip.AddrPortFrom(n2.Addresses[i], port)},
			// These show that the policies deny by the address of the sender.
			{"", other, netip.AddrPortFrom(n2.Addresses[i], receiverPort)},
			{"", other, netip.AddrPortFrom(n2.Addresses[i], port)},
			{"", other, netip.AddrPortFrom(tunnel, port)},
		} {
			text := fmt.Sprintf("%s > %s with policies %q", flow.pod.Addresses[i], flow.to, names)
			denied := slices.Contains(names, flow.policy)
			if denied {
				require.True(p, nstest.Dropped(p.T, flow.pod.NS, flow.to.String()), text)
			} else {
				require.Equal(p, "n2", nstest.Answer(p.T, flow.pod.NS, "tcp", flow.to.String()), text)
				want = append(want, fmt.Sprintf("%s > %s", flow.to, flow.pod.Addresses[i]))
			}
			if !denied || flow.policy != "sender" {
				want = append(want, fmt.Sprintf("%s > %s", flow.pod.Addresses[i], flow.to))
			}
		}
	}
	for _, inside := range p.inside {
		got = append(got, inside.TCPStarts()...)
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(p, want, got, "%q", names)
}

// checkAll checks all policies together, and each without the others. The last step checks that
// connections pass again.
func (p *policedCluster) checkAll() {
	p.Helper()
	p.check()
	p.check("sender", "receiver", "host")
	for _, name := range []string{"sender", "receiver", "host"} {
		p.check(name)
	}
	p.check("host", "forward")
	p.check()
}

// Policy of the sending pod and of the receiving pod, which sees the sender's address, applies to
// the packets inside the tunnel. So does policy of a host endpoint for all interfaces, including
// the device. The latter does not apply to packets to pods, unless it applies on forward.
func TestPolicyInsideVXLAN(t *testing.T) {
	c := newCluster(t, policy.EncapAlways, 2, 3)
	n2 := &c.nodes[1].world
	c.addPolicy([]string{"vxlan.way", "vxlan6.way"}, n2.IPv4VXLANTunnelAddr, n2.IPv6VXLANTunnelAddr).checkAll()
}
