// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// hostNetwork is a network of which way1 and way2 are workloads, and way3 is an interface of the
// host with an external peer behind it. The host serves TCP on ports 80 and 81. A table like
// kube-proxy's translates port 30080 of the host to port 80 of way1, 30081 to its port 81.
type hostNetwork struct {
	*network
	dp *nft.Dataplane
	at dptest.State
}

const (
	outside  = 2
	services = `
table ip kube-proxy {
	chain services {
		tcp dport 30080 mark set mark or 0x4000 dnat to 10.99.0.1:80
		tcp dport 30081 dnat to 10.99.0.1:81
	}
	chain prerouting { type nat hook prerouting priority dstnat; ip daddr 192.0.2.1 jump services; }
	chain output { type nat hook output priority -100; ip daddr 192.0.2.1 jump services; }
	chain postrouting { type nat hook postrouting priority srcnat; mark and 0x4000 == 0x4000 masquerade; }
}
`
)

func newHostNetwork(t *testing.T, classes render.ClassesConfig) *hostNetwork {
	t.Helper()
	n := &hostNetwork{network: newNetwork(t), at: dptest.NewState()}
	require.NoError(t, n.node.AddAddr("way3", netip.MustParsePrefix("192.0.2.33/32")))
	load(t, n.node, services)
	for _, port := range []string{"80", "81"} {
		var l net.Listener
		require.NoError(t, n.node.Do(func() (err error) { l, err = net.Listen("tcp", ":"+port); return err }))
		n.echo(t, l)
	}
	n.dp = open(t, n.node, render.Config{Classes: classes, InterfacePrefix: "none", Host: policy.HostConfig{
		FailsafeInbound: []policy.Failsafe{{
			Protocol: policy.ProtocolTCP, Port: 81, Net: netip.MustParsePrefix("10.99.0.0/24"),
		}},
		FailsafeOutbound: []policy.Failsafe{},
	}})
	return n
}

// echo returns the data of a listener's connections, and closes the listener at the end.
func (n *hostNetwork) echo(t *testing.T, l net.Listener) {
	t.Helper()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				_ = conn.SetDeadline(time.Now().Add(2 * waitTimeout))
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
			t.Cleanup(func() { _ = conn.Close() })
		}
	})
	t.Cleanup(func() { require.NoError(t, l.Close()); running.Wait() })
}

// hostWorld has two workloads to which policy allows everything, and the host endpoint of way3.
func hostWorld(change func(s dptest.State, h *dataplane.HostEndpoint)) dptest.State {
	s := shop()
	delete(s.Endpoints, endpointKey("way3"))
	h := &dataplane.HostEndpoint{Interface: "way3"}
	change(s, h)
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "way3"}] = h
	return s
}

// tierOf adds a policy to the state and returns the list with only this policy.
func tierOf(s dptest.State, name string, action policy.Action, p *dataplane.Policy) []dataplane.TierPolicies {
	key := policy.Key{Kind: policy.KindPolicy, Name: name}
	p.Tier = "default"
	s.Policies[key] = p
	return []dataplane.TierPolicies{{Tier: "default", DefaultAction: action, Policies: []policy.Key{key}}}
}

func tcpTo(action policy.Action, port uint16) dataplane.Rule {
	return dataplane.Rule{
		ID: "r", Action: action, Protocol: policy.ProtocolTCP,
		Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(port)}},
	}
}

func tcpFrom(action policy.Action, port uint16) dataplane.Rule {
	return dataplane.Rule{
		ID: "r", Action: action, Protocol: policy.ProtocolTCP,
		Source: dataplane.Match{Ports: []policy.Port{policy.PortNumber(port)}},
	}
}

func (n *hostNetwork) apply(t *testing.T, to dptest.State) {
	t.Helper()
	require.NoError(t, n.dp.Apply(t.Context(), dptest.Transition(n.at, to)))
	n.at = to
}

// reaches checks whether a connection can be made and carries data. From is a workload's number, or
// -1 for the host.
func (n *hostNetwork) reaches(t *testing.T, want bool, from int, to string, port uint16) {
	t.Helper()
	ns, timeout := n.node, dropTimeout
	if from >= 0 {
		ns = n.workloads[from].NS
	}
	if want {
		timeout = waitTimeout
	}
	conn := dialIn(ns, netip.Addr{}, netip.MustParseAddr(to), port, timeout)
	if conn == nil {
		require.False(t, want, "%d to %s port %d", from, to, port)
		return
	}
	defer func() { _ = conn.Close() }()
	require.Equal(t, want, exchange(conn, timeout), "%d to %s port %d", from, to, port)
}

// Real connections of a host endpoint: its own traffic, failsafe ports, forwarded traffic, and
// established connections (S107, S109, S111, S112, S116).
func TestHostEndpointTraffic(t *testing.T) { nfttest.EachFormInParallel(t, testHostEndpointTraffic) }

