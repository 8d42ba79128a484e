// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// The agent counts packets of real connections, by the policies of both ends, and dropped packets,
// by the rule that denies. The counts of an open connection are those of the kernel.
func TestFlows(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	require.NoError(t, node.SetSysctl("net/ipv4/ip_forward", "1"))
	web := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "web"), "10.0.0.1")
	cart := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "cart"), "10.0.0.2")
	write(t, dir, "pods.yaml", namespace+pod("web", "10.0.0.1")+pod("cart", "10.0.0.2"))
	write(t, dir, "policy.yaml", fmt.Sprintf(annotated, 81))
	r := startWith(t, node, dir, t.TempDir(), map[string]string{"verdict-log-group": "4", "flows": "true"})
	r.until(t, well)

	// Packets are not counted until the agent follows the group.
	dropped := func(f api.Flow) bool { return f.Decision == "deny" && f.Packets > 0 }
	awaitFlow(t, r, dropped, func() { require.True(t, nstest.Dropped(t, cart.NS, "10.0.0.1:81")) })
	f := awaitFlow(t, r, dropped, func() {})
	require.Equal(t, "shop/cart shop/web TCP 81", ends(f))
	require.Equal(t, "Policy/shop/default.web ingress 1", fmt.Sprint(f.Policy, " ", f.Direction, " ", *f.Rule))
	require.Zero(t, f.Connections)
	require.Equal(t, uint64(60), f.Bytes/f.Packets, "a SYN with the kernel's options")

	conn, stop := talk(t, web.NS, cart.NS)
	const least = 3 * 1000 // bytes
	for _, direction := range []string{"ingress", "egress"} {
		allowed := func(f api.Flow) bool { return f.Direction == direction && f.Bytes > least && f.ReplyBytes > least }
		f = awaitFlow(t, r, allowed, func() {})
		require.Equal(t, "shop/cart shop/web TCP 80", ends(f))
		require.Equal(t, uint64(1), f.Connections)
		require.Less(t, f.Packets, uint64(20))
	}
	require.NoError(t, conn.Close())
	stop()
	_, text := r.http(t, "/metrics")
	for _, want := range []string{
		`wayleave_flow_connections_total{direction="ingress",policy="Policy/shop/default.web",reason="",` +
			`verdict="allow"} 1`,
		`wayleave_flow_packets_total{direction="ingress",policy="Policy/shop/default.web",reason="",verdict="deny"} `,
		"wayleave_flows 4\n", // policy of cart allows both ports
	} {
		require.Contains(t, text, want)
	}
	r.end(t)
}

// Connections without replies, and two simultaneous pings, are counted by their packets. Without
// traffic, the counts stay the same.
func TestFlowsWithoutReplies(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	require.NoError(t, node.SetSysctl("net/ipv4/ip_forward", "1"))
	web := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "web"), "10.0.0.1")
	cart := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "cart"), "10.0.0.2")
	write(t, dir, "pods.yaml", namespace+pod("web", "10.0.0.1")+pod("cart", "10.0.0.2"))
	r := startWith(t, node, dir, t.TempDir(), map[string]string{"verdict-log-group": "4", "flows": "true"})
	r.until(t, well)
	nstest.NFT(t, web.NS, "table inet t { chain c { type filter hook input priority 0; udp dport 514-515 drop; }; }",
		"-f", "-")
	var udp, icmp net.PacketConn
	require.NoError(t, cart.NS.Do(func() (err error) {
		if udp, err = net.ListenPacket("udp", "10.0.0.2:5000"); err == nil {
			icmp, err = net.ListenPacket("ip4:icmp", "10.0.0.2")
		}
		return err
	}))
	defer func() { require.NoError(t, udp.Close()) }()
	defer func() { require.NoError(t, icmp.Close()) }()
	send := func(port int) {
		_, err := udp.WriteTo(make([]byte, 972), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port})
		require.NoError(t, err)
	}
	to := func(port uint16, packets int) func(api.Flow) bool {
		return func(f api.Flow) bool { return f.Port == port && f.Packets >= uint64(packets) }
	}
	awaitFlow(t, r, to(515, 1), func() { send(515) }) // packets are not counted until the agent follows the group
	const echoes = 5
	for id := range byte(2) {
		for range echoes {
			request := []byte{8, 0, 0xf7, 0xff - id, 0, id, 0, 0}
			_, err := icmp.WriteTo(request, &net.IPAddr{IP: net.IPv4(10, 0, 0, 1)})
			require.NoError(t, err)
		}
	}
	for n := 1; n <= 4; n++ {
		send(514)
		send(514)
		awaitFlow(t, r, to(514, 2*n), func() {})
		all, err := api.Get[api.Flows](t.Context(), r.Client, "/v1/flows")
		require.NoError(t, err)
		checked := 0
		for _, f := range all.Flows {
			counted := []uint64{f.Connections, f.Packets, f.Bytes, f.ReplyPackets}
			switch {
			case f.Port == 514:
				require.Equal(t, []uint64{1, 2 * uint64(n), 2000 * uint64(n), 0}, counted)
				checked++
			case f.Protocol == "ICMP" && n > 1:
				require.Equal(t, []uint64{2, 2 * echoes, 28 * 2 * echoes, 2 * echoes}, counted)
				checked++
			}
		}
		require.Equal(t, 2*min(n, 2), checked, "the policies of both ends")
	}
	_, text := r.http(t, "/metrics")
	for _, direction := range []string{"egress", "ingress"} {
		want := fmt.Sprintf(`wayleave_flow_connections_total{direction=%q,policy="Profile/kns.shop",reason="",`+
			`verdict="allow"} 4`+"\n", direction)
		require.Contains(t, text, want) // one to each port, and two pings
	}
	r.end(t)
}

