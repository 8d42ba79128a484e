// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package routes_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// ipipChild is set in a process that keeps the first node of a cluster. The namespace of the node
// is file 3, and the resources come from the standard input.
const ipipChild = "WAYLEAVE_TEST_IPIP"

// ipipCommand returns the command that runs a test in a process that keeps the first node, until it
// has programmed it once or repeatedly. The caller closes its files.
func (c *cluster) ipipCommand(test, programs string) *exec.Cmd {
	c.Helper()
	resources, err := os.Create(filepath.Join(c.TempDir(), "resources"))
	require.NoError(c, err)
	for _, r := range append(c.ipipResources(policy.EncapAlways), c.endpoints()...) {
		line, err := policy.Encode(r)
		require.NoError(c, err)
		_, err = resources.Write(append(line, '\n'))
		require.NoError(c, err)
	}
	_, err = resources.Seek(0, io.SeekStart)
	require.NoError(c, err)
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Stdin, cmd.Stderr = resources, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(dup(c.T, c.nodes[0].ns.FD())), "netns"), resources}
	cmd.Env = append(os.Environ(), ipipChild+"="+programs)
	return cmd
}

// closeFiles closes the files of a command of ipipCommand.
func closeFiles(cmd *exec.Cmd) {
	for _, file := range cmd.ExtraFiles {
		_ = file.Close()
	}
}

// When a process is killed and starts again, no packet is lost, and nothing is written.
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
		child := c.ipipCommand(t.Name(), "repeatedly")
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		closeFiles(child)
		started := make([]byte, 1)
		_, err = out.Read(started)
		require.NoError(t, err)
		require.Equal(t, "!", string(started))
		// the moment is random
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

// A process is killed while it programs a kernel without any of its objects. It leaves no state in
// which packets between pods leave without IP in IP. The next process completes the state.
func TestIPIPProcessKilledDuringFirstProgramming(t *testing.T) {
	if os.Getenv(ipipChild) != "" {
		nstest.TraceSends(t)
		restartUntilKilled(t)
	}
	const kills = 8
	c := newIPIPCluster(t, policy.EncapAlways, 2, 2)
	c.reach()
	n := c.nodes[0]
	n.ip("route del default") // otherwise packets of the pod use it until the route through the device exists
	whole := n.objects()
	wires := []capture{c.capture("to-n1"), c.capture("to-n2")}
	ends := []func() (int, int){c.startTraffic("n1", "n2"), c.startTraffic("n2", "n1")}
	total, left := c.programUntilSend(0), map[string]bool{}
	require.Equal(t, whole, n.objects())
	for i := range kills {
		at := c.programUntilSend(total - i*total/(2*kills)) // the first half of the messages only reads
		state := fmt.Sprintf("killed at message %d of %d to the kernel, which has\n%s", at, total, n.objects())
		t.Log(state)
		left[n.objects()] = true
		n.restart()
		require.NoError(t, n.dp.Apply(t.Context(), n.graph.Snapshot()))
		c.reach()
		require.Equal(t, whole, n.objects(), state)
		for _, wire := range wires {
			packets := wire.packets()
			require.NotEmpty(t, packets)
			require.Empty(t, unencapsulated(packets), state)
		}
	}
	t.Logf("%d different states", len(left))
	require.GreaterOrEqual(t, len(left), 3)
	for _, end := range ends {
		sent, answered := end()
		t.Logf("%d packets, %d answers", sent, answered)
		require.Greater(t, answered, 0)
	}
}

// programUntilSend removes all objects of the first node, and runs a process that programs them. It
// kills the process when the process sends its nth message to the kernel, or never if nth is 0. It
// returns the number of these messages.
func (c *cluster) programUntilSend(nth int) (sends int) {
	c.Helper()
	n := c.nodes[0]
	n.restart()
	require.NoError(c, n.dp.Teardown(c.Context()))
	require.Empty(c, n.list("ipip.way", "ip", "-o", "link"))
	// As at the start of the node.
	require.NoError(c, n.ns.SetSysctl("net/ipv4/conf/"+c.pods["n1"].Host.Name+"/forwarding", "0"))
	cmd := c.ipipCommand("TestIPIPProcessKilledDuringFirstProgramming", "once")
	defer closeFiles(cmd)
	return nstest.RunUntilSend(c.T, cmd, nth)
}

// objects returns the routes and the tunnel device of the node.
func (n *clusterNode) objects() string {
	n.Helper()
	lines := n.list("", "ip", "route", "show", "table", "all", "proto", "219")
	return strings.Join(append(lines, n.list("ipip.way", "ip", "-br", "addr", "show")...), "\n")
}

// endpoints returns the endpoints of the cluster's pods.
func (c *cluster) endpoints() (list []policy.Resource) {
	for name, p := range c.pods {
		list = append(list, p.endpoint(name))
	}
	return list
}

// restartUntilKilled starts a dataplane repeatedly, for some seconds at most.
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
		if os.Getenv(ipipChild) == "once" {
			os.Exit(0)
		}
		if i == 0 {
			_, err = os.Stdout.WriteString("!")
			require.NoError(t, err)
		}
		require.NoError(t, dp.Resync(t.Context()))
		require.NoError(t, dp.Close())
	}
	os.Exit(1) // it was not killed
}

// startTraffic sends packets from one pod to another, which answers each. The returned function
// stops it and returns the numbers of packets and answers.
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
