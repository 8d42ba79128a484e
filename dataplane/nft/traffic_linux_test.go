// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// members returns an IP set of full-length addresses, which are given in order.
func members(list ...string) dptest.Set {
	set := dptest.Set{Type: dataplane.IPSetNets}
	for _, a := range addrs(list...) {
		set.Members = append(set.Members, dataplane.Member{Prefix: netip.PrefixFrom(a, a.BitLen())})
	}
	return set
}

func set(id dataplane.IPSetID) dataplane.Match { return dataplane.Match{Sets: []dataplane.IPSetID{id}} }

func port80() dataplane.Match { return dataplane.Match{Ports: []policy.Port{policy.PortNumber(80)}} }

// shop is a state of three endpoints, which only have a profile that allows everything.
func shop() dptest.State {
	s := allowed()
	for i, name := range []string{"way1", "way2", "way3"} {
		s.Endpoints[endpointKey(name)] = &dataplane.Endpoint{
			Interface: name, Addresses: workloadAddrs(i), Profiles: []string{"all"},
		}
	}
	return s
}

// policed is shop with policy. The endpoint way2 receives TCP port 80 and pings from way1, and UDP
// from all others. The endpoint way3 may send TCP only over IPv6. It may also send UDP, and nothing
// else.
func policed() dptest.State {
	s := shop()
	one := workloadAddrs(0)
	s.Sets["s:one"] = members(one[0].String(), one[1].String())
	echo4, echo6 := 8, 128
	web := policy.Key{Kind: policy.KindPolicy, Namespace: "test", Name: "web"}
	out := policy.Key{Kind: policy.KindPolicy, Name: "out"}
	s.Policies[web] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "web", Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: set("s:one"), Destination: port80()},
		{
			ID: "ping4", Action: policy.Allow, Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
				ICMP: &policy.ICMP{Type: &echo4},
			},
			Source: set("s:one"),
		},
		{
			ID: "ping6", Action: policy.Allow, Protocol: policy.ProtocolICMPv6, HeaderMatch: policy.HeaderMatch{
				ICMP: &policy.ICMP{Type: &echo6},
			},
			Source: set("s:one"),
		},
		{ID: "udp", Action: policy.Allow, Protocol: policy.ProtocolUDP, Source: dataplane.Match{
			NotSets: []dataplane.IPSetID{"s:one"},
		}},
	}}
	s.Policies[out] = &dataplane.Policy{Tier: "guard", Egress: []dataplane.Rule{
		{ID: "tcp6", Action: policy.Allow, IPVersion: 6, Protocol: policy.ProtocolTCP},
		{ID: "udp", Action: policy.Pass, Protocol: policy.ProtocolUDP},
	}}
	two, three := *s.Endpoints[endpointKey("way2")], *s.Endpoints[endpointKey("way3")]
	two.Ingress = []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{web}}}
	three.Egress = []dataplane.TierPolicies{{Tier: "guard", DefaultAction: policy.Deny, Policies: []policy.Key{out}}}
	s.Endpoints[endpointKey("way2")], s.Endpoints[endpointKey("way3")] = &two, &three
	return s
}

// edit returns the state with a change to one endpoint.
func edit(s dptest.State, name string, change func(e *dataplane.Endpoint)) dptest.State {
	s = s.Clone()
	e := *s.Endpoints[endpointKey(name)]
	change(&e)
	s.Endpoints[endpointKey(name)] = &e
	return s
}

// Real packets, of every kind between every two workloads, get the verdict of the state. The
// verdict follows from tiers, sets and profiles. The packets are of both families, and are sent
// before and after changes.
func TestTraffic(t *testing.T) { nfttest.EachFormInParallel(t, testTraffic) }

func testTraffic(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	d := open(t, n.node, render.Config{Classes: classes})
	at := dptest.NewState()
	for _, step := range []struct {
		name string
		to   dptest.State
	}{
		{"profiles alone", shop()},
		{"policy", policed()},
		{"a set without its member", func() dptest.State {
			s := policed()
			s.Sets["s:one"] = members(workloadAddrs(0)[1].String())
			return s
		}()},
		{"no profile (S33)", edit(policed(), "way1", func(e *dataplane.Endpoint) { e.Profiles = nil })},
		{"down (S35)", edit(shop(), "way2", func(e *dataplane.Endpoint) { e.Down = true })},
		{"profiles alone again", shop()},
	} {
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(at, step.to)), step.name)
		at = step.to
		n.requireLike(t, at, step.name)
	}
}

// requireLike requires that packets of every kind between every two workloads get the verdict of
// the state.
func (n *network) requireLike(t *testing.T, state dptest.State, when string) {
	t.Helper()
	n.requireVerdicts(t, state, when, n.probes())
}

// requireVerdicts requires that the packets of the probes get the verdict of the state.
func (n *network) requireVerdicts(t *testing.T, state dptest.State, when string, probes []*probe) {
	t.Helper()
	for _, p := range probes {
		p.want = state.Judge(p.packet()).Allowed()
		n.start(p)
	}
	results := n.finish()
	for range 3 { // a busy machine sometimes loses a packet, but a denied packet never passes
		for i, p := range results {
			if p.want && !p.got {
				n.start(p)
				results[i] = n.finish()[0]
			}
		}
	}
	for _, p := range results {
		require.Equal(t, p.want, p.got, "%s: %s", when, p)
	}
}

// S116: an established connection continues when policy denies it. A new one does not begin.
func TestEstablishedSurvivesDeny(t *testing.T) { nfttest.EachForm(t, testEstablishedSurvivesDeny) }