func testHostEndpointTraffic(t *testing.T, classes render.ClassesConfig) {
	n := newHostNetwork(t, classes)
	n.apply(t, hostWorld(func(dptest.State, *dataplane.HostEndpoint) {}))
	n.reaches(t, false, outside, "192.0.2.1", 80)
	n.reaches(t, true, outside, "192.0.2.1", 81) // failsafe
	n.reaches(t, false, -1, "10.99.0.3", 80)
	n.reaches(t, true, outside, "10.99.0.1", 80)
	n.reaches(t, true, 0, "10.99.0.3", 80)
	n.reaches(t, true, -1, "10.99.0.1", 80)
	n.reaches(t, true, -1, "fd00:99::1", 80)
	n.reaches(t, false, -1, "fd00:99::3", 80)

	allow := func(s dptest.State, h *dataplane.HostEndpoint) {
		h.Ingress = tierOf(s, "in", policy.Deny, &dataplane.Policy{Ingress: []dataplane.Rule{tcpTo(policy.Allow, 80)}})
		h.Egress = tierOf(s, "out", policy.Deny, &dataplane.Policy{Egress: []dataplane.Rule{tcpTo(policy.Allow, 80)}})
		h.ForwardIngress = tierOf(s, "fwd", policy.Deny, &dataplane.Policy{
			Forward: true, Ingress: []dataplane.Rule{tcpTo(policy.Allow, 81)},
		})
	}
	n.apply(t, hostWorld(allow))
	n.reaches(t, true, outside, "192.0.2.1", 80)
	n.reaches(t, true, -1, "10.99.0.3", 80)
	n.reaches(t, true, -1, "fd00:99::3", 80)
	n.reaches(t, false, -1, "10.99.0.3", 81)
	n.reaches(t, false, outside, "10.99.0.1", 80)
	n.reaches(t, true, outside, "10.99.0.1", 81)
	n.reaches(t, true, 0, "10.99.0.3", 80)
	conn := dialIn(n.workloads[outside].NS, netip.Addr{}, netip.MustParseAddr("192.0.2.1"), 80, waitTimeout)
	require.NotNil(t, conn)
	require.True(t, exchange(conn, waitTimeout))
	n.apply(t, hostWorld(func(dptest.State, *dataplane.HostEndpoint) {}))
	require.True(t, exchange(conn, waitTimeout), "established connections continue")
	require.NoError(t, conn.Close())
	n.reaches(t, false, outside, "192.0.2.1", 80)
}

// Untracked policy must allow both directions of a connection. Failsafe ports stay open in both
// directions (S114, S115).
func TestUntrackedTraffic(t *testing.T) { nfttest.EachForm(t, testUntrackedTraffic) }

func testUntrackedTraffic(t *testing.T, classes render.ClassesConfig) {
	n := newHostNetwork(t, classes)
	both := func(s dptest.State, h *dataplane.HostEndpoint) {
		h.UntrackedIngress = tierOf(s, "raw", policy.Pass, &dataplane.Policy{
			Untracked: true, Ingress: []dataplane.Rule{tcpTo(policy.Allow, 80), tcpTo(policy.Deny, 81)},
			Egress: []dataplane.Rule{tcpFrom(policy.Allow, 80), tcpFrom(policy.Deny, 81)},
		})
		h.UntrackedEgress = h.UntrackedIngress
	}
	n.apply(t, hostWorld(both))
	n.reaches(t, true, outside, "192.0.2.1", 80)
	n.reaches(t, true, outside, "192.0.2.1", 81)
	n.apply(t, hostWorld(func(s dptest.State, h *dataplane.HostEndpoint) { both(s, h); h.UntrackedEgress = nil }))
	n.reaches(t, false, outside, "192.0.2.1", 80)
}

// Beside a table like kube-proxy's, pre-DNAT policy sees the port of the node, and other policy the
// port of the workload. Packets from the host to a service are judged by their translated
// destination (S121, S122, S35).
func TestServiceTraffic(t *testing.T) { nfttest.EachForm(t, testServiceTraffic) }

