// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// A process that is killed while it programs a kernel without any of its objects leaves no state in
// which packets between pods leave unencrypted. The next process completes the state.
func TestProcessKilledDuringFirstProgramming(t *testing.T) {
	if os.Getenv(childKeys) != "" {
		nstest.TraceSends(t)
		keepNode(t)
	}
	const kills = 12
	c := newCluster(t, 2, nil)
	c.requireReachable()
	n := c.nodes[0]
	whole := n.objects()
	n.stop()
	wire, end := n.capture(), n.startTrafficBothWays(c.nodes[1])
	total := n.programUntilSend(0)
	require.Equal(t, whole, n.objects())
	left := map[string]bool{}
	for i := range kills {
		at := n.programUntilSend(total - i*total/kills)
		state := fmt.Sprintf("killed at message %d of %d to the kernel, which has\n%s", at, total, n.objects())
		t.Log(state)
		left[n.objects()] = true
		require.Empty(t, plaintext(wire.packets()), state)

		n.start()
		c.awaitKeys()
		require.NoError(t, n.driver.WaitApplied(t.Context()))
		c.requireReachable()
		require.Equal(t, whole, n.objects(), state)
		packets := wire.packets()
		require.Contains(t, packets, "wireguard 51820 > 51820", state)
		require.Empty(t, plaintext(packets), state)
		n.stop()
	}
	t.Logf("%d different states", len(left))
	require.GreaterOrEqual(t, len(left), 3)
	end(func(sent, answered int) { require.Greater(t, answered, 0) })
}

// programUntilSend removes all objects of the node, and runs a process that programs them. It kills
// the process when the process sends a message to the kernel for the nth time, or never if nth is
// 0. It returns the number of these messages.
func (n *node) programUntilSend(nth int) (sends int) {
	n.Helper()
	n.clean()
	resources, err := os.Create(filepath.Join(n.TempDir(), "resources"))
	require.NoError(n, err)
	defer resources.Close()
	p := &child{T: n.T, in: resources}
	n.mu.Lock()
	for _, r := range n.resources {
		p.send(r)
	}
	n.mu.Unlock()
	p.endBatch()
	_, err = resources.Seek(0, io.SeekStart)
	require.NoError(n, err)
	cmd := n.childCommand("TestProcessKilledDuringFirstProgramming")
	defer cmd.ExtraFiles[0].Close()
	cmd.Stdin = resources
	return nstest.RunUntilSend(n.T, cmd, nth)
}

// clean removes all objects of the node except its keys, first those that send packets unencrypted.
func (n *node) clean() {
	n.Helper()
	n.run(n.ns, "ss --kill --tcp state connected") // the node's own connections would continue unencrypted
	for _, path := range []string{"net/ipv4/conf/" + n.pod.Host.Name + "/forwarding", "net/ipv6/conf/all/forwarding"} {
		require.NoError(n, n.ns.SetSysctl(path, "0")) // as at the start of the node
	}
	routing, err := routes.New(routes.Config{NetNS: n.ns.FD(), ForwardAllIPv6: true})
	require.NoError(n, err)
	require.NoError(n, routing.Teardown(n.Context()))
	require.NoError(n, routing.Close())
	wg, err := wireguard.New(n.cfg)
	require.NoError(n, err)
	require.NoError(n, wg.Teardown(n.Context()))
	require.NoError(n, wg.Close())
	require.Empty(n, n.list("wg", "ip -o link"))
}

// objects returns the rules, routes, addresses and peers of the node.
func (n *node) objects() string {
	n.Helper()
	text := fmt.Sprintln(n.peers(), "peers")
	for _, family := range []string{"-4", "-6"} {
		text += n.run(n.ns, "ip %s rule", family) + n.run(n.ns, "ip %s route show table all proto 236", family) +
			n.run(n.ns, "ip %s route show table all proto 219", family) +
			n.run(n.ns, "ip -br %s addr show scope global", family)
	}
	return text
}

// peers returns the number of peers of all devices.
func (n *node) peers() (number int) {
	n.Helper()
	require.NoError(n, n.ns.Do(func() error {
		client, err := wgctrl.New()
		if err != nil {
			return err
		}
		defer client.Close()
		devices, err := client.Devices()
		for _, d := range devices {
			number += len(d.Peers)
		}
		return err
	}))
	return number
}

// endBatch makes the process program the resources that it has received.
func (p *child) endBatch() { _, _ = p.in.Write([]byte("\n")) }

// keepNode reads resources from the standard input until its end. At each empty line, it programs
// all resources that it has read. It writes "applied" once the first state is applied, and each
// announcement as JSON.
func keepNode(t *testing.T) {
	cfg := childConfig()
	cfg.Announce = func(keys []policy.WireguardKey) {
		line, err := json.Marshal(keys)
		require.NoError(t, err)
		_, _ = os.Stdout.Write(append(line, '\n'))
	}
	wg, err := wireguard.New(cfg)
	require.NoError(t, err)
	wg.SetRotationDelay(5 * time.Second)
	routing, err := routes.New(routes.Config{NetNS: cfg.NetNS, ForwardAllIPv6: true})
	require.NoError(t, err)
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{wg, routing}})
	require.NoError(t, err)
	graph, err := calcgraph.New(calcgraph.Config{Node: cfg.Node})
	require.NoError(t, err)
	go func() { _ = driver.Run(t.Context()) }()
	lines := bufio.NewScanner(os.Stdin)
	for complete := false; lines.Scan(); {
		if len(lines.Bytes()) > 0 {
			update(t, graph, lines.Bytes())
			continue
		}
		graph.InSync()
		require.NoError(t, driver.Send(t.Context(), graph.Flush()))
		if !complete {
			complete = true
			require.NoError(t, driver.WaitApplied(t.Context()))
			_, _ = os.Stdout.WriteString("applied\n")
		}
	}
	os.Exit(0)
}
