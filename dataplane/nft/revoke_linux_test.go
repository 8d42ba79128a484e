// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// backends translates the addresses of two services to ports 80 and 81 of way2, in both families.
const backends = `
table ip services { chain in { type nat hook prerouting priority dstnat;
	ip daddr 10.96.0.1 tcp dport 8000 dnat to 10.99.0.2:80
	ip daddr 10.96.0.2 tcp dport 8000 dnat to 10.99.0.2:81; }; }
table ip6 services { chain in { type nat hook prerouting priority dstnat;
	ip6 daddr fd00:96::1 tcp dport 8000 dnat to [fd00:99::2]:80
	ip6 daddr fd00:96::2 tcp dport 8000 dnat to [fd00:99::2]:81; }; }
`

// talk opens a connection of a workload, or of the node itself if that is nil, and receives an
// answer.
func talk(t *testing.T, n *network, from *netns.NS, protocol string, to netip.Addr, port uint16) net.Conn {
	t.Helper()
	if from == nil {
		from = n.node
	}
	var conn net.Conn
	require.NoError(t, from.Do(func() (err error) {
		conn, err = (&net.Dialer{Timeout: waitTimeout}).Dial(protocol, netip.AddrPortFrom(to, port).String())
		return err
	}))
	t.Cleanup(func() { _ = conn.Close() })
	require.True(t, answered(conn), "%s to %s", protocol, conn.RemoteAddr())
	return conn
}

// answered reports whether a line is echoed over a connection. A lost packet of UDP, at first or on
// a busy machine, is sent again. Late answers are discarded.
func answered(conn net.Conn) bool {
	if _, stream := conn.(*net.TCPConn); stream {
		return exchange(conn, waitTimeout)
	}
	for try := range int(waitTimeout / dropTimeout) {
		if exchange(conn, dropTimeout) {
			for try > 0 {
				if _, err := conn.Read(make([]byte, 64)); err != nil {
					break
				}
			}
			return true
		}
	}
	return false
}

// trackedFlows returns the connections that the node tracks, from the client's view.
func trackedFlows(t *testing.T, ns *netns.NS) map[string]bool {
	t.Helper()
	c, err := conntrack.Dial(conntrack.ConnConfig{NetNS: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	flows, err := c.Flows(t.Context())
	require.NoError(t, err)
	all := map[string]bool{}
	for _, f := range flows {
		all[f.Source().String()+" > "+f.Requested().String()] = true
	}
	return all
}

func requireTracked(t *testing.T, ns *netns.NS, want bool, conns []net.Conn) {
	t.Helper()
	all := trackedFlows(t, ns)
	for _, c := range conns {
		require.Equal(
			t, want, all[c.LocalAddr().String()+" > "+c.RemoteAddr().String()], "%s > %s", c.LocalAddr(),
			c.RemoteAddr(),
		)
	}
}

// narrowed is shop with policy on way2 that allows only port 81, and UDP from way3.
func narrowed() dptest.State {
	s := shop()
	three := workloadAddrs(2)
	s.Sets["s:three"] = members(three[0].String(), three[1].String())
	key := policy.Key{Kind: policy.KindPolicy, Namespace: "test", Name: "narrow"}
	s.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "81", Action: policy.Allow, Protocol: policy.ProtocolTCP, Destination: dataplane.Match{
			Ports: []policy.Port{policy.PortNumber(81)},
		}},
		{ID: "udp", Action: policy.Allow, Protocol: policy.ProtocolUDP, Source: set("s:three")},
	}}
	two := *s.Endpoints[endpointKey("way2")]
	two.Ingress = []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
	s.Endpoints[endpointKey("way2")] = &two
	return s
}

