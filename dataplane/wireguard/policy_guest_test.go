// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// Besides port, the ports that policies deny between pods.
const senderPort, receiverPort = 7778, 7779

// policedCluster is a cluster with policy on both nodes. Node n2 has a host endpoint for all
// interfaces.
type policedCluster struct {
	*cluster
	// other is a second pod on n1.
	other *netns.Workload
	// inside records the decrypted packets of n2, wire the encrypted ones.
	inside *nstest.Capture
	wire   *capture
}

func newPolicedCluster(t *testing.T) *policedCluster {
	c := &policedCluster{cluster: newUnderlay(t, 2, nil)}
	n1, n2 := c.nodes[0], c.nodes[1]
	c.other = nstest.NewWorkload(t, n1.ns, "cali-other", "10.65.1.2", "fd65::1:2")
	c.set(n1.endpoint("other", c.other), &policy.HostEndpoint{
		Name: "n2", Node: "n2", InterfaceName: policy.AllInterfaces, Labels: map[string]string{"host": "n2"},
		Profiles: []string{"open"},
	})
	for _, n := range c.nodes {
		n.policed = true
		n.start()
	}
	c.awaitKeys()
	for _, a := range n2.pod.Addresses {
		for _, p := range []uint16{senderPort, receiverPort} {
			nstest.Serve(t, n2.pod.NS, netip.AddrPortFrom(a, p).String(), n2.text)
		}
	}
	for _, a := range []netip.Addr{n2.resource.IPv4WireguardAddr, n2.resource.IPv6WireguardAddr} {
		nstest.Serve(t, n2.ns, netip.AddrPortFrom(a, port).String(), n2.text)
	}
	c.inside, c.wire = nstest.NewCapture(t, n2.ns, "wg.way"), n1.capture()
	return c
}

// setPolicies sets a policy of the pod n1 as sender, one of the pod n2 as receiver, and one of all
// interfaces of node n2. The latter applies on forward if the names include "forward". A policy
// whose name is not included denies nothing. The rule of the host policy would also match packets
// from n1 to the pod n2.
func (c *policedCluster) setPolicies(names ...string) {
	c.Helper()
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
	c.set(
		&policy.Policy{Name: "sender", Selector: n1, Egress: rules("sender", senderPort, "")},
		&policy.Policy{Name: "receiver", Selector: `pod == "n2"`, Ingress: rules("receiver", receiverPort, n1)},
		&policy.Policy{
			Name: "host", Selector: `host == "n2"`, Ingress: rules("host", port, n1),
			ApplyOnForward: slices.Contains(names, "forward"),
		},
	)
	for _, n := range c.nodes {
		require.NoError(c, n.driver.WaitApplied(c.Context()))
		require.NoError(c, n.driver.Status().LastError)
	}
}

// check sets the policies with these names, and checks that each denies its flow and that all other
// flows are answered. The node n2 decrypts the packets of a denied flow, unless the sender's policy
// denies the flow.
func (c *policedCluster) check(names ...string) {
	c.Helper()
	c.setPolicies(names...)
	n1, n2 := c.nodes[0], c.nodes[1]
	device := []netip.Addr{n2.resource.IPv4WireguardAddr, n2.resource.IPv6WireguardAddr}
	var want []string
	for i := range n2.pod.Addresses {
		for _, flow := range []struct {
			policy string // the policy that denies it
			pod    *netns.Workload
			to     netip.AddrPort
		}{
			{"sender", n1.pod, netip.AddrPortFrom(n2.pod.Addresses[i], senderPort)},
			{"receiver", n1.pod, netip.AddrPortFrom(n2.pod.Addresses[i], receiverPort)},
			{"host", n1.pod, netip.AddrPortFrom(device[i], port)},
			{"forward", n1.pod, netip.AddrPortFrom(n2.pod.Addresses[i], port)},
			// These show that the policies deny by the address of the sender.
			{"", c.other, netip.AddrPortFrom(n2.pod.Addresses[i], receiverPort)},
			{"", c.other, netip.AddrPortFrom(n2.pod.Addresses[i], port)},
			{"", c.other, netip.AddrPortFrom(device[i], port)},
		} {
			text := fmt.Sprintf("%s > %s with policies %q", flow.pod.Addresses[i], flow.to, names)
			denied := slices.Contains(names, flow.policy)
			if denied {
				require.True(c, nstest.Dropped(c.T, flow.pod.NS, flow.to.String()), text)
			} else {
				require.Equal(c, n2.text, nstest.Answer(c.T, flow.pod.NS, "tcp", flow.to.String()), text)
				want = append(want, fmt.Sprintf("%s > %s", flow.to, flow.pod.Addresses[i]))
			}
			if !denied || flow.policy != "sender" {
				want = append(want, fmt.Sprintf("%s > %s", flow.pod.Addresses[i], flow.to))
			}
		}
	}
	slices.Sort(want)
	require.Equal(c, want, c.inside.TCPStarts(), "%q", names)
	require.Empty(c, plaintext(c.wire.packets()), "%q", names)
}

// Policy of the sending pod and of the receiving pod, which sees the sender's address, applies to
// the packets inside the tunnel. So does policy of a host endpoint for all interfaces, including
// the device. The latter does not apply to packets to pods, unless it applies on forward.
func TestPolicyInsideTunnel(t *testing.T) {
	c := newPolicedCluster(t)
	c.check()
	c.check("sender", "receiver", "host")
	for _, name := range []string{"sender", "receiver", "host"} {
		c.check(name)
	}
	c.check("host", "forward")
	c.check()
}
