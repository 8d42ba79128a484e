// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/node"
	"github.com/wayleave/wayleave/examples/agent/internal/probe"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// enough is the wait for an expected answer, and little the wait if no answer is expected.
const enough, little = 10 * time.Second, 200 * time.Millisecond

// neighbours returns a client and a server on one link.
func neighbours(t *testing.T, ports ...policy.EndpointPort) (client *netns.NS, party node.Party) {
	t.Helper()
	client, server := nstest.New(t), nstest.New(t)
	_, _, err := netns.Veth(netns.End{NS: client, Name: "eth0"}, netns.End{NS: server, Name: "eth0"})
	require.NoError(t, err)
	party = node.Party{Name: "b/server", NS: server, Ports: ports}
	for _, family := range []string{"10.0.0.%d/24", "2001:db8::%d/64"} {
		require.NoError(t, client.AddAddr("eth0", netip.MustParsePrefix(fmt.Sprintf(family, 1))))
		prefix := netip.MustParsePrefix(fmt.Sprintf(family, 2))
		require.NoError(t, server.AddAddr("eth0", prefix))
		party.Addresses = append(party.Addresses, prefix.Addr())
	}
	return client, party
}

func serve(t *testing.T, p node.Party) *probe.Server {
	t.Helper()
	s, err := probe.Serve(p)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func flow(protocol policy.Protocol, dst string, port uint16) verdict.Flow {
	f := verdict.Flow{Protocol: protocol, Dst: netip.MustParseAddr(dst), SrcPort: 30_000, DstPort: port}
	f.Src = netip.MustParseAddr("10.0.0.1")
	if f.Dst.Is6() {
		f.Src = netip.MustParseAddr("2001:db8::1")
	}
	return f
}

func TestPassed(t *testing.T) {
	client, party := neighbours(t,
		policy.EndpointPort{Protocol: policy.ProtocolTCP, Port: 80},
		policy.EndpointPort{Protocol: policy.ProtocolUDP, Port: 53})
	server := serve(t, party)
	for _, f := range []verdict.Flow{
		flow(policy.ProtocolTCP, "10.0.0.2", 80), flow(policy.ProtocolTCP, "2001:db8::2", 80),
		flow(policy.ProtocolUDP, "10.0.0.2", 53), flow(policy.ProtocolUDP, "2001:db8::2", 53),
		flow(policy.ProtocolICMP, "10.0.0.2", 0), flow(policy.ProtocolICMPv6, "2001:db8::2", 0),
	} {
		answer := probe.Send(t.Context(), probe.Probe{From: client, To: server, Flow: f, Wait: enough})
		require.Equal(t, probe.Answer{Outcome: probe.Passed}, answer, f)
		require.Equal(t, f.DstPort != 0, server.Received(netip.AddrPortFrom(f.Src, 30_000)) && f.DstPort != 0)
	}
}

// If no server listens, the outcome is Broken, not Blocked.
func TestBroken(t *testing.T) {
	client, party := neighbours(t)
	server := serve(t, party)
	for _, f := range []verdict.Flow{
		flow(policy.ProtocolTCP, "10.0.0.2", 80), flow(policy.ProtocolTCP, "2001:db8::2", 80),
		flow(policy.ProtocolUDP, "10.0.0.2", 53), flow(policy.ProtocolUDP, "2001:db8::2", 53),
	} {
		answer := probe.Send(t.Context(), probe.Probe{From: client, To: server, Flow: f, Wait: enough})
		require.Equal(t, probe.Broken, answer.Outcome, f)
		require.ErrorContains(t, answer.Err, "refused")
	}
	nowhere := flow(policy.ProtocolUDP, "192.0.2.1", 53)
	answer := probe.Send(t.Context(), probe.Probe{From: client, To: server, Flow: nowhere, Wait: enough})
	require.Equal(t, probe.Broken, answer.Outcome)
}

// If another server answers, the outcome is Broken.
func TestWrongName(t *testing.T) {
	client, party := neighbours(t,
		policy.EndpointPort{Protocol: policy.ProtocolTCP, Port: 80},
		policy.EndpointPort{Protocol: policy.ProtocolUDP, Port: 53})
	serve(t, party)
	other := serve(t, node.Party{Name: "b/other", NS: party.NS})
	for _, f := range []verdict.Flow{
		flow(policy.ProtocolTCP, "10.0.0.2", 80), flow(policy.ProtocolUDP, "10.0.0.2", 53),
	} {
		answer := probe.Send(t.Context(), probe.Probe{From: client, To: other, Flow: f, Wait: enough})
		require.Equal(t, probe.Broken, answer.Outcome)
		require.ErrorContains(t, answer.Err, `answered by "b/server"`)
	}
}

func TestBlocked(t *testing.T) {
	client, party := neighbours(t)
	server := serve(t, party)
	var mute []net.PacketConn // receive datagrams, and send no answer
	require.NoError(t, party.NS.Do(func() error {
		for _, at := range []string{"10.0.0.2:53", "[2001:db8::2]:53"} {
			conn, err := net.ListenPacket("udp", at)
			if err != nil {
				return err
			}
			mute = append(mute, conn)
		}
		return nil
	}))
	for _, conn := range mute {
		defer func() { require.NoError(t, conn.Close()) }()
	}
	require.NoError(t, party.NS.SetSysctl("net/ipv4/icmp_echo_ignore_all", "1"))
	for _, f := range []verdict.Flow{
		flow(policy.ProtocolUDP, "10.0.0.2", 53), flow(policy.ProtocolUDP, "2001:db8::2", 53),
		// no host has the address, which the kernel reports after 3 s
		flow(policy.ProtocolICMP, "10.0.0.2", 0), flow(policy.ProtocolTCP, "10.0.0.77", 80),
	} {
		answer := probe.Send(t.Context(), probe.Probe{From: client, To: server, Flow: f, Wait: little})
		require.Equal(t, probe.Answer{Outcome: probe.Blocked}, answer, f)
	}
}

// If a datagram arrived and the answer was lost, the outcome is Broken, not Blocked.
func TestArrivedWithoutAnswer(t *testing.T) {
	client, party := neighbours(t, policy.EndpointPort{Protocol: policy.ProtocolUDP, Port: 53})
	server := serve(t, party)
	f := flow(policy.ProtocolUDP, "10.0.0.2", 53)
	sent := probe.Send(t.Context(), probe.Probe{From: client, To: server, Flow: f, Wait: enough})
	require.Equal(t, probe.Passed, sent.Outcome)
	f.Dst = netip.MustParseAddr("10.0.0.77")
	answer := probe.Send(t.Context(), probe.Probe{From: client, To: server, Flow: f, Wait: little})
	require.Equal(t, probe.Broken, answer.Outcome)
	require.ErrorContains(t, answer.Err, "the request arrived")
}

func TestServeFails(t *testing.T) {
	ns := nstest.New(t)
	_, err := probe.Serve(node.Party{
		Name: "b/none", NS: ns, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
		Ports: []policy.EndpointPort{{Protocol: policy.ProtocolTCP, Port: 80}},
	})
	require.ErrorContains(t, err, "probe: serve b/none")
}