// conversations opens connections that narrowed denies, and others that it allows.
func (n *network) conversations(t *testing.T) (flipped, fine []net.Conn) {
	t.Helper()
	one, two, three := n.workloads[0].NS, n.workloads[1].NS, n.workloads[2].NS
	for family := range 2 {
		target, back := workloadAddrs(1)[family], workloadAddrs(0)[family]
		vip := addrs([]string{"10.96.0.1", "fd00:96::1"}[family], []string{"10.96.0.2", "fd00:96::2"}[family])
		flipped = append(flipped,
			talk(t, n, one, "tcp", target, 80), talk(t, n, three, "tcp", target, 80),
			talk(t, n, one, "udp", target, 53), talk(t, n, one, "tcp", vip[0], 8000))
		fine = append(fine,
			talk(t, n, one, "tcp", target, 81), talk(t, n, three, "udp", target, 53),
			talk(t, n, two, "tcp", back, 80), talk(t, n, two, "udp", back, 53),
			talk(t, n, one, "tcp", vip[1], 8000), talk(t, n, nil, "tcp", target, 80))
	}
	return flipped, fine
}

// With ConntrackPolicy End, a change of policy ends exactly the connections that it denies: TCP and
// UDP, both families, and through services. All others continue, also replies and connections of
// the host (without End: S116).
func TestDeniedConnectionsAreEnded(t *testing.T) { nfttest.EachForm(t, testDeniedConnectionsAreEnded) }

func testDeniedConnectionsAreEnded(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	load(t, n.node, backends)
	var ended atomic.Int64
	d := ender(t, n.node, classes, conntrack.Config{Hooks: conntrack.Hooks{
		Ending: func(*conntrack.Flow) { ended.Add(1) },
	}})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	flipped, fine := n.conversations(t)
	require.Zero(t, swept(t, d).Judged, "the first Apply has no former ruleset")

	same := edit(shop(), "way3", func(e *dataplane.Endpoint) { e.NATs = nil })
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(shop(), same)))
	require.NoError(t, d.Resync(t.Context()))
	require.Zero(t, swept(t, d).Ended)
	requireTracked(t, n.node, true, append(flipped, fine...))

	require.NoError(t, d.Apply(t.Context(), dptest.Transition(same, narrowed())))
	st := swept(t, d)
	require.Equal(t, uint64(len(flipped)), st.Ended)
	require.Equal(t, int64(len(flipped)), ended.Load())
	requireTracked(t, n.node, true, fine)
	for _, conn := range fine {
		require.True(t, answered(conn), "%s > %s", conn.LocalAddr(), conn.RemoteAddr())
	}
	for _, conn := range flipped {
		require.False(t, exchange(conn, dropTimeout), "%s > %s", conn.LocalAddr(), conn.RemoteAddr())
	}
	requireTracked(t, n.node, false, flipped)

	// A connection that is allowed again can be opened, and continues while its verdict stays.
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(narrowed(), shop())))
	again := talk(t, n, n.workloads[0].NS, "tcp", workloadAddrs(1)[0], 80)
	require.Equal(t, st.Ended, swept(t, d).Ended)
	requireTracked(t, n.node, true, append(fine, again))
}

// By default connections continue if policy denies them later. Those of a removed address end
// (S168).
func TestDeniedConnectionsContinueByDefault(t *testing.T) {
	nfttest.EachForm(t, testDeniedConnectionsContinueByDefault)
}

func testDeniedConnectionsContinueByDefault(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	load(t, n.node, backends)
	d := open(t, n.node, render.Config{Classes: classes})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	flipped, fine := n.conversations(t)
	moved := edit(narrowed(), "way3", func(e *dataplane.Endpoint) { e.Addresses = nil })
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(shop(), narrowed())))
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(narrowed(), moved)))
	var gone, kept []net.Conn
	for _, conn := range append(flipped, fine...) {
		local := netip.MustParseAddrPort(conn.LocalAddr().String())
		remote := netip.MustParseAddrPort(conn.RemoteAddr().String())
		if three := workloadAddrs(2); slices.Contains(three, local.Addr()) || slices.Contains(three, remote.Addr()) {
			gone = append(gone, conn)
		} else {
			kept = append(kept, conn)
		}
	}
	requireTracked(t, n.node, true, kept)
	requireTracked(t, n.node, false, gone)
	require.Equal(t, nft.ConntrackStats{EndedAddresses: uint64(len(gone))}, d.ConntrackStats())
}