func testEstablishedSurvivesDeny(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	d := open(t, n.node, render.Config{Classes: classes})
	open, closed := shop(), edit(shop(), "way2", func(e *dataplane.Endpoint) { e.Profiles = nil })
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), open)))
	var conns []net.Conn
	for family := range 2 {
		conn := n.dial(t, 0, workloadAddrs(1)[family], 80, waitTimeout)
		require.NotNil(t, conn)
		conns = append(conns, conn)
		require.True(t, exchange(conn, waitTimeout))
	}
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(open, closed)))
	for family, conn := range conns {
		require.True(t, exchange(conn, waitTimeout), "an established connection")
		require.Nil(t, n.dial(t, 0, workloadAddrs(1)[family], 80, dropTimeout), "a new connection")
		require.NoError(t, conn.Close())
	}
}

// S35: an endpoint that is down has no traffic, established connections included.
func TestDownCutsEstablished(t *testing.T) { nfttest.EachForm(t, testDownCutsEstablished) }

func testDownCutsEstablished(t *testing.T, classes render.ClassesConfig) {
	for _, side := range []string{"way1", "way2"} {
		n := newNetwork(t)
		d := open(t, n.node, render.Config{Classes: classes})
		up := shop()
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), up)))
		conn := n.dial(t, 0, workloadAddrs(1)[0], 80, waitTimeout)
		require.NotNil(t, conn)
		require.True(t, exchange(conn, waitTimeout))
		down := edit(up, side, func(e *dataplane.Endpoint) { e.Down = true })
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(up, down)))
		require.False(t, exchange(conn, dropTimeout), "%s is down", side)
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(down, up)))
		again := n.dial(t, 0, workloadAddrs(1)[0], 80, waitTimeout)
		require.NotNil(t, again, "up again")
		require.NoError(t, again.Close())
		require.NoError(t, conn.Close())
	}
}

// S119: packets with a source address other than the workload's own drop, whatever policy allows,
// although their replies would be routed back.
func TestSpoofedSourceDrops(t *testing.T) { nfttest.EachForm(t, testSpoofedSourceDrops) }

func testSpoofedSourceDrops(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	for family, spoofed := range addrs("10.99.0.77", "fd00:99::77") {
		require.NoError(t, n.workloads[0].NS.AddAddr("eth0", netip.PrefixFrom(spoofed, spoofed.BitLen())))
		n.route(t, spoofed, 0)
		conn := n.dialFrom(t, 0, spoofed, workloadAddrs(1)[family], 80, waitTimeout)
		require.NotNil(t, conn, "works without us")
		require.NoError(t, conn.Close())
	}
	d := open(t, n.node, render.Config{Classes: classes})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	for family, spoofed := range addrs("10.99.0.77", "fd00:99::77") {
		target := workloadAddrs(1)[family]
		require.Nil(t, n.dialFrom(t, 0, spoofed, target, 80, dropTimeout))
		conn := n.dialFrom(t, 0, workloadAddrs(0)[family], target, 80, waitTimeout)
		require.NotNil(t, conn, "its own address")
		require.NoError(t, conn.Close())
	}
}

// Packets of an interface with our prefix and without an endpoint drop in both directions. The host
// reaches endpoints (S104).
func TestUnknownInterfaceDrops(t *testing.T) { nfttest.EachForm(t, testUnknownInterfaceDrops) }

func testUnknownInterfaceDrops(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	known := shop()
	delete(known.Endpoints, endpointKey("way3"))
	d := open(t, n.node, render.Config{Classes: classes})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), known)))
	for family := range 2 {
		require.Nil(t, n.dial(t, 2, workloadAddrs(0)[family], 80, dropTimeout), "from it")
		require.Nil(t, n.dial(t, 0, workloadAddrs(2)[family], 80, dropTimeout), "to it")
		conn := n.dial(t, 0, workloadAddrs(1)[family], 80, waitTimeout)
		require.NotNil(t, conn)
		require.NoError(t, conn.Close())
		conn = n.dialHost(t, workloadAddrs(1)[family], 80, waitTimeout)
		require.NotNil(t, conn, "from the host")
		require.NoError(t, conn.Close())
	}
}

// A restarted agent adopts the table of the former one without interruption. Established and new
// connections work before its first batch, and afterwards.
func TestRestartKeepsTraffic(t *testing.T) { nfttest.EachForm(t, testRestartKeepsTraffic) }

func testRestartKeepsTraffic(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	first := open(t, n.node, render.Config{Classes: classes})
	require.NoError(t, first.Apply(t.Context(), dptest.Transition(dptest.NewState(), policed())))
	conn := n.dial(t, 0, workloadAddrs(1)[0], 80, waitTimeout)
	require.NotNil(t, conn)
	require.True(t, exchange(conn, waitTimeout))

	require.NoError(t, first.Close())
	require.True(t, exchange(conn, waitTimeout))
	second := open(t, n.node, render.Config{Classes: classes})
	require.NoError(t, second.Apply(t.Context(), dptest.Transition(dptest.NewState(), policed())))
	require.True(t, exchange(conn, waitTimeout))
	require.NoError(t, conn.Close())
	require.Nil(t, n.dial(t, 2, workloadAddrs(1)[0], 80, dropTimeout), "denied as before")
}

const (
	// waitTimeout is the time limit for expected events.
	waitTimeout = 20 * time.Second
	// dropTimeout is how long a test waits for an event that must not happen. A slow machine does
	// not fail a test because of it.
	dropTimeout = 250 * time.Millisecond
)