func testServiceTraffic(t *testing.T, classes render.ClassesConfig) {
	n := newHostNetwork(t, classes)
	n.apply(t, hostWorld(func(s dptest.State, h *dataplane.HostEndpoint) {
		h.PreDNATIngress = tierOf(s, "pre", policy.Pass, &dataplane.Policy{
			PreDNAT: true, Ingress: []dataplane.Rule{tcpTo(policy.Allow, 30080)},
		})
		h.ForwardIngress = tierOf(s, "fwd", policy.Deny, &dataplane.Policy{Forward: true})
	}))
	n.reaches(t, true, outside, "192.0.2.1", 30080)
	n.reaches(t, false, outside, "192.0.2.1", 30081)
	n.reaches(t, true, -1, "192.0.2.1", 30080)
	n.reaches(t, true, 0, "192.0.2.1", 30080) // S103: back to itself by the service
	n.apply(t, edit(n.at, "way1", func(e *dataplane.Endpoint) { e.Down = true }))
	n.reaches(t, false, -1, "192.0.2.1", 30080)
	n.apply(t, edit(n.at, "way1", func(e *dataplane.Endpoint) { e.Down, e.Profiles = false, nil }))
	n.reaches(t, false, outside, "192.0.2.1", 30080) // S122: the workload's policy denies it
	n.reaches(t, false, 0, "192.0.2.1", 30080)
}

// A host endpoint with addresses governs the interface that has one of them, also after the address
// moves.
func TestHostEndpointByAddress(t *testing.T) { nfttest.EachForm(t, testHostEndpointByAddress) }

func testHostEndpointByAddress(t *testing.T, classes render.ClassesConfig) {
	n := newHostNetwork(t, classes)
	n.apply(
		t,
		hostWorld(
			func(_ dptest.State, h *dataplane.HostEndpoint) { h.Interface, h.Addresses = "", addrs("192.0.2.33") },
		),
	)
	n.reaches(t, false, outside, "192.0.2.1", 80)
	// the removal of the last address would remove the routes
	require.NoError(t, n.node.AddAddr("way3", netip.MustParsePrefix("192.0.2.34/32")))
	runIP(t, n.node, "addr", "del", "192.0.2.33/32", "dev", "way3")
	require.NoError(t, n.dp.Resync(t.Context()))
	n.reaches(t, true, outside, "192.0.2.1", 80)
	require.NoError(t, n.node.AddAddr("way3", netip.MustParsePrefix("192.0.2.33/32")))
	require.NoError(t, n.dp.Resync(t.Context()))
	n.reaches(t, false, outside, "192.0.2.1", 80)
}

// Packets from pools with NAT outgoing have the host's address outside. Packets to a floating
// address reach its workload, and the workload's packets have the floating address as source.
func TestNATTraffic(t *testing.T) { nfttest.EachForm(t, testNATTraffic) }

func testNATTraffic(t *testing.T, classes render.ClassesConfig) {
	n := newHostNetwork(t, classes)
	seen := make(chan netip.Addr, 1)
	var l net.Listener
	require.NoError(
		t, n.workloads[outside].NS.Do(func() (err error) { l, err = net.Listen("tcp", "10.99.0.3:8000"); return err }),
	)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	source := func(from int) netip.Addr {
		go func() {
			conn, err := l.Accept()
			if err != nil {
				seen <- netip.Addr{}
				return
			}
			seen <- conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
			_ = conn.Close()
		}()
		conn := n.dial(t, from, netip.MustParseAddr("10.99.0.3"), 8000, waitTimeout)
		require.NotNil(t, conn)
		defer func() { _ = conn.Close() }()
		return <-seen
	}
	world := func(out bool) dptest.State {
		s := shop()
		delete(s.Endpoints, endpointKey("way3"))
		s.Pools["p"] = &dataplane.Pool{
			Name: "p", CIDR: netip.MustParsePrefix("10.99.0.0/31"), Type: dataplane.PoolDirect, NATOutgoing: out,
		}
		s.Pools["q"] = &dataplane.Pool{
			Name: "q", CIDR: netip.MustParsePrefix("10.99.0.2/32"), Type: dataplane.PoolDirect,
		}
		return edit(s, "way2", func(e *dataplane.Endpoint) {
			e.NATs = []policy.IPNAT{{
				InternalIP: netip.MustParseAddr("10.99.0.2"), ExternalIP: netip.MustParseAddr("203.0.113.5"),
			}}
		})
	}
	n.apply(t, world(false))
	require.Equal(t, netip.MustParseAddr("10.99.0.1"), source(0))
	n.apply(t, world(true))
	require.Equal(t, netip.MustParseAddr("192.0.2.33"), source(0))
	require.Equal(t, netip.MustParseAddr("203.0.113.5"), source(1))
	n.reaches(t, true, outside, "203.0.113.5", 80)
	n.reaches(t, true, 0, "203.0.113.5", 80)
	runIP(t, n.node, "route", "add", "203.0.113.0/24", "dev", "way3") // the host has no other way there
	n.reaches(t, true, -1, "203.0.113.5", 80)
	n.reaches(t, true, 1, "203.0.113.5", 80) // to itself
	n.apply(t, edit(n.at, "way2", func(e *dataplane.Endpoint) { e.NATs = nil }))
	n.reaches(t, false, outside, "203.0.113.5", 80)
}
