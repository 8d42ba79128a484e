// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
)

func port(a netip.Addr, p uint16) netip.AddrPort { return netip.AddrPortFrom(a, p) }

func addrPort(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }

// services translates a service's address to the second workload, and the source of these packets
// to an address of the node, in both families.
const services = `
table ip nat4 {
	chain in { type nat hook prerouting priority dstnat; ip daddr 10.96.0.1 tcp dport 8000 dnat to 10.99.0.2:80; }
	chain out { type nat hook postrouting priority srcnat; ct status dnat snat to 192.0.2.1; }
}
table ip6 nat6 {
	chain in { type nat hook prerouting priority dstnat; ip6 daddr fd00:96::1 tcp dport 8000 dnat to [fd00:99::2]:80; }
	chain out { type nat hook postrouting priority srcnat; ct status dnat snat to 2001:db8::1; }
}
`

// Flows of real connections have the fields of these connections.
func TestFlowsOfRealTraffic(t *testing.T) {
	n := newNetwork(t, services)
	for family := range 2 {
		for _, protocol := range []string{"tcp", "udp"} {
			conn := n.dial(t, protocol, 0, port(own(family, 1), 80))
			f := n.find(t, conn)
			require.Equal(t, addrPort(conn.LocalAddr()), f.Source())
			require.Equal(t, port(own(family, 1), 80), f.Destination())
			require.Equal(t, f.Destination(), f.Requested())
			require.Equal(t, f.Source(), f.Translated())
			require.Equal(t, map[string]uint8{"tcp": 6, "udp": 17}[protocol], f.Protocol())
			require.Equal(t, family == 0, f.Is4())
			require.NotZero(t, f.Status&conntrack.StatusSeenReply)
			require.Zero(
				t, f.Status&(conntrack.StatusSourceNAT|conntrack.StatusDestinationNAT|conntrack.StatusExpected),
			)
			require.Positive(t, f.Timeout)
			require.Equal(t, conntrack.Tuple{}, f.Master)
		}
		id := uint16(4711)
		n.ping(t, 0, own(family, 1), id)
		var pings []conntrack.Flow
		for _, f := range n.flows(t) {
			if f.Original.ICMPID == id {
				pings = append(pings, f)
			}
		}
		require.Len(t, pings, 1)
		want := conntrack.Tuple{
			Source: port(own(family, 0), 0), Destination: port(own(family, 1), 0),
			Protocol: []uint8{1, 58}[family], ICMPType: []uint8{8, 128}[family], ICMPID: id,
		}
		require.Equal(t, want, pings[0].Original)
		want.Source, want.Destination, want.ICMPType = want.Destination, want.Source, []uint8{0, 129}[family]
		require.Equal(t, want, pings[0].Reply)
		ended, err := n.conn.End(pings)
		require.NoError(t, err)
		require.Equal(t, 1, ended, "an echo")

		vip := netip.MustParseAddr([]string{"10.96.0.1", "fd00:96::1"}[family])
		node := netip.MustParseAddr([]string{"192.0.2.1", "2001:db8::1"}[family])
		require.NoError(t, n.node.AddAddr("lo", netip.PrefixFrom(node, node.BitLen())))
		conn := n.dial(t, "tcp", 0, port(vip, 8000))
		f := n.find(t, conn)
		require.Equal(t, port(vip, 8000), f.Requested())
		require.Equal(t, port(own(family, 1), 80), f.Destination())
		require.Equal(t, node, f.Translated().Addr())
		require.Equal(
			t, conntrack.StatusSourceNAT|conntrack.StatusDestinationNAT,
			f.Status&(conntrack.StatusSourceNAT|conntrack.StatusDestinationNAT),
		)
	}
	all, err := n.conn.Flows(t.Context())
	require.NoError(t, err)
	count, err := n.conn.Count()
	require.NoError(t, err)
	require.GreaterOrEqual(t, count, 6)
	require.LessOrEqual(t, count, len(all)+4, "router solicitations aside")
}

// Only the flow with the given id ends. A flow with the same tuples and another id does not.
func TestEndRequiresFlowID(t *testing.T) {
	n := newNetwork(t, services)
	for family := range 2 {
		one, other := n.dial(t, "tcp", 0, port(own(family, 1), 80)), n.dial(t, "tcp", 0, port(own(family, 1), 80))
		udp := n.dial(t, "udp", 0, port(own(family, 1), 80))
		f := n.find(t, one)
		stale := f
		stale.ID++ // as if the flow had begun again since
		ended, err := n.conn.End([]conntrack.Flow{stale})
		require.NoError(t, err)
		require.Zero(t, ended)
		require.True(t, n.tracked(t, one))
		ended, err = n.conn.End([]conntrack.Flow{f, f, n.find(t, udp)})
		require.NoError(t, err)
		require.Equal(t, 2, ended, "the flow does not exist the second time")
		require.False(t, n.tracked(t, one))
		require.False(t, n.tracked(t, udp))
		require.True(t, n.tracked(t, other))
	}
}