// Packets of the server do not reopen an ended connection, although policy allows the server to
// begin one.
func TestServerDoesNotReopenEndedConnection(t *testing.T) {
	nfttest.EachForm(t, testServerDoesNotReopenEndedConnection)
}

func testServerDoesNotReopenEndedConnection(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	d := ender(t, n.node, classes, conntrack.Config{})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	var listener net.Listener
	require.NoError(
		t, n.workloads[1].NS.Do(func() (err error) { listener, err = net.Listen("tcp4", ":8001"); return err }),
	)
	defer func() { require.NoError(t, listener.Close()) }()
	client := n.dial(t, 0, workloadAddrs(1)[0], 8001, waitTimeout)
	require.NotNil(t, client)
	defer func() { _ = client.Close() }()
	server, err := listener.Accept()
	require.NoError(t, err)
	defer func() { _ = server.Close() }()
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(shop(), narrowed())))
	require.Equal(t, uint64(1), swept(t, d).Ended)
	_, err = server.Write([]byte("hello"))
	require.NoError(t, err, "the kernel accepts the data, and retransmits it")
	require.NoError(t, client.SetReadDeadline(time.Now().Add(dropTimeout)))
	_, err = client.Read(make([]byte, 5))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	requireTracked(t, n.node, false, []net.Conn{client, server})
	require.NotNil(t, n.dial(t, 1, workloadAddrs(0)[0], 80, waitTimeout), "the server may begin a connection")
}

// The connections of an address end when it moves to another endpoint, or when the MAC address of
// its endpoint changes. Those of other addresses continue.
func TestConnectionsOfMovedAddressesEnd(t *testing.T) {
	nfttest.EachForm(t, testConnectionsOfMovedAddressesEnd)
}

func testConnectionsOfMovedAddressesEnd(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	d := ender(t, n.node, classes, conntrack.Config{})
	// If policy denies a connection of a moved address, too, either counter may count it.
	ended := func() uint64 {
		s := d.ConntrackStats()
		return s.Ended + s.EndedAddresses
	}
	at := shop()
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), at)))
	one, three := n.workloads[0].NS, n.workloads[2].NS
	to, six := talk(t, n, one, "tcp", workloadAddrs(1)[0], 80), talk(t, n, one, "udp", workloadAddrs(1)[1], 53)
	other := talk(t, n, one, "tcp", workloadAddrs(2)[0], 80)

	moved := at.Clone()
	for _, name := range []string{"way2", "way3"} {
		e := *moved.Endpoints[endpointKey(name)]
		if name == "way2" {
			e.Addresses = workloadAddrs(1)[1:]
		} else {
			e.Addresses = append(addrs("10.99.0.2"), e.Addresses...)
		}
		moved.Endpoints[endpointKey(name)] = &e
	}
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(at, moved)))
	require.Equal(t, uint64(1), ended())
	requireTracked(t, n.node, false, []net.Conn{to})
	swept(t, d)
	requireTracked(t, n.node, true, []net.Conn{six, other})

	otherMAC := edit(moved, "way2", func(e *dataplane.Endpoint) { e.MAC = "02:00:00:00:00:02" })
	from := talk(t, n, three, "tcp", workloadAddrs(0)[1], 80)
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(moved, otherMAC)))
	require.Equal(t, uint64(2), ended())
	requireTracked(t, n.node, false, []net.Conn{six})
	requireTracked(t, n.node, true, []net.Conn{other, from})

	gone := otherMAC.Clone()
	delete(gone.Endpoints, endpointKey("way3"))
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(otherMAC, gone)))
	require.Equal(t, uint64(4), ended())
	requireTracked(t, n.node, false, []net.Conn{other, from})
}