func ends(f api.Flow) string {
	return fmt.Sprint(f.Source, " ", f.Destination, " ", f.Protocol, " ", f.Port)
}

// awaitFlow returns a wanted flow, once there is one. It calls attempt before each request.
func awaitFlow(t *testing.T, r *running, wanted func(api.Flow) bool, attempt func()) (found api.Flow) {
	t.Helper()
	require.Eventually(t, func() bool {
		attempt()
		all, err := api.Get[api.Flows](t.Context(), r.Client, "/v1/flows")
		if err != nil {
			return false // the flow has just begun
		}
		i := slices.IndexFunc(all.Flows, wanted)
		if i >= 0 {
			found = all.Flows[i]
		}
		return i >= 0
	}, waitTimeout, 50*time.Millisecond)
	return found
}

// talk opens a connection from cart to web, over which each side sends 4,000 bytes.
func talk(t *testing.T, web, cart *netns.NS) (conn net.Conn, stop func()) {
	t.Helper()
	var listener net.Listener
	require.NoError(t, web.Do(func() (err error) {
		listener, err = net.Listen("tcp", "10.0.0.1:80")
		return err
	}))
	served := make(chan struct{})
	go func() {
		defer close(served)
		peer, err := listener.Accept()
		if err != nil {
			return
		}
		buf := make([]byte, 4000)
		for {
			n, err := peer.Read(buf)
			if err != nil {
				_ = peer.Close()
				return
			}
			_, _ = peer.Write(buf[:n])
		}
	}()
	require.NoError(t, cart.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", "10.0.0.1:80", waitTimeout)
		return err
	}))
	for range 4 {
		_, err := conn.Write([]byte(strings.Repeat("x", 1000)))
		require.NoError(t, err)
		for read := 0; read < 1000; {
			n, err := conn.Read(make([]byte, 1000))
			require.NoError(t, err)
			read += n
		}
	}
	return conn, func() {
		require.NoError(t, listener.Close())
		<-served
	}
}

// Without the setting, the error names the setting.
func TestFlowsWithoutSetting(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	_, err := api.Get[api.Flows](t.Context(), r.Client, "/v1/flows")
	require.ErrorContains(t, err, "flows are not counted: set flows and verdict-log-group")
	value, err := node.Sysctl("net/netfilter/nf_conntrack_acct")
	require.NoError(t, err)
	require.Equal(t, "0", value)
	r.end(t)
}

// BenchmarkNewFlow measures the time for the first packet of a flow between two workloads, as its
// sender sees it. It also measures the processor time for the packet, including the processor time
// of the agent. With flows, packets are logged, and the agent counts them.
func BenchmarkNewFlow(b *testing.B) {
	const burst = 200
	for name, change := range map[string]map[string]string{
		"off":   nil,
		"log":   {"verdict-log-group": "4"},
		"flows": {"verdict-log-group": "4", "flows": "true"},
	} {
		b.Run(name, func(b *testing.B) {
			node, dir := nstest.New(b), b.TempDir()
			require.NoError(b, node.SetSysctl("net/ipv4/ip_forward", "1"))
			web := nstest.NewWorkload(b, node, convert.InterfaceName("shop", "web"), "10.0.0.1")
			cart := nstest.NewWorkload(b, node, convert.InterfaceName("shop", "cart"), "10.0.0.2")
			write(b, dir, "pods.yaml", namespace+pod("web", "10.0.0.1")+pod("cart", "10.0.0.2"))
			r := startWith(b, node, dir, b.TempDir(), change)
			r.until(b, well)
			conn := discardAll(b, web.NS, cart.NS)
			if change["flows"] != "" {
				require.Eventually(b, func() bool {
					_, err := conn.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1})
					require.NoError(b, err)
					all, err := api.Get[api.Flows](b.Context(), r.Client, "/v1/flows")
					return err == nil && len(all.Flows) > 0
				}, waitTimeout, 50*time.Millisecond)
			}
			before, sending, port := processorTime(b), time.Duration(0), 1
			for b.Loop() {
				began := time.Now()
				for range burst {
					port = port%60_000 + 1
					_, err := conn.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port})
					if err != nil {
						b.Fatal(err)
					}
				}
				sending += time.Since(began)
				time.Sleep(10 * time.Millisecond) // with more flows a second, verdicts are missed
			}
			flows := float64(b.N * burst)
			b.ReportMetric(float64(sending)/flows, "send-ns/flow")
			b.ReportMetric(float64(processorTime(b)-before)/flows, "cpu-ns/flow")
			if change["flows"] != "" {
				all, err := api.Get[api.Flows](b.Context(), r.Client, "/v1/flows")
				require.NoError(b, err)
				b.ReportMetric(float64(all.MissedVerdicts)/flows, "missed/flow")
			}
			r.end(b)
		})
	}
}

// discardAll makes one workload drop all packets, and returns a socket of the other workload.
func discardAll(b *testing.B, to, from *netns.NS) (conn net.PacketConn) {
	b.Helper()
	const rules = "table inet t { chain c { type filter hook prerouting priority -400; policy drop; }; }"
	nstest.NFT(b, to, rules, "-f", "-")
	require.NoError(b, from.Do(func() (err error) {
		conn, err = net.ListenPacket("udp", "10.0.0.2:0")
		return err
	}))
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// processorTime returns the processor time of this process in nanoseconds.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}