// The same tuples in two zones are two flows, also if only one direction has a zone.
func TestZonesDistinguishFlows(t *testing.T) {
	n := newNetwork(t, `
table inet zones { chain in { type filter hook prerouting priority raw;
	tcp dport 80 ct zone set 7; tcp sport 80 ct zone set 7;
	tcp dport 81 ct original zone set 9
}
}`)
	for family := range 2 {
		both := n.dial(t, "tcp", 0, port(own(family, 1), 80))
		half := n.dial(t, "tcp", 0, port(own(family, 1), 81))
		none := n.dial(t, "udp", 0, port(own(family, 1), 80))
		f, g, h := n.find(t, both), n.find(t, half), n.find(t, none)
		require.Equal(t, []uint16{7, 0, 0}, []uint16{f.Zone, f.Original.Zone, f.Reply.Zone})
		require.Equal(t, []uint16{0, 9, 0}, []uint16{g.Zone, g.Original.Zone, g.Reply.Zone})
		require.Equal(t, []uint16{0, 0, 0}, []uint16{h.Zone, h.Original.Zone, h.Reply.Zone})
		elsewhere := []conntrack.Flow{f, g, h}
		elsewhere[0].Zone, elsewhere[1].Original.Zone, elsewhere[2].Zone = 0, 0, 7
		ended, err := n.conn.End(elsewhere)
		require.NoError(t, err)
		require.Zero(t, ended)
		ended, err = n.conn.End([]conntrack.Flow{f, g, h})
		require.NoError(t, err)
		require.Equal(t, 3, ended)
	}
}

// When policy denies a port, the flows to it end and do not begin again. All others continue.
func TestSweepOfRealTraffic(t *testing.T) {
	n := newNetwork(t, services)
	clk := newClock()
	s, err := conntrack.New(clk.with(conntrack.Config{NetNS: n.node.FD()}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	node := netip.MustParsePrefix("192.0.2.1/32")
	require.NoError(t, n.node.AddAddr("lo", node))

	var stale, fine []net.Conn
	for family := range 2 {
		for _, protocol := range []string{"tcp", "udp"} {
			stale = append(stale, n.dial(t, protocol, 0, port(own(family, 1), 80)))
			fine = append(
				fine, n.dial(t, protocol, 0, port(own(family, 1), 81)),
				n.dial(t, protocol, 1, port(own(family, 0), 81)),
			)
		}
	}
	stale = append(stale, n.dial(t, "tcp", 0, netip.MustParseAddrPort("10.96.0.1:8000")))

	n.load(t, `table inet deny { chain forward { type filter hook forward priority 0;
		ct state established accept
		tcp flags & (fin | syn | rst | ack) != syn drop
		meta l4proto { tcp, udp } th dport 80 drop
	}
	}`)
	for _, conn := range append(stale, fine...) {
		require.True(t, exchange(conn, waitTimeout), "the established connection continues: %s", conn.RemoteAddr())
	}
	deny80 := func(f *conntrack.Flow) conntrack.Verdict {
		if f.Destination().Port() == 80 {
			return conntrack.Denied
		}
		return conntrack.Allowed
	}
	s.Change(deny80, deny80)
	stepUntilDone(t, s, clk)
	require.Zero(t, s.Stats().Ended, "denied by both")
	s.Change(always(conntrack.Allowed), deny80)
	stepUntilDone(t, s, clk)
	require.Equal(t, uint64(len(stale)), s.Stats().Ended)
	for _, conn := range stale {
		require.False(t, exchange(conn, dropTimeout), "%s", conn.RemoteAddr())
		require.False(t, n.tracked(t, conn))
	}
	for _, conn := range fine {
		require.True(t, n.tracked(t, conn))
		require.True(t, exchange(conn, waitTimeout), "%s", conn.RemoteAddr())
	}
}

// Rules must drop TCP packets in state new that are not a SYN. Otherwise the kernel picks up an
// ended connection from a packet of the server, and the connection continues.
func TestEndedConnectionComesBackFromTheServer(t *testing.T) {
	const deny = `table inet deny { chain forward { type filter hook forward priority 0;
		ct state established accept
		%
		tcp dport 8001 drop
	}
	}`
	for _, c := range []struct {
		rule string
		back bool
	}{{"", true}, {"ct state new tcp flags & (fin | syn | rst | ack) != syn drop", false}} {
		n := newNetwork(t, "")
		var listener net.Listener
		require.NoError(
			t, n.workloads[1].NS.Do(func() (err error) { listener, err = net.Listen("tcp4", ":8001"); return err }),
		)
		t.Cleanup(func() { require.NoError(t, listener.Close()) })
		var client net.Conn
		require.NoError(t, n.workloads[0].NS.Do(func() (err error) {
			client, err = (&net.Dialer{Timeout: waitTimeout}).Dial("tcp", port(own(0, 1), 8001).String())
			return err
		}))
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		server, err := listener.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, server.Close()) })
		n.load(t, replaceOne(deny, c.rule))
		ended, err := n.conn.End([]conntrack.Flow{n.find(t, client)})
		require.NoError(t, err)
		require.Equal(t, 1, ended)

		wait := dropTimeout
		if c.back {
			wait = waitTimeout
		}
		require.Equal(t, c.back, arrives(server, client, wait), "from the server, with %q", c.rule)
		require.Equal(t, c.back, arrives(client, server, wait), "from the client, with %q", c.rule)
	}
}

// A sweep ends the flows of a real table.
func TestSweepOnRealTraffic(t *testing.T) {
	n := newNetwork(t, "")
	var ended []string
	hooks := conntrack.Hooks{Ending: func(f *conntrack.Flow) { ended = append(ended, f.Source().String()) }}
	s, err := conntrack.New(conntrack.Config{NetNS: n.node.FD(), Delay: -1, Hooks: hooks})
	require.NoError(t, err)
	var again []net.Conn
	for family := range 2 {
		stale, fine := n.dial(t, "udp", 0, port(own(family, 1), 80)), n.dial(t, "udp", 0, port(own(family, 1), 81))
		s.Change(only(80, 81), only(81))
		sweep(t, s)
		require.Equal(t, []string{stale.LocalAddr().String()}, ended)
		ended = nil
		require.False(t, n.tracked(t, stale))
		require.True(t, n.tracked(t, fine))
		again = append(again, stale)
	}
	for _, conn := range again {
		require.True(t, exchange(conn, waitTimeout), "no ruleset denies it here, so it begins again")
	}
	require.NoError(t, s.Close())
}