// A failed change ends no connections. Once it is programmed, flows are compared with the last
// programmed ruleset before the failures.
func TestEndAfterFailure(t *testing.T) { nfttest.EachForm(t, testEndAfterFailure) }

func testEndAfterFailure(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	load(t, n.node, backends) // it also makes the kernel track connections while our table does not exist
	shared := ending(classes, conntrack.Config{})
	shared.Shared = true
	d := openEnding(t, n.node, shared)
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	web := talk(t, n, n.workloads[0].NS, "tcp", workloadAddrs(1)[0], 80)
	udp := talk(t, n, n.workloads[2].NS, "udp", workloadAddrs(1)[1], 53)
	both := []net.Conn{web, udp}
	swept(t, d)

	nstest.NFT(t, n.node, "", "delete", "table", "inet", "wayleave")
	free := occupy(t, n.node, "wayleave")
	gone := edit(narrowed(), "way3", func(e *dataplane.Endpoint) { e.Addresses = e.Addresses[:1] })
	require.Error(t, d.Apply(t.Context(), dptest.Transition(shop(), gone)))
	require.Error(t, d.Apply(t.Context(), dataplane.Batch{}))
	require.Zero(t, swept(t, d).EndedAddresses)
	requireTracked(t, n.node, true, both)
	free()
	require.NoError(t, d.Apply(t.Context(), dataplane.Batch{}))
	st := swept(t, d)
	require.Equal(t, uint64(2), st.Ended+st.EndedAddresses, "either mechanism may end one of them")
	requireTracked(t, n.node, false, both)

	require.NoError(t, d.Teardown(t.Context()))
	without := talk(t, n, n.workloads[0].NS, "tcp", workloadAddrs(1)[0], 80)
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), narrowed())))
	require.Equal(t, st.Ended, swept(t, d).Ended, "it began without a ruleset")
	requireTracked(t, n.node, true, []net.Conn{without})
}

// flood sends one packet of UDP from each of many ports of a workload to two ports of another,
// alternately.
func (n *network) flood(t *testing.T, total int) {
	t.Helper()
	src, dst := workloadAddrs(0)[0], workloadAddrs(1)[0]
	require.NoError(t, n.workloads[0].NS.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		for i := range total {
			header := nfttest.Ports(uint16(10_000+i), uint16(5000+i%2))[:8]
			header[5] = 8 // its length; no checksum
			if err := unix.Sendto(
				fd, rawPacket(src, dst, unix.IPPROTO_UDP, header), 0, &unix.SockaddrInet4{Addr: dst.As4()},
			); err != nil {
				return err
			}
		}
		return nil
	}))
}

// floods counts the remaining connections of a flood, by port.
func floods(t *testing.T, ns *netns.NS) (even, odd int) {
	t.Helper()
	for flow := range trackedFlows(t, ns) {
		switch {
		case strings.HasSuffix(flow, "> 10.99.0.2:5000"):
			even++
		case strings.HasSuffix(flow, "> 10.99.0.2:5001"):
			odd++
		}
	}
	return even, odd
}

// port5001 denies one of the ports of a flood.
func port5001() dptest.State {
	s := shop()
	key := policy.Key{Kind: policy.KindPolicy, Namespace: "test", Name: "even"}
	s.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{
			ID: "deny", Action: policy.Deny, Protocol: policy.ProtocolUDP,
			Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(5001)}},
		},
		{ID: "allow", Action: policy.Allow},
	}}
	two := *s.Endpoints[endpointKey("way2")]
	two.Ingress = []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
	s.Endpoints[endpointKey("way2")] = &two
	return s
}

