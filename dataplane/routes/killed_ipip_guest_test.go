// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package routes_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/policy"
)

// ipipChild is set in a process that keeps the first node of a cluster: its namespace is file 3, and the
// resources come from the standard input.
const ipipChild = "WAYLEAVE_TEST_IPIP"

// A process that is killed and starts again loses no packet, and writes nothing.
func TestIPIPProcessKilledUnderTraffic(t *testing.T) {
	if os.Getenv(ipipChild) != "" {
		restartUntilKilled(t)
	}
	const kills = 8
	c := newIPIPCluster(t, policy.EncapAlways, 2, 3)
	c.reach()
	n, rng := c.nodes[0], rand.New(rand.NewPCG(4, 8))
	index, err := n.ns.Link("ipip.way")
	require.NoError(t, err)
	traffic := c.startTraffic("n1", "n2")
	for range kills {
		child := exec.Command(os.Args[0], "-test.run=^TestIPIPProcessKilledUnderTraffic$")
		child.ExtraFiles = []*os.File{os.NewFile(uintptr(dup(t, n.ns.FD())), "netns")}
		child.Env = append(os.Environ(), ipipChild+"=1")
		in, err := child.StdinPipe()
		require.NoError(t, err)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		require.NoError(t, child.ExtraFiles[0].Close())
		for _, r := range append(c.ipipResources(policy.EncapAlways), c.endpoints()...) {
			line, err := policy.Encode(r)
			require.NoError(t, err)
			_, err = in.Write(append(line, '\n'))
			require.NoError(t, err)
		}
		require.NoError(t, in.Close())
		started := make([]byte, 1)
		_, err = out.Read(started)
		require.NoError(t, err)
		require.Equal(t, "!", string(started))
		// how far it gets is the randomness of this test
		<-time.NewTimer(time.Duration(rng.IntN(400)) * time.Millisecond).C
		require.NoError(t, child.Process.Kill())
		_ = child.Wait() // killed
		n.restart()
		require.NoError(t, n.dp.Apply(t.Context(), n.graph.Snapshot()))
		require.Zero(t, n.dp.Stats().Added+n.dp.Stats().Replaced+n.dp.Stats().Deleted)
	}
	sent, answered := traffic()
	t.Logf("%d packets, %d answers", sent, answered)
	require.Equal(t, sent, answered)
	require.Greater(t, sent, 10*kills)
	again, err := n.ns.Link("ipip.way")
	require.NoError(t, err)
	require.Equal(t, index, again)
}

// endpoints are the pods of the cluster.
func (c *cluster) endpoints() (list []policy.Resource) {
	for name, p := range c.pods {
		list = append(list, &policy.WorkloadEndpoint{
			Namespace: "shop", Name: name, Node: p.at.name, Interface: p.Host.Name, Addresses: p.Addresses,
			MAC: p.Link.MAC.String(),
		})
	}
	return list
}

// restartUntilKilled starts a dataplane again and again, for some seconds at most.
func restartUntilKilled(t *testing.T) {
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	require.NoError(t, err)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		r, err := policy.Decode(lines.Bytes())
		require.NoError(t, err)
		graph.Update(policy.Update{Key: r.Key(), Resource: r})
	}
	require.NoError(t, lines.Err())
	graph.InSync()
	graph.Flush()
	for i := range 500 {
		dp, err := routes.New(routes.Config{NetNS: 3, ForwardAllIPv6: true})
		require.NoError(t, err)
		require.NoError(t, dp.Apply(t.Context(), graph.Snapshot()))
		if i == 0 {
			_, err = os.Stdout.WriteString("!")
			require.NoError(t, err)
		}
		require.NoError(t, dp.Resync(t.Context()))
		require.NoError(t, dp.Close())
	}
	os.Exit(1) // it was not killed
}

// startTraffic sends packets from one pod to another, which answers each. The returned function ends that
// and returns the numbers of packets and answers.
func (c *cluster) startTraffic(from, to string) (end func() (sent, answered int)) {
	c.Helper()
	server, client := c.pods[to], c.pods[from]
	var echo net.PacketConn
	require.NoError(c, server.NS.Do(func() (err error) {
		echo, err = net.ListenPacket("udp", net.JoinHostPort(server.Addresses[0].String(), "0"))
		return err
	}))
	var conn net.Conn
	require.NoError(c, client.NS.Do(func() (err error) {
		conn, err = net.Dial("udp", echo.LocalAddr().String())
		return err
	}))
	ctx, cancel := context.WithCancel(c.Context())
	echoed, sending, receiving := make(chan struct{}), make(chan int, 1), make(chan int, 1)
	go func() {
		defer close(echoed)
		buf := make([]byte, 1<<11)
		for {
			n, peer, err := echo.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(buf[:n], peer) // a lost answer is counted
		}
	}()
	go func() {
		tick, sent := time.NewTicker(10*time.Millisecond), 0
		defer tick.Stop()
		for ctx.Err() == nil {
			if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, uint32(sent))); err == nil {
				sent++
			}
			<-tick.C
		}
		sending <- sent
	}()
	go func() {
		buf, answers := make([]byte, 1<<11), map[uint32]bool{}
		for {
			n, err := conn.Read(buf)
			switch {
			case n == 4:
				answers[binary.BigEndian.Uint32(buf)] = true
			case err != nil && ctx.Err() != nil:
				receiving <- len(answers)
				return
			}
		}
	}()
	return func() (sent, answered int) {
		cancel()
		sent = <-sending
		require.NoError(c, conn.SetReadDeadline(time.Now().Add(5*time.Second))) // for the last answers
		answered = <-receiving
		require.NoError(c, conn.Close())
		require.NoError(c, echo.Close())
		<-echoed
		return sent, answered
	}
}