// Of many connections, exactly those end whose verdict changed to Deny, no faster than the rate
// allows.
func TestEndOfManyConnections(t *testing.T) {
	const total, rate = 20_000, 10_000
	n := newNetwork(t)
	d := ender(t, n.node, render.ClassesConfig{}, conntrack.Config{EndRate: rate})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	n.flood(t, total)
	even, odd := floods(t, n.node)
	require.Equal(t, []int{total / 2, total / 2}, []int{even, odd})
	began := time.Now()
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(shop(), port5001())))
	st := swept(t, d)
	require.Equal(t, uint64(total/2), st.Ended+st.Vanished)
	require.GreaterOrEqual(
		t, time.Since(began), time.Duration(total/2-rate/10-64)*time.Second/rate, "faster than allowed",
	)
	even, odd = floods(t, n.node)
	require.Equal(t, []int{total / 2, 0}, []int{even, odd})
}

// Close during the end of connections returns at once. It leaves no goroutine and no open file.
func TestCloseWhileEnding(t *testing.T) {
	n := newNetwork(t)
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(list)
	}
	var before int
	for i := range 4 {
		ending := make(chan struct{})
		once := sync.OnceFunc(func() { close(ending) })
		hooks := conntrack.Hooks{Ending: func(*conntrack.Flow) { once() }}
		d, err := nft.New(nft.Config{
			NetNS: n.node.FD(), ConntrackPolicy: conntrack.End,
			Conntrack: conntrack.Config{EndRate: 1, Delay: -1, Hooks: hooks},
		})
		require.NoError(t, err)
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
		n.flood(t, 200)
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(shop(), port5001())))
		select {
		case <-ending:
		case <-time.After(waitTimeout):
			require.Fail(t, "no connection is ended")
		}
		require.Equal(t, 1, d.ConntrackStats().Pending)
		require.NoError(t, d.Close())
		stacks := make([]byte, 1<<20)
		require.NotContains(t, string(stacks[:runtime.Stack(stacks, true)]), "revoke.(*Revoker)")
		if i == 0 {
			before = descriptors()
		}
	}
	require.Equal(t, before, descriptors())
}

// During many changes, the number of kept rulesets is bounded. Connections that the last state
// denies are ended.
func TestManyChangesKeepFewRulesets(t *testing.T) {
	nfttest.EachForm(t, testManyChangesKeepFewRulesets)
}

func testManyChangesKeepFewRulesets(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	d := ender(t, n.node, classes, conntrack.Config{Delay: 500 * time.Millisecond})
	at := shop()
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), at)))
	web := talk(t, n, n.workloads[0].NS, "tcp", workloadAddrs(1)[0], 80)
	fine := talk(t, n, n.workloads[0].NS, "tcp", workloadAddrs(1)[0], 81)
	for i := range 40 {
		next := narrowed()
		next.Sets["s:three"] = members(fmt.Sprintf("10.99.1.%d", i))
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(at, next)))
		at = next
	}
	require.Equal(t, uint64(1), swept(t, d).Ended)
	requireTracked(t, n.node, false, []net.Conn{web})
	requireTracked(t, n.node, true, []net.Conn{fine})
}

// nft lists the rule for TCPFromSYN as the table's text has it.
func TestTCPFromSYNLists(t *testing.T) { nfttest.EachForm(t, testTCPFromSYNLists) }

func testTCPFromSYNLists(t *testing.T, classes render.ClassesConfig) {
	cfg := render.Config{Classes: classes, TCPFromSYN: true}
	ours, theirs := nstest.New(t), nstest.New(t)
	d := open(t, ours, cfg)
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	load(t, theirs, d.Table().String())
	require.Equal(t, blocks(list(t, theirs)), blocks(list(t, ours)))
	require.Contains(t, list(t, ours), `drop comment "TCP in the middle of a connection"`)
}

func TestNewRefusesConntrackConfig(t *testing.T) {
	_, err := nft.New(nft.Config{ConntrackPolicy: 7})
	require.ErrorContains(t, err, "ConntrackPolicy")
	_, err = nft.New(nft.Config{ConntrackPolicy: conntrack.End, Conntrack: conntrack.Config{EndRate: -1}})
	require.ErrorContains(t, err, "EndRate")
}
